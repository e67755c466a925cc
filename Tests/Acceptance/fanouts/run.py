"""Fan-outs to an audience with real processes. Workers are killed, started and stopped during a fan-out, newer commands
come, Redis is away or empty. The invariants of `invariants.py` are checked from outside.

    run.py PROGRAM                     causeway, with causeway-lab beside it: every case
    run.py PROGRAM killed overtaken-50 these cases

The last line says how many passed and failed."""

import functools
import os
import pathlib
import sys
import types

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fanouts import check  # noqa: E402
from fanouts.cases import CASES, CaseContext  # noqa: E402
from fanouts.crowd import Crowd, OutcomeReader  # noqa: E402
from fanouts.deployment import FanoutDeployment  # noqa: E402
from fleet import campaign  # noqa: E402
from fleet.leaks import Secrets, find_secrets  # noqa: E402
from fleet.observers import GroupObserver  # noqa: E402
from recorded_runs.invariant_results import print_report  # noqa: E402


def parse_options(arguments):
    parser = campaign.make_parser(__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=[], metavar="case")
    parser.add_argument("--members", type=int, default=24_000)
    parser.add_argument("--times", type=int, default=1, help="play each case so often (1)")
    return parser.parse_intermixed_args(arguments)


def play(case, options, directory):
    """Runs one case, and leaves its evidence in the directory. Returns its figures, and a problem for each secret
    that it finds in the output."""
    group = GroupObserver()
    with FanoutDeployment(options.program, directory, group, case.redis_class) as deployment:
        deployment.start_simulator()
        deployment.set_apns_speed()
        deployment.start_broker()
        deployment.start_redis()
        deployment.detect_http()
        deployment.apns_proxy.open()
        crowd = Crowd(deployment, options.members, case.joiner_count)
        outcomes = OutcomeReader(deployment)
        context = CaseContext(deployment, crowd, outcomes, group)
        outcomes.start()
        try:
            context.start_workers()
            crowd.join()
            case.play(context)
            context.wait_for_end()
            deployment.check_processes()
            for worker in deployment.running_workers:
                worker.stop()
        finally:
            outcomes.finish()
            crowd.close()
        crowd.write_files()
        secrets = Secrets(crowd.tokens, [deployment.simulator["keyFile"], deployment.path("server-key.pem")])
        secrets_found = find_secrets(directory, secrets)[1]
        return context.figures, [f"a secret: {one}" for one in secrets_found]


def play_and_check(case, options, directory):
    """Runs one case, and checks its evidence even if it ended early. Returns its figures and its problems."""
    figures, problems = campaign.attempt(play, case, options, directory)
    if os.path.exists(os.path.join(directory, "crowd.json")):
        settings = types.SimpleNamespace(**vars(check.make_parser().parse_args([])) | case.options)
        violated_count = print_report(check.check_run(directory, settings), "   ")
        problems += [f"{violated_count} invariants are violated"] if violated_count else []
    return figures, problems


def main(arguments):
    options = parse_options(arguments)
    names = (options.cases or list(CASES)) * options.times
    cases = [(name, CASES[name].play.__doc__, functools.partial(play_and_check, CASES[name], options)) for name in names]
    return campaign.run_cases("fanouts", cases, options.keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

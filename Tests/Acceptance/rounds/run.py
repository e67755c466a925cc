"""Rounds through an audience with real processes. Workers are killed, started and stopped during a round, newer commands come, Redis is
away or empty. The laws of `promises.py` are checked from outside.

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

from common import campaign  # noqa: E402
from common.laws import report  # noqa: E402
from fleet.leaks import Secrets, look  # noqa: E402
from fleet.watch import Group  # noqa: E402
from rounds import judge  # noqa: E402
from rounds.arena import Arena  # noqa: E402
from rounds.cases import ALL, Scene  # noqa: E402
from rounds.crowd import Crowd, Outcomes  # noqa: E402


def options(arguments):
    parser = campaign.parser(__doc__)
    parser.add_argument("cases", nargs="*", choices=[*ALL, []], default=[], metavar="case")
    parser.add_argument("--members", type=int, default=24_000)
    parser.add_argument("--times", type=int, default=1, help="play each case so often (1)")
    return parser.parse_intermixed_args(arguments)


def play(case, chosen, directory):
    """Runs one case, and leaves its evidence in the directory. Returns its figures, and its problems other
    than broken laws."""
    group = Group()
    with Arena(chosen.program, directory, group, case.servers) as deployment:
        deployment.start_simulator()
        deployment.set_pace()
        deployment.start_broker()
        deployment.start_redis()
        deployment.look_for_http()
        deployment.apns_gate.open()
        crowd = Crowd(deployment, chosen.members, case.later)
        outcomes = Outcomes(deployment)
        scene = Scene(deployment, crowd, outcomes, group)
        outcomes.start()
        try:
            scene.start_workers()
            crowd.join()
            case.play(scene)
            scene.done()
            stop_in_order(deployment)
        finally:
            outcomes.finish()
            crowd.close()
        crowd.write()
        found = look(directory, Secrets(crowd.tokens, [deployment.simulator["keyFile"], deployment.path("server-key.pem")]))[1]
        return scene.figures, [f"a secret: {one}" for one in found]


def stop_in_order(deployment):
    """Checks that every worker that still runs stops in order."""
    for worker in deployment.workers.values():
        if worker.process.is_running():
            worker.stop()


def judged(case, chosen, directory):
    """Runs one case, and judges its evidence even if it ended early. Returns its figures and its problems."""
    figures, wrong = campaign.attempt(play, case, chosen, directory)
    if os.path.exists(os.path.join(directory, "crowd.json")):
        settings = types.SimpleNamespace(**vars(judge.parser().parse_args([])) | case.options)
        broken = report(judge.verdicts(directory, settings), "   ")
        wrong += [f"{broken} laws are broken"] if broken else []
    return figures, wrong


def main(arguments):
    chosen = options(arguments)
    names = (chosen.cases or list(ALL)) * chosen.times
    cases = [(name, ALL[name].play.__doc__, functools.partial(judged, ALL[name], chosen)) for name in names]
    return campaign.run("rounds", cases, chosen.keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

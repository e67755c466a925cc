"""A fleet of workers on a broker that rebalances groups. The invariants of season/invariants.py are checked from outside.

    run.py PROGRAM                    causeway, with causeway-lab beside it: every scenario except the upgrade, on the
                                      system's librdkafka, as a fleet joins by default
    run.py PROGRAM --all              the same on two versions of librdkafka, with two protocols, and with dynamic and
                                      with static members
    run.py PROGRAM rolling failures   these scenarios
    run.py PROGRAM --former OTHER     two versions of the program: an upgrade and a rollback

The last line says how many passed and failed."""

import functools
import json
import pathlib
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fleet import campaign  # noqa: E402
from fleet.deployment import BUDGET, REPOSITORY, SPACING_MILLISECONDS, Deployment, FleetKind  # noqa: E402
from fleet.load import Load  # noqa: E402
from fleet.observers import GroupObserver, ResultReader  # noqa: E402
from fleet.run_report import RunReport, check_run, check_secrets  # noqa: E402
from fleet.scenarios import SCENARIOS, ScenarioContext  # noqa: E402
from processes import Failure, wait_until  # noqa: E402

NEWER_LIBRARY = str(REPOSITORY / ".build/fleet/librdkafka-2.16")
LIBRARIES = {"system": "system", "newer": NEWER_LIBRARY}
PROTOCOLS = ["cooperative-sticky", "range", "roundrobin"]
SETTLE_SECONDS = 120
QUIET_SECONDS = 2
EAGER_FACTOR = 5


def parse_options(arguments):
    parser = campaign.make_parser(__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=[], metavar="scenario")
    parser.add_argument("--all", action="store_true", help="every library, protocol and membership")
    parser.add_argument("--library", choices=LIBRARIES, default="system")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="range")
    parser.add_argument("--static", action="store_true", help="give each worker a group.instance.id")
    parser.add_argument("--coordinator", choices=["kafka", "broker"], default="kafka", help="who keeps the group (kafka)")
    parser.add_argument("--former", help="causeway of another version, to upgrade from and to roll back to")
    parser.add_argument("--activities", type=int, default=2_000)
    parser.add_argument("--rate", type=int, default=2_000, help="commands a second (2000)")
    parser.add_argument("--repetitions", type=int, default=10, help="how often the whole fleet restarts, or a worker joins and leaves (10)")
    options = parser.parse_intermixed_args(arguments)
    if not options.scenarios:
        options.scenarios = [name for name in SCENARIOS if SCENARIOS[name].needs_former == bool(options.former)]
    return options


def fleet_kinds(options):
    if not options.all:
        return [FleetKind(LIBRARIES[options.library], options.protocol, options.static, options.coordinator)]
    return [
        FleetKind(library, protocol, static, "kafka")
        for library in LIBRARIES.values()
        for protocol in PROTOCOLS[:2]
        for static in (False, True)
    ]


def play(name, kind, options, directory):
    """Runs one scenario with one kind of fleet. Returns its figures and its problems."""
    scenario = SCENARIOS[name]
    group = GroupObserver()
    with Deployment(options.program, kind, directory, group) as deployment:
        deployment.start_simulator()
        deployment.detect_http()
        if not scenario.is_empty:
            deployment.start_broker()
            deployment.start_redis()
            deployment.apns_proxy.open()
        with open(deployment.path("policy.json"), "w", encoding="utf-8") as file:
            json.dump({"spacingMilliseconds": SPACING_MILLISECONDS, "budget": BUDGET}, file)
        context = ScenarioContext(deployment, Load(deployment, options.activities, options.rate), ResultReader(deployment), group, options)
        context.results.start()
        try:
            scenario.play(context)
            finish(context)
        finally:
            context.load.cancel()
            if context.fanouts_and_starts is not None:
                context.fanouts_and_starts.close()
            context.results.finish()
            write_assignment_history(context)
        other_report = RunReport()
        if context.fanouts_and_starts is not None:
            # The invariants are checked only for the load. So the pushes of fan-outs and starts, which are no part of the load,
            # are first removed from the log.
            context.fanouts_and_starts.check(other_report)
        report = check_run(deployment, context.load, allowance(scenario, kind, context.load))
        check_secrets(deployment, context.load, report)
        if context.fanouts_and_starts is not None:
            report.figures.update(other_report.figures)
            report.problems += other_report.problems
        return {**context.figures, **context.health.figures, **report.figures}, report.problems


def finish(context):
    """Ends the load, waits at most `SETTLE_SECONDS` until every command has its outcome, and stops the workers one by
    one."""
    context.load.finish()
    try:
        seconds = wait_until(lambda: len(context.results.final_commands) >= context.load.sent_count, SETTLE_SECONDS, "settled")
        context.figures["all settled after"] = f"{seconds:.1f} s"
    except Failure:
        context.figures["all settled after"] = f"never: {len(context.results.final_commands)} of {context.load.sent_count}"
    context.deployment.check_processes()
    running = context.deployment.running_workers
    if context.fanouts_and_starts is not None:
        context.fanouts_and_starts.settle()
    context.health.check_caught_up("nothing is behind", running)
    context.health.save_pages(running)
    context.figures["last stops took"] = f"{max([worker.stop() for worker in running]):.1f} s at most"
    wait_until(lambda: time.monotonic() - context.results.last_result_seconds > QUIET_SECONDS, 30, "no more results")


def allowance(scenario, kind, load):
    """Returns how many repetitions the checks allow, and how long a state may wait. An eager group revokes all partitions
    from all members in each rebalance, so more records are read again."""
    again = load.sent_count * (1 if kind.protocol == "cooperative-sticky" else EAGER_FACTOR)
    return {
        "repeats": int(scenario.repeats * load.sent_count), "results_again": int(scenario.results_again * again),
        "alerts_again": int(scenario.alerts_again * again), "lost_responses": scenario.apns_cuts * len(load.activities),
        "wait_spacings": scenario.wait_seconds * 1_000 / SPACING_MILLISECONDS,
    }


def write_assignment_history(context):
    with open(context.deployment.path("group.jsonl"), "w", encoding="utf-8") as file:
        for seconds, generation, worker, partitions in context.group.history:
            line = {"seconds": round(seconds, 2), "generation": generation, "worker": worker, "partitions": partitions}
            file.write(json.dumps(line) + "\n")


def main(arguments):
    options = parse_options(arguments)
    cases = [
        (name, f"{SCENARIOS[name].play.__doc__} ({kind})", functools.partial(play, name, kind, options))
        for kind in fleet_kinds(options)
        for name in options.scenarios
    ]
    return campaign.run_cases("fleet", cases, options.keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

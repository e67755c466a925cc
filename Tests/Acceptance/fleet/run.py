"""A fleet of workers on a broker that rebalances groups. The laws of season/laws.py are checked from outside.

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
from fleet.deployment import BUDGET, REPOSITORY, SPACING_MILLISECONDS, Deployment, Kind  # noqa: E402
from fleet.load import Load  # noqa: E402
from fleet.scenarios import ALL, Scene  # noqa: E402
from fleet.verdict import Verdict, check_secrets, judge  # noqa: E402
from fleet.watch import Group, Results  # noqa: E402
from processes import Failure, wait_until  # noqa: E402

NEWER = str(REPOSITORY / ".build/fleet/librdkafka-2.16")
LIBRARIES = {"system": "system", "newer": NEWER}
PROTOCOLS = ["cooperative-sticky", "range", "roundrobin"]
SETTLE_SECONDS = 120
QUIET_SECONDS = 2
EAGER_FACTOR = 5


def options(arguments):
    parser = campaign.parser(__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*ALL, []], default=[], metavar="scenario")
    parser.add_argument("--all", action="store_true", help="every library, protocol and membership")
    parser.add_argument("--library", choices=LIBRARIES, default="system")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="range")
    parser.add_argument("--static", action="store_true", help="give each worker a group.instance.id")
    parser.add_argument("--coordinator", choices=["kafka", "broker"], default="kafka", help="who keeps the group (kafka)")
    parser.add_argument("--former", help="causeway of another version, to upgrade from and to roll back to")
    parser.add_argument("--activities", type=int, default=2_000)
    parser.add_argument("--rate", type=int, default=2_000, help="commands a second (2000)")
    parser.add_argument("--repetitions", type=int, default=10, help="how often the whole fleet restarts, or a worker joins and leaves (10)")
    chosen = parser.parse_intermixed_args(arguments)
    if not chosen.scenarios:
        chosen.scenarios = [name for name in ALL if ALL[name].needs_former == bool(chosen.former)]
    return chosen


def kinds(chosen):
    if not chosen.all:
        return [Kind(LIBRARIES[chosen.library], chosen.protocol, chosen.static, chosen.coordinator)]
    return [
        Kind(library, protocol, static, "kafka")
        for library in LIBRARIES.values()
        for protocol in PROTOCOLS[:2]
        for static in (False, True)
    ]


def play(name, kind, chosen, directory):
    """Runs one scenario with one kind of fleet. Returns its figures and its problems."""
    scenario = ALL[name]
    group = Group()
    with Deployment(chosen.program, kind, directory, group) as deployment:
        deployment.start_simulator()
        deployment.look_for_http()
        if not scenario.is_empty:
            deployment.start_broker()
            deployment.start_redis()
            deployment.apns_proxy.open()
        with open(deployment.path("policy.json"), "w", encoding="utf-8") as file:
            json.dump({"spacingMilliseconds": SPACING_MILLISECONDS, "budget": BUDGET}, file)
        scene = Scene(deployment, Load(deployment, chosen.activities, chosen.rate), Results(deployment), group, chosen)
        scene.results.start()
        try:
            scenario.play(scene)
            finish(scene)
        finally:
            scene.load.abandon()
            if scene.fanouts_and_starts is not None:
                scene.fanouts_and_starts.close()
            scene.results.finish()
            write_history(scene)
        other_verdict = Verdict()
        if scene.fanouts_and_starts is not None:
            # The laws judge only the load. So the pushes of fan-outs and starts, which are no part of the load,
            # are first removed from the log.
            scene.fanouts_and_starts.judge(other_verdict)
        verdict = judge(deployment, scene.load, allowance(scenario, kind, scene.load.sent))
        check_secrets(deployment, scene.load, verdict)
        if scene.fanouts_and_starts is not None:
            verdict.figures.update(other_verdict.figures)
            verdict.problems += other_verdict.problems
        return {**scene.figures, **scene.health.figures, **verdict.figures}, verdict.problems


def finish(scene):
    """Ends the load, waits at most `SETTLE_SECONDS` until every command has its outcome, and stops the workers one by
    one."""
    scene.load.finish()
    try:
        seconds = wait_until(lambda: len(scene.results.final) >= scene.load.sent, SETTLE_SECONDS, "settled")
        scene.figures["all settled after"] = f"{seconds:.1f} s"
    except Failure:
        scene.figures["all settled after"] = f"never: {len(scene.results.final)} of {scene.load.sent}"
    scene.deployment.check()
    running = scene.deployment.running_workers
    if scene.fanouts_and_starts is not None:
        scene.fanouts_and_starts.settle()
    scene.health.check_caught_up("nothing is behind", running)
    scene.health.keep_pages(running)
    scene.figures["last stops took"] = f"{max([worker.stop() for worker in running]):.1f} s at most"
    wait_until(lambda: time.monotonic() - scene.results.last_at > QUIET_SECONDS, 30, "no more results")


def allowance(scenario, kind, commands):
    """Returns how many repetitions the laws allow, and how long a state may wait. An eager group revokes all partitions
    from all members in each rebalance, so more records are read again."""
    again = commands * (1 if kind.protocol == "cooperative-sticky" else EAGER_FACTOR)
    return {
        "repeats": int(scenario.repeats * commands), "results_again": int(scenario.results_again * again),
        "alerts_again": int(scenario.alerts_again * again),
        "wait_spacings": scenario.wait_seconds * 1_000 / SPACING_MILLISECONDS,
    }


def write_history(scene):
    with open(scene.deployment.path("group.jsonl"), "w", encoding="utf-8") as file:
        for seconds, generation, worker, partitions in scene.group.history:
            line = {"seconds": round(seconds, 2), "generation": generation, "worker": worker, "partitions": partitions}
            file.write(json.dumps(line) + "\n")


def main(arguments):
    chosen = options(arguments)
    cases = [
        (name, f"{ALL[name].play.__doc__} ({kind})", functools.partial(play, name, kind, chosen))
        for kind in kinds(chosen)
        for name in chosen.scenarios
    ]
    return campaign.run("fleet", cases, chosen.keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

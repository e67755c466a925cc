"""Rounds through an audience with real processes. Workers are killed, started and stopped during a round, newer commands come, Redis is
away or empty. The laws of `promises.py` are checked from outside.

    run.py PROGRAM                     causeway, with causeway-lab beside it: every case
    run.py PROGRAM killed overtaken-50 these cases

The last line says how many passed and failed."""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback
import types

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fleet.leaks import Secrets, look  # noqa: E402
from fleet.processes import Failure  # noqa: E402
from fleet.stage import DRAIN_SECONDS  # noqa: E402
from fleet.watch import Group  # noqa: E402
from rounds.arena import Arena  # noqa: E402
from rounds.cases import ALL, Scene  # noqa: E402
from rounds.crowd import Crowd, Outcomes  # noqa: E402
from rounds.judge import parser, report, verdicts  # noqa: E402


def options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("cases", nargs="*", choices=[*ALL, []], default=[], metavar="case")
    parser.add_argument("--members", type=int, default=24_000)
    parser.add_argument("--times", type=int, default=1, help="play each case so often (1)")
    parser.add_argument("--keep", help="a directory in which logs and evidence stay")
    return parser.parse_intermixed_args(arguments)


def play(case, chosen, directory):
    """Runs one case. Its evidence is in the directory afterwards. Returns its figures, and problems other than broken laws."""
    group = Group()
    with Arena(chosen.program, directory, group, case.servers) as stage:
        stage.start_simulator()
        stage.set_pace()
        stage.start_broker()
        stage.start_redis()
        stage.look_for_http()
        stage.apns_gate.open()
        crowd = Crowd(stage, chosen.members, case.later)
        outcomes = Outcomes(stage)
        scene = Scene(stage, crowd, outcomes, group)
        outcomes.start()
        try:
            scene.start_workers()
            crowd.join()
            case.play(scene)
            scene.done()
            stop(scene)
        finally:
            outcomes.finish()
            crowd.close()
        crowd.write()
        found = look(directory, Secrets(crowd.tokens, [stage.simulator["keyFile"], stage.path("server-key.pem")]))[1]
        return scene.figures, [f"a secret: {one}" for one in found]


def stop(scene):
    """Checks that every running worker still stops in order."""
    for worker in scene.stage.workers.values():
        if worker.process.is_running():
            code, _ = worker.process.stop(DRAIN_SECONDS + 5)
            if code != 0:
                raise Failure(f"{worker.name} ended with {code}; see {worker.log}")


def judged(name, chosen, directory):
    """Whether a case passes; prints its report."""
    case = ALL[name]
    try:
        figures, wrong = play(case, chosen, directory)
    except Failure as failure:
        figures, wrong = {}, [str(failure)]
    except Exception:
        figures, wrong = {}, [traceback.format_exc()]
    for what, figure in figures.items():
        print(f"   {what}: {figure}")
    for one in wrong:
        print(f"   WRONG {one}")
    if not os.path.exists(os.path.join(directory, "crowd.json")):
        return False
    settings = types.SimpleNamespace(**vars(parser().parse_args([])) | case.options)
    return report(verdicts(directory, settings)) == 0 and not wrong


def main(arguments):
    chosen = options(arguments)
    chosen.program = os.path.abspath(chosen.program)
    place = chosen.keep or tempfile.mkdtemp(prefix="causeway-acceptance-")
    passed = failed = 0
    for name in [name for _ in range(chosen.times) for name in chosen.cases or ALL]:
        directory = os.path.join(place, f"{name}-{passed + failed}")
        began = time.monotonic()
        print(f"\n== {name}: {ALL[name].play.__doc__}", flush=True)
        is_passed = judged(name, chosen, directory)
        print(f"   {time.monotonic() - began:.0f} s, {'passed' if is_passed else 'failed'}", flush=True)
        passed, failed = passed + is_passed, failed + (not is_passed)
        if is_passed and not chosen.keep:
            shutil.rmtree(directory, ignore_errors=True)
    if failed:
        print(f"\nlogs and evidence: {place}")
    elif not chosen.keep:
        shutil.rmtree(place, ignore_errors=True)
    print(f"{passed + failed} cases: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

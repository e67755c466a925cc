"""Plays the cases of a campaign one after the other, and reports each."""

import argparse
import os
import shutil
import tempfile
import time
import traceback

from common.processes import Failure


def parser(description):
    """The options that every campaign has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("program", type=os.path.abspath)
    made.add_argument("--keep", help="a directory in which logs and evidence stay")
    return made


def attempt(play, *arguments):
    """The figures and the problems that `play` returns. An error in it is a problem too."""
    try:
        return play(*arguments)
    except Failure as failure:
        return {}, [str(failure)]
    except Exception:
        return {}, [traceback.format_exc()]


def run(campaign, cases, keep):
    """Plays each case: a name, a title and a function that gets a directory and returns figures and problems. The last line says how many
    cases passed and failed. Returns the exit code."""
    place = keep or tempfile.mkdtemp(prefix=f"causeway-{campaign}-")
    passed = failed = 0
    for name, title, play in cases:
        directory = os.path.join(place, f"{name}-{passed + failed}")
        began = time.monotonic()
        print(f"\n== {name}: {title}", flush=True)
        figures, wrong = attempt(play, directory)
        for what, figure in figures.items():
            print(f"   {what}: {figure}")
        for one in wrong:
            print(f"   WRONG {one}")
        print(f"   {time.monotonic() - began:.0f} s, {'failed' if wrong else 'passed'}", flush=True)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if not wrong and not keep:
            shutil.rmtree(directory, ignore_errors=True)
    if failed:
        print(f"\nlogs and evidence: {place}")
    elif not keep:
        shutil.rmtree(place, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0

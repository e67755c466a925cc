"""Runs the cases of a campaign, of fleets or of fan-outs, one after the other, and reports the result of each."""

import argparse
import os
import shutil
import tempfile
import time
import traceback

from processes import Failure


def make_parser(description):
    """Makes a parser with the options that all campaigns have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--keep", help="a directory in which logs and evidence stay")
    return parser


def attempt(play, *arguments):
    """Returns the figures and problems of `play`. An error in `play` counts as a problem."""
    try:
        return play(*arguments)
    except Failure as failure:
        return {}, [str(failure)]
    except Exception:
        return {}, [traceback.format_exc()]


def run_cases(campaign, cases, keep):
    """Runs each case: a name, a title and a function that gets a directory and returns figures and problems.
    The last line has the numbers of passed and failed cases. Returns the exit code."""
    root = keep or tempfile.mkdtemp(prefix=f"causeway-{campaign}-")
    passed = failed = 0
    for name, title, play in cases:
        directory = os.path.join(root, f"{name}-{passed + failed}")
        began = time.monotonic()
        print(f"\n== {name}: {title}", flush=True)
        figures, problems = attempt(play, directory)
        for what, figure in figures.items():
            print(f"   {what}: {figure}")
        for problem in problems:
            print(f"   WRONG {problem}")
        print(f"   {time.monotonic() - began:.0f} s, {'failed' if problems else 'passed'}", flush=True)
        passed, failed = passed + (not problems), failed + bool(problems)
        if not problems and not keep:
            shutil.rmtree(directory, ignore_errors=True)
    if failed:
        print(f"\nlogs and evidence: {root}")
    elif not keep:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0

#!/usr/bin/env python3
"""Checks fan-outs to an audience against their invariants, from outside: it reads only recorded files, and shares no code
with the program. Needs Python 3.11 and nothing else.

  check.py DIRECTORY

The directory holds these files, as lines of JSON except the last:

  commands.jsonl       what the producer wrote: command (its id), time (ms), timestamp, alert (title or null), content, and
                       state: FNV-1a, 64 bits, of the content's bytes
  members.jsonl        activity; joined and left: when the join or the leave was acknowledged (ms); joined is missing for a
                       member from before the first command; renewed: when its phone got another token (ms); dead:
                       whether its token is dead
  incidents.jsonl      time (ms) and what: kill or freeze of a worker, wipe of Redis; the checks ignore other incidents
  retired.jsonl        token (its digest) and time (ms) at which the token that replaced it was acknowledged
  results.jsonl        the results topic
  invalidations.jsonl  activity and time (ms) of each record on the invalidations topic
  pushes.jsonl         the simulator's log, as `causeway-lab simulator --push-log` writes it
  crowd.json           what the simulator says of its phones at the end (`GET /crowd`)

Exit codes: 0 all invariants hold; 1 one is violated; 2 the evidence cannot be read."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fanouts.evidence import Evidence  # noqa: E402
from fanouts.invariants import INVARIANT_CHECKS  # noqa: E402
from recorded_runs.json_lines import UnreadableFileError  # noqa: E402
from recorded_runs.invariant_results import print_report  # noqa: E402


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, milliseconds, meaning in (
        ("checkpoint", 1_000, "before a crash, in which who was reached may be reached again: 500 and what a busy machine adds"),
        ("flight", 500, "after a crash, in which what had left arrives"),
        ("takeover", 1_500, "after a newer command's admission, in which an older state may be sent"),
        ("leave", 1_500, "after a leave's acknowledgement, in which a push may come: a member read a second ago is sent to"),
        ("join", 3_000, "after a join's acknowledgement, by which its phone shows the newest state"),
    ):
        parser.add_argument(f"--{name}", type=int, default=milliseconds, help=f"milliseconds {meaning} ({milliseconds})")
    return parser


def check_run(directory, options):
    """Returns the results of all invariants, in order.

    Raises UnreadableFileError."""
    evidence = Evidence(directory)
    if not evidence.commands or not evidence.members:
        raise UnreadableFileError(f"{directory}: no commands, or no members")
    return [check(evidence, options) for check in INVARIANT_CHECKS]


def main(arguments):
    parser = make_parser()
    parser.add_argument("directory")
    options = parser.parse_args(arguments)
    try:
        results = check_run(options.directory, options)
    except UnreadableFileError as problem:
        print(f"check.py: {problem}", file=sys.stderr)
        return 2
    return 1 if print_report(results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

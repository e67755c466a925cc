#!/usr/bin/env python3
"""Checks a run of Causeway against its promises, from outside: it reads only recorded files, and shares no code with the
program. Needs Python 3.11 and nothing else.

  check.py DIRECTORY                     as `causeway-lab demo --evidence DIRECTORY` leaves it
  check.py DIRECTORY --results-again 400 --repeats 40
                                         after a crash: how many results and pushes may have come twice

The directory holds, as lines of JSON:

  commands.jsonl   what the producer wrote: command (its id), activity, event, time (ms), alert (title or null),
                   state (FNV-1a, 64 bits, of the content state's bytes)
  results.jsonl    the results topic, as `causeway results` prints it
  pushes.jsonl     the simulator's log, as `causeway-lab simulator --push-log` writes it
  policy.json      spacingMilliseconds and budget (pushes, refillPerHour, reservedForAlerts), for all activities

Exit codes: 0 all invariants hold; 1 one is violated; 2 the evidence cannot be read."""

import argparse
import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from recorded_runs.json_lines import UnreadableFileError  # noqa: E402
from recorded_runs.invariant_results import print_report  # noqa: E402
from season.evidence import Evidence  # noqa: E402
from season.invariants import INVARIANT_CHECKS  # noqa: E402
from season.options import InvariantOptions  # noqa: E402


def parse_arguments(arguments):
    """Returns the directory and the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument(
        "--tolerance",
        type=int,
        help="milliseconds between Redis' decision and the push's arrival, by which two pushes may differ (100)",
    )
    parser.add_argument("--wait-spacings", type=float, help="how many spacings a state may wait for a push (3)")
    parser.add_argument("--repeats", type=int, help="pushes that may have been sent twice (0)")
    parser.add_argument("--results-again", type=int, help="results that may have been written twice (0)")
    parser.add_argument("--lost-responses", type=int, help="responses of APNs that may have been lost (0)")
    parser.add_argument(
        "--superseded-results", choices=("each", "counted"),
        help="kafka.supersededResults of the run: counted if newer results may count superseded commands (each)",
    )
    parser.add_argument("--alerts-again", type=int, help="alerts that may have rung twice (0)")
    parser.add_argument(
        "--silent-pushes", type=int, help="pushes of states read again that may leave a due alert to a later push (0)"
    )
    parser.add_argument(
        "--wipes", type=int, help="how often Redis lost all data; each time buckets are full again (0)"
    )
    # The defaults are those of `InvariantOptions`.
    parser.set_defaults(**dataclasses.asdict(InvariantOptions()))
    values = vars(parser.parse_args(arguments))
    return values.pop("directory"), InvariantOptions(**values)


def main(arguments):
    directory, options = parse_arguments(arguments)
    try:
        evidence = Evidence(directory)
    except UnreadableFileError as problem:
        print(f"check.py: {problem}", file=sys.stderr)
        return 2
    return 1 if print_report([check(evidence, options) for check in INVARIANT_CHECKS]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

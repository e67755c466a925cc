"""Checks a run: the recorded files by `season/invariants.py`, and the states that the phones show."""

from fleet.deployment import APP
from fleet.leaks import Secrets, find_secrets
from recorded_runs.invariant_results import EXAMPLES_MAX
from season.evidence import Evidence
from season.invariants import INVARIANT_CHECKS
from season.options import InvariantOptions

TOLERANCE_MILLISECONDS = 1_000
"""How late a push may arrive after Redis permitted it, in milliseconds, because it waits for a connection or a processor.
Late arrivals do not add up. So the check still finds two workers that each keep a spacing of their own."""
EXPECTATIONS_PER_CALL = 5_000


class RunReport:
    """The figures of a run and its problems."""

    def __init__(self):
        self.figures = {}
        self.problems = []


def check_phones(deployment, load, report):
    """Compares the state that each phone shows with the expected one."""
    expected = load.last_states
    names = list(expected)
    correct_count = 0
    for first in range(0, len(names), EXPECTATIONS_PER_CALL):
        page = {name: expected[name] for name in names[first : first + EXPECTATIONS_PER_CALL]}
        response = deployment.call_simulator("POST", "/expect", {"app": APP, "activities": page})
        correct_count += response["matching"]
        report.problems += [f"a phone is wrong: {one}" for one in response["mismatches"][:EXAMPLES_MAX]]
    summary = deployment.call_simulator("GET", "/summary")
    backwards_count = summary["effects"].get("ignoredOld", 0) + summary["regressions"]
    if backwards_count:
        report.problems.append(f"{backwards_count} pushes went back in time")
    report.figures["phones right"] = f"{correct_count} of {len(names)}"
    report.figures["back in time"] = backwards_count


def check_secrets(deployment, load, report):
    """Checks that no log, page or result of the run has a token or a key."""
    secrets = Secrets(load.tokens, [deployment.simulator["keyFile"], deployment.path("server-key.pem")])
    read_count, found = find_secrets(deployment.directory, secrets)
    if len(load.tokens) < len(load.activities):
        found.append(f"{len(load.tokens)} tokens are known, of {len(load.activities)} activities")
    report.figures["secrets"] = f"{len(found)} of {len(secrets)} in {read_count} logs, pages and results"
    report.problems += [f"a secret: {one}" for one in found]


def check_run(deployment, load, allowance):
    """Checks the run. Call it when the load has ended, the results are read and the workers have stopped."""
    report = RunReport()
    check_phones(deployment, load, report)
    evidence = Evidence(deployment.directory)
    options = InvariantOptions(tolerance=TOLERANCE_MILLISECONDS, **allowance)
    results = [check(evidence, options) for check in INVARIANT_CHECKS]
    for result in results:
        report.problems += [f"{result.name}: {example}" for example in result.examples()]
    report.figures.update(
        {
            "commands": len(evidence.commands),
            "results": evidence.result_count,
            "invariants": f"{sum(not result.violations for result in results)} of {len(results)} hold",
        }
    )
    for result in results[:2]:
        report.figures[result.name] = result.measurement
    for name in ("every alert rings in order", "no state waits"):
        result = next(result for result in results if result.name.startswith(name))
        report.figures[result.name] = result.measurement
    return report

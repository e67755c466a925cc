"""Judges a run: the recorded files by the laws of `season/laws.py`, and the states that the phones show."""

import types

from fleet.deployment import APP
from fleet.leaks import Secrets, find_secrets
from recorded_runs.law_verdicts import EXAMPLES
from season.evidence import Evidence
from season.laws import LAWS

TOLERANCE_MILLISECONDS = 1_000
"""How late a single push may arrive after Redis permitted it, in milliseconds: it may wait for a connection
or a processor. Late arrivals do not add up, so two workers that each keep a spacing of their own are still
found."""
EXPECTATIONS_PER_CALL = 5_000


class Verdict:
    """The figures of a run and its problems."""

    def __init__(self):
        self.figures = {}
        self.problems = []


def check_phones(deployment, load, verdict):
    """Compares the state that each phone shows with the expected one."""
    expected = load.last_states
    names = list(expected)
    correct_count = 0
    for first in range(0, len(names), EXPECTATIONS_PER_CALL):
        page = {name: expected[name] for name in names[first : first + EXPECTATIONS_PER_CALL]}
        answer = deployment.control("POST", "/expect", {"app": APP, "activities": page})
        correct_count += answer["matching"]
        verdict.problems += [f"a phone is wrong: {one}" for one in answer["mismatches"][:EXAMPLES]]
    summary = deployment.control("GET", "/summary")
    backwards = summary["effects"].get("ignoredOld", 0) + summary["regressions"]
    if backwards:
        verdict.problems.append(f"{backwards} pushes went back in time")
    verdict.figures["phones right"] = f"{correct_count} of {len(names)}"
    verdict.figures["back in time"] = backwards


def check_secrets(deployment, load, verdict):
    """Checks that no log, page or result of the run has a token or a key."""
    secrets = Secrets(load.tokens, [deployment.simulator["keyFile"], deployment.path("server-key.pem")])
    read, found = find_secrets(deployment.directory, secrets)
    if len(load.tokens) < len(load.activities):
        found.append(f"{len(load.tokens)} tokens are known, of {len(load.activities)} activities")
    verdict.figures["secrets"] = f"{len(found)} of {len(secrets)} in {read} logs, pages and results"
    verdict.problems += [f"a secret: {one}" for one in found]


def judge(deployment, load, allowance):
    """Judges the run. Call it when the load has ended, the results are read and the workers have stopped."""
    verdict = Verdict()
    check_phones(deployment, load, verdict)
    evidence = Evidence(deployment.directory)
    options = types.SimpleNamespace(tolerance=TOLERANCE_MILLISECONDS, wipes=0, **allowance)
    laws = [law(evidence, options) for law in LAWS]
    for law in laws:
        verdict.problems += [f"{law.name}: {example}" for example in law.examples()]
    verdict.figures.update(
        {
            "commands": len(evidence.commands),
            "results": evidence.results_read,
            "laws": f"{sum(not law.broken for law in laws)} of {len(laws)} hold",
        }
    )
    for law in laws[:2]:
        verdict.figures[law.name] = law.measured
    for name in ("every alert appears", "no state waits"):
        law = next(law for law in laws if law.name.startswith(name))
        verdict.figures[law.name] = law.measured
    return verdict

"""Compares what workers report over HTTP with the facts: which worker reads which partitions, who is ready, how far behind they are."""

import re
import urllib.error
import urllib.request

from common.processes import Failure, wait_until
from fleet.deployment import COMMANDS

ANSWER_SECONDS = 1.0
TRUTH_SECONDS = 5
"""How soon after a change a worker must report the truth."""
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def get(worker, path):
    """Status and text, or (0, "") without an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.http_port}{path}", timeout=ANSWER_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def samples(worker, name):
    """(labels, value) of a metric."""
    found = []
    for line in get(worker, "/metrics")[1].splitlines():
        match = SAMPLE.match(line)
        if match and match[1] == name:
            found.append((dict(LABEL.findall(match[2] or "")), float(match[3])))
    return found


PAGES = ("/statusz", "/statusz?format=html", "/statusz?format=json", "/metrics")


class Health:
    """If the workers serve no HTTP, nothing is asked and no fault is found."""

    def __init__(self, deployment, group):
        self._deployment, self._group = deployment, group
        self.figures = {}

    def _within_seconds(self, what, fault):
        """Waits until `fault` finds none, and notes how long that took."""
        if not self._deployment.has_http:
            return
        last = ""

        def is_true():
            nonlocal last
            last = fault()
            return last == ""

        try:
            seconds = wait_until(is_true, TRUTH_SECONDS, what)
        except Failure:
            raise Failure(f"{what}: after {TRUTH_SECONDS} s {last}") from None
        self.figures[f"said over HTTP: {what}"] = f"after {seconds:.1f} s"

    def keep_pages(self, workers):
        """Writes the pages of these workers to files."""
        for worker in workers if self._deployment.has_http else []:
            text = "".join(get(worker, path)[1] for path in PAGES)
            with open(self._deployment.path(f"{worker.name}.page"), "a", encoding="utf-8") as file:
                file.write(text)

    def check_shared(self, what, workers):
        """These workers are alive and ready, and report the partitions that the group assigned: every partition belongs to exactly one
        worker."""
        self._within_seconds(what, lambda: next(filter(None, map(self._fault, workers)), ""))

    def _fault(self, worker):
        for path in ("/livez", "/readyz"):
            status, text = get(worker, path)
            if status != 200:
                return f"{worker.name} answers {status} to {path}: {text.strip()}"
        own = self._group.owners.get(worker.name, set())
        assigned = sum(value for _, value in samples(worker, "causeway_partitions_assigned"))
        if assigned != len(own):
            return f"{worker.name} has {len(own)} partitions and says {assigned:.0f}"
        commands = {number for topic, number in own if topic == COMMANDS}
        lags = samples(worker, "causeway_consumer_lag_records")
        said = {int(labels["partition"]) for labels, _ in lags if labels["topic"] == "commands"}
        if said != commands:
            return f"{worker.name} reads {sorted(commands)} and tells the lag of {sorted(said)}"
        if get(worker, "/statusz")[0] != 200:
            return f"{worker.name} has no /statusz"
        return ""

    def await_alive(self, worker, seconds):
        """Waits until the worker runs. It need not have partitions."""
        if self._deployment.has_http:
            wait_until(lambda: get(worker, "/livez")[0] == 200, seconds, f"{worker.name} to be alive", step=0.01)

    def check_ready_with_share(self, worker, seconds):
        """The worker is ready when it has partitions, and not before: while the group waits for a dead member, nobody reads that
        member's partitions. Returns how long it took."""
        def is_ready():
            status, text = get(worker, "/readyz")
            if status == 200 and "[+] group: reads " not in text:
                raise Failure(f"{worker.name} is ready without partitions: {text.strip()}")
            return status == 200

        if not self._deployment.has_http:
            return 0
        return wait_until(is_ready, seconds, f"{worker.name} to be ready")

    def check_silent(self, what, worker):
        """A stopped process does not answer, and the caller knows that."""
        self._within_seconds(what, lambda: f"{worker.name} answers" if get(worker, "/livez")[0] else "")

    def check_behind(self, what, workers, records):
        """At least this many records are behind, in all partitions together."""
        self._within_seconds(what, lambda: self._fault_of_lag(workers, lambda lag: lag >= records))

    def check_caught_up(self, what, workers):
        """Nothing is behind."""
        self._within_seconds(what, lambda: self._fault_of_lag(workers, lambda lag: lag == 0))

    @staticmethod
    def _fault_of_lag(workers, is_right):
        """The lag of all partitions of commands together; None if no worker reports one."""
        lags = [
            value
            for worker in workers
            for labels, value in samples(worker, "causeway_consumer_lag_records")
            if labels["topic"] == "commands"
        ]
        if not lags:
            return "nobody tells a lag"
        return "" if is_right(sum(lags)) else f"the lag is {sum(lags):.0f}"

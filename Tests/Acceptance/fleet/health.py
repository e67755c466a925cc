"""Compares what workers report over HTTP with the facts: their partitions, their readiness, their lag."""

import re
import urllib.error
import urllib.request

from fleet.deployment import COMMANDS
from processes import Failure, wait_until

RESPONSE_SECONDS = 1.0
REPORT_SECONDS_MAX = 5
"""The maximum time in seconds after a change until a worker reports it."""
SAMPLE_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def fetch_page(worker, path):
    """Returns the status and the text of a response, or (0, "") without a response."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.http_port}{path}", timeout=RESPONSE_SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metric_samples(worker, name):
    """Returns the labels and the value of each series of a metric."""
    found = []
    for line in fetch_page(worker, "/metrics")[1].splitlines():
        match = SAMPLE_LINE.match(line)
        if match and match[1] == name:
            found.append((dict(LABEL.findall(match[2] or "")), float(match[3])))
    return found


PAGES = ("/statusz", "/statusz?format=html", "/statusz?format=json", "/metrics")


class HealthChecks:
    """The checks. They do nothing if the workers serve no HTTP."""

    def __init__(self, deployment, group):
        self._deployment, self._group = deployment, group
        self.figures = {}

    def _expect_soon(self, what, find_fault):
        """Waits until `find_fault` returns no fault, and records the time that it took."""
        if not self._deployment.has_http:
            return
        last_fault = ""

        def is_true():
            nonlocal last_fault
            last_fault = find_fault()
            return last_fault == ""

        try:
            seconds = wait_until(is_true, REPORT_SECONDS_MAX, what)
        except Failure:
            raise Failure(f"{what}: after {REPORT_SECONDS_MAX} s {last_fault}") from None
        self.figures[f"said over HTTP: {what}"] = f"after {seconds:.1f} s"

    def save_pages(self, workers):
        """Appends the HTTP pages of these workers to files."""
        for worker in workers if self._deployment.has_http else []:
            text = "".join(fetch_page(worker, path)[1] for path in PAGES)
            with open(self._deployment.path(f"{worker.name}.page"), "a", encoding="utf-8") as file:
                file.write(text)

    def check_shared(self, what, workers):
        """Checks that these workers are alive and ready, serve a status page, report as many partitions as the group
        assigned to them, and report the lag of exactly their partitions of commands."""
        self._expect_soon(what, lambda: next(filter(None, map(self._share_fault, workers)), ""))

    def _share_fault(self, worker):
        for path in ("/livez", "/readyz"):
            status, text = fetch_page(worker, path)
            if status != 200:
                return f"{worker.name} responds with {status} to {path}: {text.strip()}"
        own_partitions = self._group.owners.get(worker.name, set())
        assigned = sum(value for _, value in metric_samples(worker, "causeway_partitions_assigned"))
        if assigned != len(own_partitions):
            return f"{worker.name} has {len(own_partitions)} partitions and reports {assigned:.0f}"
        commands = {number for topic, number in own_partitions if topic == COMMANDS}
        lags = metric_samples(worker, "causeway_consumer_lag_records")
        reported_partitions = {int(labels["partition"]) for labels, _ in lags if labels["topic"] == "commands"}
        if reported_partitions != commands:
            return f"{worker.name} reads {sorted(commands)} and reports the lag of {sorted(reported_partitions)}"
        if fetch_page(worker, "/statusz")[0] != 200:
            return f"{worker.name} has no /statusz"
        return ""

    def await_alive(self, worker, seconds):
        """Waits until the worker is alive. It may have no partitions."""
        if self._deployment.has_http:
            wait_until(lambda: fetch_page(worker, "/livez")[0] == 200, seconds, f"{worker.name} to be alive", poll_seconds=0.01)

    def check_ready_with_share(self, worker, seconds):
        """Waits until the worker is ready. Fails if it is ready without partitions: while the group waits for a dead
        member, a new worker has none. Returns the seconds that it took; 0 without HTTP."""
        def is_ready():
            status, text = fetch_page(worker, "/readyz")
            if status == 200 and "[+] group: reads " not in text:
                raise Failure(f"{worker.name} is ready without partitions: {text.strip()}")
            return status == 200

        if not self._deployment.has_http:
            return 0
        return wait_until(is_ready, seconds, f"{worker.name} to be ready")

    def check_silent(self, what, worker):
        """Checks that a frozen worker does not respond."""
        self._expect_soon(what, lambda: f"{worker.name} responds" if fetch_page(worker, "/livez")[0] else "")

    def check_behind(self, what, workers, record_count):
        """Checks that the lag of all partitions of commands together is at least this number of records."""
        self._expect_soon(what, lambda: self._lag_fault(workers, lambda lag: lag >= record_count))

    def check_caught_up(self, what, workers):
        """Checks that the partitions of commands have no lag."""
        self._expect_soon(what, lambda: self._lag_fault(workers, lambda lag: lag == 0))

    @staticmethod
    def _lag_fault(workers, is_right):
        """Returns why the sum of the lags of all partitions of commands is wrong; "" if it is right."""
        lags = [
            value
            for worker in workers
            for labels, value in metric_samples(worker, "causeway_consumer_lag_records")
            if labels["topic"] == "commands"
        ]
        if not lags:
            return "no worker reports a lag"
        return "" if is_right(sum(lags)) else f"the lag is {sum(lags):.0f}"

"""Observes a running fleet: its results, and which worker has which partitions."""

import json
import time

from fleet.deployment import COMMANDS, PARTITIONS, READ_TOPICS, RESULTS
from fleet.load import is_of_load
from fleet.topics import TopicReader
from processes import Failure, wait_until
from recorded_runs.outcomes import NOT_FINAL

ALL_PARTITIONS = {(topic, number) for topic in READ_TOPICS for number in range(PARTITIONS)}
SHARE_SECONDS = 60
"""The maximum time in seconds until workers share the partitions. Each join takes this broker 3 to 6 s, and a
cooperative group needs two joins."""


class ResultReader(TopicReader):
    """Copies the results of the load to `results.jsonl`, and records which of its commands have a final result."""

    def __init__(self, deployment):
        super().__init__("results", deployment, [(RESULTS, number) for number in range(PARTITIONS)])
        self.final_commands = set()
        self.other_results = []
        """The results of commands that do not belong to the load."""
        self.result_count = 0
        self.last_result_seconds = time.monotonic()
        self.last_result_seconds_of = {}
        """When the last result of each partition's commands was read (monotonic clock), by partition of the commands topic."""
        self._file = open(deployment.path("results.jsonl"), "wb")

    def handle(self, message):
        value = message.value()
        result = json.loads(value)
        self.last_result_seconds = time.monotonic()
        if not is_of_load(result["command"]):
            self.other_results.append(result)
            return
        self._file.write(value + b"\n")
        self.result_count += 1
        if result["outcome"] not in NOT_FINAL:
            self.final_commands.add(result["command"])
        source = result.get("source", {})
        if source.get("topic") == COMMANDS:
            self.last_result_seconds_of[source["partition"]] = self.last_result_seconds

    def finish(self):
        super().finish()
        self._file.close()


class GroupObserver:
    """The present assignments as the group's members got them, and their history."""

    def __init__(self):
        self.began_seconds = time.monotonic()
        self.generation = -1
        self.owners = {}
        """The topics and partitions of each worker in the newest generation, by worker."""
        self.history = []
        """One entry for each assignment: seconds since the start, generation, worker, partitions by topic."""
        self._assigned_at_seconds = {}

    def record_assignment(self, client, generation, topics):
        """Records an assignment, on the proxy's thread. It replaces whole values, so that other threads read
        consistent ones."""
        now = time.monotonic()
        own_partitions = {(topic, number) for topic, numbers in topics.items() for number in numbers}
        self.history.append((now - self.began_seconds, generation, client, {topic: sorted(topics[topic]) for topic in topics}))
        if generation > self.generation:
            self.generation = generation
            self.owners = {}
        if generation == self.generation:
            self.owners = {**self.owners, client: own_partitions}
            self._assigned_at_seconds = {**self._assigned_at_seconds, client: now}

    def is_shared_by(self, workers):
        """Whether exactly these workers have all partitions: each worker at least one, no partition twice,
        and each assignment is newer than the worker's last start."""
        owners = self.owners
        partition_sets = list(owners.values())
        return (
            set(owners) == {worker.name for worker in workers}
            and all(self._assigned_at_seconds[worker.name] > worker.started_at_seconds for worker in workers)
            and all(partition_sets)
            and sum(map(len, partition_sets)) == len(ALL_PARTITIONS)
            and set().union(*partition_sets) == ALL_PARTITIONS
        )

    def await_shared_partitions(self, workers, seconds=SHARE_SECONDS):
        """Waits until exactly these workers share all partitions. Returns the seconds that it took."""
        try:
            return wait_until(lambda: self.is_shared_by(workers), seconds, "shared")
        except Failure:
            names = [worker.name for worker in workers]
            raise Failure(f"{names} do not share all partitions after {seconds} s: {self.describe()}") from None

    def partition_counts(self):
        """Returns how many partitions of each topic each worker reads, by worker."""
        return {worker: count_by_topic(own_partitions) for worker, own_partitions in sorted(self.owners.items())}

    def describe(self):
        return f"generation {self.generation}: " + ", ".join(
            f"{worker} {'+'.join(map(str, counts))}" for worker, counts in self.partition_counts().items()
        )


def count_by_topic(partitions):
    """Returns the number of partitions of each topic that workers read, in the order of `READ_TOPICS`."""
    return tuple(sum(topic == read_topic for topic, _ in partitions) for read_topic in READ_TOPICS)

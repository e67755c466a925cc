"""Observes a running fleet: the results topic, and the assignments of partitions."""

import json
import threading
import time

from confluent_kafka import Consumer, OFFSET_BEGINNING, TopicPartition

from fleet.stage import COMMANDS, PARTITIONS, READ, RESULTS

EVERYTHING = {(topic, number) for topic in READ for number in range(PARTITIONS)}


class Results(threading.Thread):
    """Copies the results topic into `results.jsonl`, and knows which commands have a final result."""

    def __init__(self, stage):
        super().__init__(name="results", daemon=True)
        self.final = set()
        self.count = 0
        self.last_at = time.monotonic()
        self.partitions_at = {}
        """By partition of the commands topic: when a result of one of its commands was last seen."""
        self._over = threading.Event()
        self._file = open(stage.path("results.jsonl"), "wb")
        self._consumer = Consumer(
            {
                "bootstrap.servers": stage.bootstrap, "client.id": "results", "group.id": "fleet-test", "log_level": 0,
                "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(RESULTS, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])

    def run(self):
        while not self._over.is_set():
            for message in self._consumer.consume(5_000, 0.2):
                if message.error():
                    continue
                value = message.value()
                self._file.write(value + b"\n")
                result = json.loads(value)
                self.count += 1
                self.last_at = time.monotonic()
                if result["outcome"] != "held":
                    self.final.add(result["command"])
                source = result.get("source", {})
                if source.get("topic") == COMMANDS:
                    self.partitions_at[source["partition"]] = self.last_at

    def finish(self):
        self._over.set()
        self.join()
        self._consumer.close()
        self._file.close()


class Group:
    """The present assignments, as the group's members got them, and their changes."""

    def __init__(self):
        self.began = time.monotonic()
        self.generation = -1
        self.owners = {}
        """By worker: its topics and partitions in the newest generation."""
        self.history = []
        """(seconds since the start, generation, worker, partitions by topic), one for each answer."""
        self._told_at = {}

    def note(self, client, generation, topics):
        """Called on the gate's thread. It replaces whole values, so that other threads read consistent ones."""
        now = time.monotonic()
        own = {(topic, number) for topic, numbers in topics.items() for number in numbers}
        self.history.append((now - self.began, generation, client, {topic: sorted(topics[topic]) for topic in topics}))
        if generation > self.generation:
            self.generation = generation
            self.owners = {}
        if generation == self.generation:
            self.owners = {**self.owners, client: own}
            self._told_at = {**self._told_at, client: now}

    def is_shared_by(self, workers):
        """Whether exactly these workers have all partitions, each at least one and none two, and have got them since their last start."""
        owners = self.owners
        lists = list(owners.values())
        return (
            set(owners) == {worker.name for worker in workers}
            and all(self._told_at[worker.name] > worker.started_at for worker in workers)
            and all(lists)
            and sum(map(len, lists)) == len(EVERYTHING)
            and set().union(*lists) == EVERYTHING
        )

    def shares(self):
        """By worker: the number of partitions of each topic that it reads."""
        return {
            worker: tuple(sum(topic == one for topic, _ in own) for one in READ)
            for worker, own in sorted(self.owners.items())
        }

    def text(self):
        return f"generation {self.generation}: " + ", ".join(
            f"{worker} {'+'.join(map(str, counts))}" for worker, counts in self.shares().items()
        )

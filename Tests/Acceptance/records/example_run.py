"""Runs examples, and reads what they have written to Kafka."""
import json
import subprocess
import tempfile
import time
import unittest

from confluent_kafka import Consumer, TopicPartition

from processes import Process
from records import record_checks, repository

PRODUCERS = repository.root / "Examples/producers"
EXPECTED_TOPICS = ["causeway.registrations", "causeway.commands"]
JACKSON = ":".join(f"/usr/share/java/jackson-{part}.jar" for part in ("databind", "core", "annotations"))


def output_of(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def check_record(test, name, key, record):
    """Fails the test unless the schema and the program accept the record and its key is the activity."""
    record_checks.validator(name).validate(record)
    test.assertEqual(record_checks.faults(name + "s", [json.dumps(record).encode()]), {})
    test.assertEqual(key, record["activity"])


class KafkaWriterTestCase(unittest.TestCase):
    """A test that starts a broker of its own."""

    def broker_command(self):
        """Returns the command of a broker whose first output line names its bootstrap servers."""
        raise NotImplementedError

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.broker = Process("broker", self.broker_command(), f"{self.folder.name}/broker.log", pipes_output=True)
        self.servers = self.broker.read_first_json_line(30)["bootstrapServers"]

    def tearDown(self):
        self.broker.kill()
        self.folder.cleanup()

    def read_topic(self, topic, count):
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False})
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        messages = []
        deadline = time.monotonic() + 20
        while len(messages) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            # Compares with None, because a message without a value counts as false.
            if message is not None and not message.error():
                messages.append((message.key().decode(), message.value() and json.loads(message.value())))
        consumer.close()
        self.assertEqual(len(messages), count)
        return messages

    def check_example(self, command):
        output_of([*command, self.servers])
        for topic, name in zip(EXPECTED_TOPICS, ("registration", "command")):
            ((key, record),) = self.read_topic(topic, 1)
            check_record(self, name, key, record)

"""The examples for producers and for the app."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from confluent_kafka import Consumer, TopicPartition

from common.processes import Process, free_ports, wait_until
from records import place

PRODUCERS = place.root / "Examples/producers"
JACKSON = ":".join(f"/usr/share/java/jackson-{part}.jar" for part in ("databind", "core", "annotations"))
EXPECTED_TOPICS = ["causeway.registrations", "causeway.commands"]


def output(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Printed(unittest.TestCase):
    """Each example prints the same records, and they are valid by the schema and by the program."""

    def check(self, text):
        rows = [line.split("\t") for line in text.splitlines()]
        self.assertEqual([row[0] for row in rows], EXPECTED_TOPICS)
        python = output([sys.executable, PRODUCERS / "python/goal.py", "--print"]).splitlines()
        for (topic, key, value), line in zip(rows, python):
            record = json.loads(value)
            self.assertEqual([topic, key, record], [*line.split("\t")[:2], json.loads(line.split("\t")[2])])
            self.assertEqual(key, record["activity"])
            kind = topic.removeprefix("causeway.")
            place.validator(kind.removesuffix("s")).validate(record)
            self.assertEqual(place.faults(kind, [value.encode()]), {})

    def test_python(self):
        self.check(output([sys.executable, PRODUCERS / "python/goal.py", "--print"]))

    def test_node(self):
        self.check(output(["node", PRODUCERS / "node/goal.mjs", "--print"]))

    def test_java(self):
        with tempfile.TemporaryDirectory() as folder:
            output(["javac", "-Werror", "-Xlint:all", "-d", folder, "-cp", JACKSON, PRODUCERS / "java/GoalRecords.java"])
            self.check(output(["java", "-cp", f"{JACKSON}:{folder}", "GoalRecords"]))

    def test_go(self):
        self.check(output([go_program(), "--print"]))


def go_program():
    """The example in Go, built with Debian's packages of the language and of the Kafka client."""
    program = place.root / ".build/records/goal"
    environment = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(program.parent / "go"), "PATH": "/usr/bin:/bin"}
    output(["go", "build", "-tags", "dynamic", "-o", program, PRODUCERS / "go/goal.go"], env=environment)
    return program


class OnKafka(unittest.TestCase):
    """The examples with a client here write to a broker."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.broker = Process("broker", [place.programs / "causeway-lab", "broker"], f"{self.folder.name}/broker.log", piped=True)
        self.servers = self.broker.first_line(30)["bootstrapServers"]

    def tearDown(self):
        self.broker.kill()
        self.folder.cleanup()

    def read(self, topic, count):
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False})
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        messages = []
        deadline = time.monotonic() + 20
        while len(messages) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            # A message without a value is false.
            if message is not None and not message.error():
                messages.append((message.key().decode(), message.value() and json.loads(message.value())))
        consumer.close()
        self.assertEqual(len(messages), count)
        return messages

    def check(self, command):
        output([*command, self.servers])
        for topic, name in zip(EXPECTED_TOPICS, ("registration", "command")):
            ((key, record),) = self.read(topic, 1)
            place.validator(name).validate(record)
            self.assertEqual(place.faults(name + "s", [json.dumps(record).encode()]), {})
            self.assertEqual(key, record["activity"])

    def test_python(self):
        self.check([sys.executable, PRODUCERS / "python/goal.py"])

    def test_go(self):
        self.check([go_program()])

    def test_endpoint(self):
        (port,) = free_ports(1)
        command = [sys.executable, "-B", place.root / "Examples/app/endpoint.py", self.servers, str(port), "com.example.match"]
        endpoint = Process("endpoint", command, f"{self.folder.name}/endpoint.log")
        try:
            report = {
                "kind": "activity", "device": "phone-7", "activity": "final-phone-7", "audiences": ["final"], "token": "00ff00ff",
                "attributesType": "MatchAttributes", "ageMilliseconds": 5000, "isSandbox": True, "frequentUpdates": True, "channels": True,
            }
            wait_until(lambda: self.post(port, report) == 204, 20, "the endpoint answers 204")
            self.assertEqual(self.post(port, report | {"kind": "device", "activity": None, "audiences": []}), 204)
            self.assertEqual(self.post(port, report | {"kind": "ended", "token": None}), 204)
            self.assertEqual(self.post(port, {"kind": "activity"}), 400)
            for key, value in (("activity", None), ("activity", ""), ("token", None), ("token", "xy"), ("audiences", [1]), ("kind", "x")):
                self.assertEqual(self.post(port, report | {key: value}), 400, key)
            self.assertEqual(self.post(port, report | {"kind": "ended", "activity": None}), 400)
        finally:
            endpoint.kill()
        records = self.read("causeway.registrations", 3)
        by_kind = sorted(records, key=lambda record: (record[0], record[1] is None))
        self.assertEqual([key for key, _ in by_kind], ["final-phone-7", "final-phone-7", "phone-7"])
        self.assertIsNone(by_kind[1][1])
        for _, record in (by_kind[0], by_kind[2]):
            place.validator("registration").validate(record)
        self.assertEqual(place.faults("registrations", [json.dumps(by_kind[index][1]).encode() for index in (0, 2)]), {})
        age = time.time() * 1000 - by_kind[0][1]["registeredAt"]
        self.assertTrue(5_000 <= age <= 60_000, age)

    @staticmethod
    def post(port, report):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/live-activities", json.dumps(report).encode(), method="POST")
        try:
            return urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


class App(unittest.TestCase):
    def test_the_apps_files_compile(self):
        """They compile against ActivityKit's signatures, which Linux does not have, so a copy declares them."""
        stand_in = pathlib.Path(__file__).parent / "ActivityKit/ActivityKit.swift"
        files = sorted((place.root / "Examples/app").glob("*.swift"))
        with tempfile.TemporaryDirectory() as folder:
            module = f"{folder}/ActivityKit.swiftmodule"
            swift = ["swiftc", "-swift-version", "6", "-warnings-as-errors"]
            output([*swift, "-parse-as-library", "-emit-module", "-module-name", "ActivityKit", stand_in, "-emit-module-path", module])
            output([*swift, "-typecheck", "-I", folder, *files])

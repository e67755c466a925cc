"""The examples for producers and for the app."""
import json
import pathlib
import shutil
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from processes import Process, free_ports, wait_until
from records import record_checks, repository
from records.example_run import EXPECTED_TOPICS, JACKSON, PRODUCERS, KafkaWriterTestCase, check_record, output_of


class PrintedRecordsTests(unittest.TestCase):
    """Each example prints the same records. The schema and the program must accept them."""

    def check(self, text):
        rows = [line.split("\t") for line in text.splitlines()]
        self.assertEqual([row[0] for row in rows], EXPECTED_TOPICS)
        python = output_of([sys.executable, PRODUCERS / "python/goal.py", "--print"]).splitlines()
        for (topic, key, value), line in zip(rows, python):
            record = json.loads(value)
            self.assertEqual([topic, key, record], [*line.split("\t")[:2], json.loads(line.split("\t")[2])])
            self.assertEqual(key, record["activity"])
            kind = topic.removeprefix("causeway.")
            record_checks.validator(kind.removesuffix("s")).validate(record)
            self.assertEqual(record_checks.faults(kind, [value.encode()]), {})

    def test_python(self):
        self.check(output_of([sys.executable, PRODUCERS / "python/goal.py", "--print"]))

    def test_node(self):
        self.check(output_of(["node", PRODUCERS / "node/goal.mjs", "--print"]))

    def test_java(self):
        with tempfile.TemporaryDirectory() as folder:
            output_of(["javac", "-Werror", "-Xlint:all", "-d", folder, "-cp", JACKSON, PRODUCERS / "java/GoalRecords.java"])
            self.check(output_of(["java", "-cp", f"{JACKSON}:{folder}", "GoalRecords"]))

    def test_go(self):
        self.check(output_of([go_program(), "--print"]))


def go_program():
    """Builds the Go example with Debian's packages of Go and of the Kafka client. Returns its path."""
    program = repository.root / ".build/records/goal"
    environment = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(program.parent / "go"), "PATH": "/usr/bin:/bin"}
    output_of(["go", "build", "-tags", "dynamic", "-o", program, PRODUCERS / "go/goal.go"], env=environment)
    return program


class NodeExampleTests(unittest.TestCase):
    """The JavaScript example sends through a fake Kafka client, which prints each call."""

    def test_node(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(PRODUCERS / "node/goal.mjs", folder)
            shutil.copytree(pathlib.Path(__file__).parent / "kafkajs", f"{folder}/node_modules/kafkajs")
            lines = output_of(["node", f"{folder}/goal.mjs", "one:9092,two:9092"]).splitlines()
        first, second, *sent, last = map(json.loads, lines)
        self.assertEqual([first, second, last], [
            {"call": "producer", "brokers": ["one:9092", "two:9092"], "idempotent": True}, {"call": "connect"}, {"call": "disconnect"},
        ])
        self.assertEqual([call["topic"] for call in sent], EXPECTED_TOPICS)
        for call, name in zip(sent, ("registration", "command")):
            self.assertEqual([call["call"], call["acks"]], ["send", -1])
            ((key, value),) = call["messages"]
            check_record(self, name, key, json.loads(value))


class KafkaExampleTests(KafkaWriterTestCase):
    """The examples whose Kafka client is installed here write to a broker."""

    def broker_command(self):
        return [repository.programs / "causeway-lab", "broker"]

    def test_python(self):
        self.check_example([sys.executable, PRODUCERS / "python/goal.py"])

    def test_go(self):
        self.check_example([go_program()])

    def test_the_endpoint_of_the_app_writes_registrations(self):
        (port,) = free_ports(1)
        command = [sys.executable, "-B", repository.root / "Examples/app/endpoint.py", self.servers, str(port), "com.example.match"]
        endpoint = Process("endpoint", command, f"{self.folder.name}/endpoint.log")
        try:
            report = {
                "kind": "activity", "device": "phone-7", "activity": "final-phone-7", "audiences": ["final"], "token": "00ff00ff",
                "attributesType": "MatchAttributes", "ageMilliseconds": 5000, "isSandbox": True, "frequentUpdates": True, "channels": True,
            }
            wait_until(lambda: self.post(port, report) == 204, 20, "the endpoint responds with 204")
            self.assertEqual(self.post(port, report | {"kind": "device", "activity": None, "audiences": []}), 204)
            self.assertEqual(self.post(port, report | {"kind": "ended", "token": None}), 204)
            self.assertEqual(self.post(port, {"kind": "activity"}), 400)
            faults = (
                ("activity", None), ("activity", ""), ("token", None), ("token", "xy"), ("audiences", [1]), ("audiences", ["final"] * 9),
                ("kind", "x"),
            )
            for key, value in faults:
                self.assertEqual(self.post(port, report | {key: value}), 400, key)
            self.assertEqual(self.post(port, report | {"kind": "ended", "activity": None}), 400)
        finally:
            endpoint.kill()
        records = self.read_topic("causeway.registrations", 3)
        by_kind = sorted(records, key=lambda record: (record[0], record[1] is None))
        self.assertEqual([key for key, _ in by_kind], ["final-phone-7", "final-phone-7", "phone-7/MatchAttributes"])
        self.assertIsNone(by_kind[1][1])
        for _, record in (by_kind[0], by_kind[2]):
            record_checks.validator("registration").validate(record)
        self.assertEqual(record_checks.faults("registrations", [json.dumps(by_kind[index][1]).encode() for index in (0, 2)]), {})
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


class AppFilesTests(unittest.TestCase):
    def test_the_app_compiles(self):
        """The app's files compile with ActivityKit's signatures. Linux has no ActivityKit, so a file here
        declares them."""
        stand_in = pathlib.Path(__file__).parent / "ActivityKit/ActivityKit.swift"
        files = sorted((repository.root / "Examples/app").glob("*.swift"))
        with tempfile.TemporaryDirectory() as folder:
            module = f"{folder}/ActivityKit.swiftmodule"
            swift = ["swiftc", "-swift-version", "6", "-warnings-as-errors"]
            output_of([*swift, "-parse-as-library", "-emit-module", "-module-name", "ActivityKit", stand_in, "-emit-module-path", module])
            output_of([*swift, "-typecheck", "-I", folder, *files])

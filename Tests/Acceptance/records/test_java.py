"""SendGoal.java with Apache's Kafka client, which needs a newer broker than `causeway-lab broker`."""
import signal
import tempfile

from records import repository
from records.example_run import JACKSON, PRODUCERS, KafkaWriterTestCase, output_of


class KafkaExampleTests(KafkaWriterTestCase):
    def broker_command(self):
        return [
            repository.root / ".build/fleet/venv/bin/python", "-B", repository.root / "Tests/Acceptance/fleet/broker.py", self.folder.name,
        ]

    def tearDown(self):
        # On SIGTERM the broker's program also ends the processes that it has started.
        self.broker.signal(signal.SIGTERM)
        self.broker.wait(20)
        super().tearDown()

    def test_java(self):
        clients = ":".join(map(str, sorted((repository.root / ".build/records/java").glob("*.jar"))))
        path = f"{JACKSON}:{clients}"
        with tempfile.TemporaryDirectory() as classes:
            files = [PRODUCERS / "java/GoalRecords.java", PRODUCERS / "java/SendGoal.java"]
            output_of(["javac", "-Werror", "-Xlint:all", "-d", classes, "-cp", path, *files])
            self.check_example(["java", "-cp", f"{path}:{classes}", "SendGoal"])

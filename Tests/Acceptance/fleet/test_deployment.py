"""A deployment notices a part or a worker that ends by itself, and not one that the test ends."""

import os
import signal
import tempfile
import unittest

from fleet.deployment import Deployment, Worker
from processes import Failure, Process

ENDLESS = ["sleep", "600"]


class CheckProcessesTests(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.redis = self.start("redis", ENDLESS)
        self.worker = Worker.__new__(Worker)
        self.worker.name, self.worker.log = "worker-1", self.log("worker-1")
        self.worker.process = self.start("worker-1", ENDLESS)
        self.deployment = Deployment.__new__(Deployment)
        self.deployment.parts = {"redis": self.redis}
        self.deployment.workers = {"worker-1": self.worker}

    def log(self, name):
        return os.path.join(self.directory.name, f"{name}.log")

    def start(self, name, command):
        process = Process(name, command, self.log(name))
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        process.signal(signal.SIGKILL)
        process.wait(60)

    def test_running_processes_pass(self):
        self.deployment.check_processes()
        self.assertEqual(self.deployment.running_workers, [self.worker])

    def test_a_worker_that_ends_by_itself_is_reported(self):
        self.end(self.worker.process)
        with self.assertRaisesRegex(Failure, "^worker-1 has ended by itself"):
            self.deployment.check_processes()

    def test_a_part_that_ends_by_itself_is_reported(self):
        self.end(self.redis)
        with self.assertRaisesRegex(Failure, "^redis has ended by itself"):
            self.deployment.check_processes()

    def test_a_worker_that_the_test_kills_is_not_reported(self):
        self.worker.kill()
        self.deployment.check_processes()
        self.assertEqual(self.deployment.running_workers, [])

    def test_a_worker_that_the_test_stops_is_not_reported(self):
        self.worker.kill()
        self.worker.process = self.start("worker-1", ["true"])
        self.worker.await_end()
        self.deployment.check_processes()
        self.assertEqual(self.deployment.running_workers, [])


if __name__ == "__main__":
    unittest.main()

"""The check of fan-outs and starts during an upgrade accepts a correct history, and finds each fault in a
changed one."""

import json
import os
import tempfile
import types
import unittest

from fleet.fanouts_and_starts import MEMBER_COUNT, FanoutsAndStarts
from fleet.run_report import RunReport

PUSH_OF_LOAD = {"status": 200, "token": "t", "state": "of the load"}


class FanoutsAndStartsCheckTests(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.fanouts_and_starts = FanoutsAndStarts.__new__(FanoutsAndStarts)
        self.fanouts_and_starts.deployment = types.SimpleNamespace(path=lambda name: os.path.join(self.directory.name, name))
        commands = [{"command": "goal-1", "state": "first"}, {"command": "goal-2", "state": "last"}]
        self.shown = MEMBER_COUNT
        self.fanouts_and_starts._crowd = types.SimpleNamespace(commands=commands, count_showing=lambda _: self.shown)
        self.fanouts_and_starts._starts = {"guest-0": "ride"}
        self.fanouts_and_starts.fanout_under_way_count = 1
        self.results = [
            {"command": "goal-1", "outcome": "delivered", "ranges": 1},
            {"command": "goal-2", "outcome": "delivered", "ranges": 1},
            {"command": "guest-0", "outcome": "accepted", "attempts": 1},
        ]
        self.fanouts_and_starts.results = types.SimpleNamespace(other_results=self.results)
        self.pushes = [
            {"status": 200, "token": "a", "state": "first"},
            {"status": 200, "token": "a", "state": "last"},
            {"status": 503, "token": "a", "state": "last"},
            {"status": 200, "token": "b", "state": "last"},
            PUSH_OF_LOAD,
            {"status": 200, "token": "g", "state": "ride"},
        ]

    def problems(self):
        with open(self.fanouts_and_starts.deployment.path("pushes.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(push) + "\n" for push in self.pushes)
        report = RunReport()
        self.fanouts_and_starts.check(report)
        return report.problems

    def test_a_correct_history_passes_and_the_log_keeps_the_pushes_of_the_load(self):
        self.assertEqual(self.problems(), [])
        with open(self.fanouts_and_starts.deployment.path("pushes.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line) for line in file], [PUSH_OF_LOAD])

    def test_a_member_with_an_older_state_is_found(self):
        self.shown -= 1
        self.assertEqual(len(self.problems()), 1)

    def test_a_repeated_push_to_a_member_is_found(self):
        self.pushes.append({"status": 200, "token": "b", "state": "last"})
        self.assertEqual(self.problems(), ["1 pushes to members were repeated"])

    def test_a_command_without_a_result_over_all_ranges_is_found(self):
        del self.results[0]["ranges"]
        self.assertEqual(len(self.problems()), 1)

    def test_a_start_that_was_sent_twice_or_never_is_found(self):
        self.pushes.append(self.pushes[-1])
        self.assertEqual(self.problems(), ["guest-0 was started 2 times; its outcomes are ['accepted']"])
        del self.pushes[-2:]
        self.assertEqual(len(self.problems()), 1)

    def test_a_start_without_a_result_is_found(self):
        del self.results[-1]
        self.assertEqual(len(self.problems()), 1)

    def test_a_run_without_a_fanout_under_way_is_found(self):
        self.fanouts_and_starts.fanout_under_way_count = 0
        self.assertEqual(len(self.problems()), 1)


if __name__ == "__main__":
    unittest.main()

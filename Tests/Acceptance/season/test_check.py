"""The checker accepts a run without violations, and finds each invariant that a changed run violates."""

import copy
import json
import unittest

from recorded_runs.changed_runs import ChangedRunTestCase
from season import check

SPACING_MILLISECONDS, BUCKET_PUSHES, REFILL_MILLISECONDS, RESERVED_PUSHES = 1_000, 4, 12_000, 2
START_MILLISECONDS = 1_790_000_000_000


class RecordedRun:
    """A small run that violates no invariant. Each of its three activities has a command every 100 ms and a push every
    second."""

    def __init__(self):
        self.commands, self.results, self.pushes = [], [], []
        self.policy = {
            "spacingMilliseconds": SPACING_MILLISECONDS,
            "budget": {"pushes": BUCKET_PUSHES, "refillPerHour": 3_600_000 // REFILL_MILLISECONDS, "reservedForAlerts": RESERVED_PUSHES},
        }
        for activity in ("a", "b", "c"):
            self.add_activity(activity)

    def add_command(self, activity, number, event, time, alert):
        command = {
            "command": f"{activity}-{number}", "activity": activity, "event": event, "time": time, "alert": alert,
            "state": f"{activity}{number:015}",
        }
        self.commands.append(command)
        return command

    def add_result(self, command, outcome, push=None):
        result = {"command": command["command"], "outcome": outcome, "times": {"admitted": command["time"] + 1}}
        if push is not None:
            result["apnsId"] = push["apnsId"]
        self.results.append(result)

    def add_push(self, command, time, priority, alert):
        push = {
            "time": time, "status": 200, "app": "app", "activity": command["activity"], "device": "d",
            "token": ("s" if command["event"] == "start" else "t") + command["activity"],
            "apnsId": f"id-{command['command']}", "priority": priority, "expiration": 0, "event": command["event"],
            "timestamp": time // 1_000, "alert": alert, "state": command["state"],
            "effect": {"start": "started", "update": "shown", "end": "ended"}[command["event"]],
        }
        self.pushes.append(push)
        return push

    def add_activity(self, activity):
        level, sent_at_milliseconds, waiting_command, alert = float(BUCKET_PUSHES), START_MILLISECONDS, None, None
        start = self.add_command(activity, 0, "start", START_MILLISECONDS, "Kick-off")
        self.add_result(start, "accepted", self.add_push(start, START_MILLISECONDS, 10, "Kick-off"))
        for number in range(1, 121):
            time = START_MILLISECONDS + number * 100
            event = "end" if number == 120 else "update"
            own_alert = f"Goal {number}" if number % 23 == 0 or event == "end" else None
            command = self.add_command(activity, number, event, time, own_alert)
            if waiting_command is not None:
                self.add_result(waiting_command, "superseded")
            waiting_command, alert = command, own_alert or alert
            if event == "update" and time - sent_at_milliseconds < SPACING_MILLISECONDS:
                continue
            time = max(time, sent_at_milliseconds + SPACING_MILLISECONDS)
            level = min(BUCKET_PUSHES, level + (time - sent_at_milliseconds) / REFILL_MILLISECONDS)
            is_urgent = (alert is not None or event == "end") and level >= 1
            level -= is_urgent
            self.add_result(command, "accepted", self.add_push(command, time, 10 if is_urgent else 5, alert))
            waiting_command, alert, sent_at_milliseconds = None, None, time

    def file_texts(self):
        """Returns the texts of the run's files, by name."""
        as_lines = lambda values: "".join(json.dumps(value) + "\n" for value in values)
        return {
            "commands.jsonl": as_lines(self.commands),
            "results.jsonl": as_lines(self.results),
            "pushes.jsonl": as_lines(self.pushes),
            "policy.json": json.dumps(self.policy),
        }


CORRECT_RUN = RecordedRun()


class ChangedSeason(ChangedRunTestCase):
    main = staticmethod(check.main)

    def setUp(self):
        self.recorded_run = copy.deepcopy(CORRECT_RUN)

    def pushes_of(self, activity="b", event=None):
        return [p for p in self.recorded_run.pushes if p["activity"] == activity and event in (None, p["event"])]

    def test_a_correct_run_has_no_violation(self):
        report = self.assert_all_hold()
        self.assertIn("11 of 11 invariants hold", report)
        self.assertIn(" rang, ", report)
        demoted = [p for p in self.recorded_run.pushes if p["priority"] == 5 and p["alert"] is not None]
        self.assertTrue(demoted, "the bucket is small enough to run empty")

    def test_a_command_without_a_result_is_found(self):
        self.recorded_run.results.remove(next(r for r in self.recorded_run.results if r["outcome"] == "superseded"))
        self.assert_violated("each command has a result")

    def test_superseded_commands_may_be_counted_instead(self):
        self.count_superseded()
        report = self.assert_all_hold("--superseded-results", "counted")
        self.assertIn(" counted", report)
        self.assert_violated("each command has a result")

    def test_a_wrong_count_of_superseded_commands_is_found(self):
        self.count_superseded()
        next(r for r in self.recorded_run.results if r.get("superseded"))["superseded"] += 1
        self.assert_violated("each command has a result", "--superseded-results", "counted")
        arguments = ("--superseded-results", "counted", "--results-again", "1")
        self.assert_all_hold(*arguments)

    def test_a_count_is_found_if_each_command_must_have_a_result(self):
        self.recorded_run.results[5]["superseded"] = 1
        self.assert_violated("each command has a result")

    def test_a_start_or_an_end_that_is_only_counted_is_found(self):
        for kind in ("start", "end"):
            with self.subTest(kind):
                self.setUp()
                self.count_superseded()
                command = next(c for c in self.recorded_run.commands if c["event"] == kind)
                self.recorded_run.results = [r for r in self.recorded_run.results if r["command"] != command["command"]]
                self.assert_violated(
                    "each command has a result", "--superseded-results", "counted", others=("each accepted result",)
                )

    def count_superseded(self):
        """Removes the results of superseded commands. The next result of the same activity counts them."""
        outcomes = {r["command"]: r for r in self.recorded_run.results}
        waiting = {}
        for command in self.recorded_run.commands:
            result, activity = outcomes[command["command"]], command["activity"]
            if result["outcome"] == "superseded" and command["alert"] is None:
                self.recorded_run.results.remove(result)
                waiting[activity] = waiting.get(activity, 0) + 1
            elif waiting.get(activity):
                result["superseded"] = waiting.pop(activity)

    def test_a_command_that_stays_held_is_found(self):
        result = self.recorded_run.results[-1]
        result["outcome"] = "held"
        self.assert_violated("each command has a result", others=("each accepted result",))
        self.recorded_run.results.append({**result, "outcome": "accepted"})
        self.assert_all_hold()

    def test_a_newer_state_may_replace_a_held_one(self):
        result = next(r for r in self.recorded_run.results if r["outcome"] == "superseded")
        result["outcome"] = "held"
        self.assert_all_hold()

    def test_a_result_of_no_command_is_found(self):
        self.recorded_run.results.append({"command": "z-1", "outcome": "superseded"})
        self.assert_violated("each command has a result")

    def test_a_repeated_result_is_found(self):
        self.recorded_run.results.append(next(r for r in self.recorded_run.results if r["outcome"] == "superseded"))
        self.assert_violated("each command has a result")
        self.assert_all_hold("--results-again", "1")

    def test_an_accepted_result_without_a_push_is_found(self):
        self.pushes_of()[5]["status"] = 503
        self.assert_violated("each accepted result is one push")

    def test_a_push_without_a_result_is_found(self):
        push = self.pushes_of()[5]
        result = next(r for r in self.recorded_run.results if r.get("apnsId") == push["apnsId"])
        result["outcome"] = "superseded"
        self.assert_violated("each accepted result is one push")

    def test_a_push_may_have_lost_its_response(self):
        push = self.pushes_of()[5]
        result = next(r for r in self.recorded_run.results if r.get("apnsId") == push["apnsId"])
        result.update(outcome="superseded", reason="noResponse")
        self.assert_violated("each accepted result is one push")
        self.assert_all_hold("--lost-responses", "1")

    def test_a_push_without_a_result_is_no_lost_response(self):
        push = self.pushes_of()[5]
        result = next(r for r in self.recorded_run.results if r.get("apnsId") == push["apnsId"])
        result["outcome"] = "superseded"
        self.assert_violated("each accepted result is one push", "--lost-responses", "1")

    def test_a_repeated_push_is_found(self):
        push = dict(next(p for p in self.pushes_of() if p["priority"] == 5))
        push["time"] += 300
        push["apnsId"] = "another"
        self.recorded_run.pushes.append(push)
        self.assert_violated("each accepted result is one push", others=["no two pushes"])

    def test_a_state_read_again_may_leave_its_alert_to_a_later_push(self):
        silent = next(p for p in self.pushes_of(event="update") if p["alert"] is not None)
        later = next(p for p in self.pushes_of(event="update") if p["time"] > silent["time"] and p["alert"] is None)
        for key in ("alert", "priority"):
            later[key], silent[key] = silent[key], later[key]
        self.assertEqual(self.run_checker(self.recorded_run.file_texts())[0], 1)
        self.assert_all_hold("--silent-pushes", "1")

    def test_more_pushes_than_the_bucket_holds_are_found(self):
        for push in self.pushes_of(event="update"):
            push["priority"] = 10
        self.assert_violated("no more pushes at priority 10")

    def test_after_a_wipe_the_bucket_is_full_again(self):
        for push in self.pushes_of(event="update")[:6]:
            push["priority"] = 10
        self.assertEqual(self.run_checker(self.recorded_run.file_texts())[0], 1)
        self.assert_all_hold("--wipes", "1")

    def test_a_plain_push_from_the_reserve_is_found(self):
        plain = [p for p in self.pushes_of(event="update") if p["alert"] is None]
        # Two of the bucket's four pushes are reserved for alerts, so the third plain push in a row is one too
        # many.
        for push in plain[:3]:
            push["priority"] = 10
        self.assert_violated("no more pushes at priority 10", others=["nothing is demoted"])

    def test_a_needless_demotion_is_found(self):
        first = next(p for p in self.pushes_of(event="update") if p["alert"] is not None)
        first["priority"] = 5
        self.assert_violated("nothing is demoted")

    def test_two_pushes_that_are_too_close_are_found(self):
        self.pushes_of()[5]["time"] -= 200
        self.assert_violated("no two pushes of an activity are closer")

    def test_small_errors_of_the_spacing_add_up(self):
        for number, push in enumerate(self.pushes_of()):
            push["time"] -= 30 * number
        self.assert_violated("no two pushes of an activity are closer", others=["every alert", "each accepted", "no more pushes"])

    def test_a_timestamp_that_decreases_is_found(self):
        self.pushes_of()[5]["timestamp"] -= 60
        self.assert_violated("the timestamps of one token never decrease")

    def test_a_push_that_the_phone_dropped_is_found(self):
        self.pushes_of()[5]["effect"] = "ignoredOld"
        self.assert_violated("the timestamps of one token never decrease")

    def test_an_update_after_the_end_is_found(self):
        late = dict(self.pushes_of(event="update")[-1])
        late.update(time=self.pushes_of(event="end")[0]["time"] + 5_000, apnsId="late", status=410, effect=None)
        self.recorded_run.pushes.append(late)
        self.assert_violated("no push follows an accepted end")

    def test_a_repeated_start_is_found(self):
        again = dict(self.pushes_of(event="start")[0])
        again.update(time=again["time"] + 500, apnsId="again")
        self.recorded_run.pushes.append(again)
        self.assert_violated("no activity is started twice", others=["each accepted", "no two pushes"])

    def test_a_lost_alert_is_found(self):
        rings = next(p for p in self.pushes_of(event="update") if p["alert"] is not None)
        rings["alert"] = None
        self.assert_violated("every alert rings in order", others=["no more pushes"])

    def test_an_older_alert_instead_of_a_newer_one_is_found(self):
        rings = [p for p in self.pushes_of(event="update") if p["alert"] is not None]
        rings[1]["alert"] = rings[0]["alert"]
        self.assert_violated("every alert rings in order")

    def test_a_repeated_alert_is_found(self):
        pushes = self.pushes_of(event="update")
        rings = next(number for number, push in enumerate(pushes) if push["alert"] is not None)
        quiet = next(push for push in pushes[rings + 1 :] if push["alert"] is None)
        quiet["alert"] = pushes[rings]["alert"]
        self.assert_violated("every alert rings in order", others=["nothing is demoted"])
        _, violated, _ = self.run_checker(self.recorded_run.file_texts(), "--alerts-again", "1")
        self.assertFalse(any(name.startswith("every alert rings in order") for name in violated))

    def test_a_long_wait_is_found(self):
        silent = self.pushes_of(event="update")[2:6]
        for push in silent:
            self.recorded_run.pushes.remove(push)
            result = next(r for r in self.recorded_run.results if r.get("apnsId") == push["apnsId"])
            result["outcome"] = "superseded"
        self.assert_violated("no state waits longer", others=["every alert", "nothing is demoted"])

    def test_a_wrong_last_state_is_found(self):
        end = self.pushes_of(event="end")[0]
        end["state"] = self.pushes_of(event="update")[-1]["state"]
        self.assert_violated("each phone ends with")

    def test_a_missing_end_is_found(self):
        end = self.pushes_of(event="end")[0]
        self.recorded_run.pushes.remove(end)
        self.assert_violated("each phone ends with", others=["each accepted", "every alert", "no state waits"])

    def test_unreadable_files_are_refused(self):
        self.assert_unreadable(
            ("commands.jsonl", "{}\n"), ("commands.jsonl", "nonsense\n"), ("pushes.jsonl", "[]\n"),
            ("pushes.jsonl", '{"time":1'), ("results.jsonl", "\n"), ("policy.json", "{}"),
            ("results.jsonl", None),
        )


if __name__ == "__main__":
    unittest.main()

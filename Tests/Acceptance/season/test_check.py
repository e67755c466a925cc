"""The checker accepts a run that keeps the laws, and finds each law that a changed run breaks."""

import copy
import json
import unittest

from recorded_runs.changed_runs import ChangedRunTestCase
from season import check

SPACING, BUCKET, INTERVAL, RESERVED = 1_000, 4, 12_000, 2
BIRTH = 1_790_000_000_000


class Run:
    """A small run that keeps all laws. Each of its three activities has a command every 100 ms and a push every
    second."""

    def __init__(self):
        self.commands, self.results, self.pushes = [], [], []
        self.policy = {
            "spacingMilliseconds": SPACING,
            "budget": {"pushes": BUCKET, "refillPerHour": 3_600_000 // INTERVAL, "reservedForAlerts": RESERVED},
        }
        for activity in ("a", "b", "c"):
            self.play(activity)

    def command(self, activity, number, event, time, alert):
        command = {
            "command": f"{activity}-{number}", "activity": activity, "event": event, "time": time, "alert": alert,
            "state": f"{activity}{number:015}",
        }
        self.commands.append(command)
        return command

    def result(self, command, outcome, push=None):
        result = {"command": command["command"], "outcome": outcome, "times": {"admitted": command["time"] + 1}}
        if push is not None:
            result["apnsId"] = push["apnsId"]
        self.results.append(result)

    def push(self, command, time, priority, alert):
        push = {
            "time": time, "status": 200, "app": "app", "activity": command["activity"], "device": "d",
            "token": ("s" if command["event"] == "start" else "t") + command["activity"],
            "apnsId": f"id-{command['command']}", "priority": priority, "expiration": 0, "event": command["event"],
            "timestamp": time // 1_000, "alert": alert, "state": command["state"],
            "effect": {"start": "started", "update": "shown", "end": "ended"}[command["event"]],
        }
        self.pushes.append(push)
        return push

    def play(self, activity):
        level, sent, waiting, alert = float(BUCKET), BIRTH, None, None
        start = self.command(activity, 0, "start", BIRTH, "Kick-off")
        self.result(start, "accepted", self.push(start, BIRTH, 10, "Kick-off"))
        for number in range(1, 121):
            time = BIRTH + number * 100
            event = "end" if number == 120 else "update"
            rings = f"Goal {number}" if number % 23 == 0 or event == "end" else None
            command = self.command(activity, number, event, time, rings)
            if waiting is not None:
                self.result(waiting, "superseded")
            waiting, alert = command, rings or alert
            if event == "update" and time - sent < SPACING:
                continue
            time = max(time, sent + SPACING)
            level = min(BUCKET, level + (time - sent) / INTERVAL)
            urgent = (alert is not None or event == "end") and level >= 1
            level -= urgent
            self.result(command, "accepted", self.push(command, time, 10 if urgent else 5, alert))
            waiting, alert, sent = None, None, time

    def written(self):
        """Returns the texts of the run's files, by name."""
        as_lines = lambda values: "".join(json.dumps(value) + "\n" for value in values)
        return {
            "commands.jsonl": as_lines(self.commands),
            "results.jsonl": as_lines(self.results),
            "pushes.jsonl": as_lines(self.pushes),
            "policy.json": json.dumps(self.policy),
        }


SOUND = Run()


class ChangedSeason(ChangedRunTestCase):
    main = staticmethod(check.main)

    def setUp(self):
        self.run_ = copy.deepcopy(SOUND)

    def own(self, activity="b", event=None):
        return [p for p in self.run_.pushes if p["activity"] == activity and event in (None, p["event"])]

    def test_a_sound_run(self):
        report = self.holds()
        self.assertIn("11 of 11 laws hold", report)
        self.assertIn(" rang, ", report)
        demoted = [p for p in self.run_.pushes if p["priority"] == 5 and p["alert"] is not None]
        self.assertTrue(demoted, "the bucket is small enough to run empty")

    def test_a_command_without_a_result(self):
        self.run_.results.remove(next(r for r in self.run_.results if r["outcome"] == "superseded"))
        self.breaks("each command has a result")

    def test_commands_that_are_counted(self):
        self.count()
        report = self.holds("--superseded-results", "counted")
        self.assertIn(" counted", report)
        self.breaks("each command has a result")

    def test_counts_that_are_wrong(self):
        self.count()
        next(r for r in self.run_.results if r.get("superseded"))["superseded"] += 1
        self.breaks("each command has a result", "--superseded-results", "counted")
        arguments = ("--superseded-results", "counted", "--results-again", "1")
        self.holds(*arguments)

    def test_a_count_where_each_has_a_result(self):
        self.run_.results[5]["superseded"] = 1
        self.breaks("each command has a result")

    def test_what_may_not_be_counted(self):
        for kind in ("start", "end"):
            with self.subTest(kind):
                self.setUp()
                self.count()
                command = next(c for c in self.run_.commands if c["event"] == kind)
                self.run_.results = [r for r in self.run_.results if r["command"] != command["command"]]
                self.breaks(
                    "each command has a result", "--superseded-results", "counted", others=("each accepted result",)
                )

    def count(self):
        """Removes the results of superseded commands. The next result of the same activity counts them."""
        outcomes = {r["command"]: r for r in self.run_.results}
        waiting = {}
        for command in self.run_.commands:
            result, activity = outcomes[command["command"]], command["activity"]
            if result["outcome"] == "superseded" and command["alert"] is None:
                self.run_.results.remove(result)
                waiting[activity] = waiting.get(activity, 0) + 1
            elif waiting.get(activity):
                result["superseded"] = waiting.pop(activity)

    def test_a_command_that_stays_held(self):
        result = self.run_.results[-1]
        result["outcome"] = "held"
        self.breaks("each command has a result", others=("each accepted result",))
        self.run_.results.append({**result, "outcome": "accepted"})
        self.holds()

    def test_a_held_state_whose_place_a_newer_one_took(self):
        result = next(r for r in self.run_.results if r["outcome"] == "superseded")
        result["outcome"] = "held"
        self.holds()

    def test_a_result_of_no_command(self):
        self.run_.results.append({"command": "z-1", "outcome": "superseded"})
        self.breaks("each command has a result")

    def test_a_result_twice(self):
        self.run_.results.append(next(r for r in self.run_.results if r["outcome"] == "superseded"))
        self.breaks("each command has a result")
        self.holds("--results-again", "1")

    def test_accepted_without_a_push(self):
        self.own()[5]["status"] = 503
        self.breaks("each accepted result is one push")

    def test_a_push_without_a_result(self):
        push = self.own()[5]
        result = next(r for r in self.run_.results if r.get("apnsId") == push["apnsId"])
        result["outcome"] = "superseded"
        self.breaks("each accepted result is one push")

    def test_a_push_twice(self):
        push = dict(next(p for p in self.own() if p["priority"] == 5))
        push["time"] += 300
        push["apnsId"] = "another"
        self.run_.pushes.append(push)
        self.breaks("each accepted result is one push", others=["no two pushes"])

    def test_over_the_bucket(self):
        for push in self.own(event="update"):
            push["priority"] = 10
        self.breaks("no more pushes at priority 10")

    def test_after_a_wipe_the_bucket_is_full_again(self):
        for push in self.own(event="update")[:6]:
            push["priority"] = 10
        self.assertEqual(self.judged(self.run_.written())[0], 1)
        self.holds("--wipes", "1")

    def test_the_reserve_is_for_alerts(self):
        plain = [p for p in self.own(event="update") if p["alert"] is None]
        # Two of the bucket's four pushes are reserved for alerts, so the third plain push in a row is one too
        # many.
        for push in plain[:3]:
            push["priority"] = 10
        self.breaks("no more pushes at priority 10", others=["nothing is demoted"])

    def test_a_needless_demotion(self):
        first = next(p for p in self.own(event="update") if p["alert"] is not None)
        first["priority"] = 5
        self.breaks("nothing is demoted")

    def test_two_too_close(self):
        self.own()[5]["time"] -= 200
        self.breaks("no two pushes of an activity within")

    def test_closeness_adds_up(self):
        for number, push in enumerate(self.own()):
            push["time"] -= 30 * number
        self.breaks("no two pushes of an activity within", others=["every alert", "each accepted", "no more pushes"])

    def test_a_timestamp_that_falls(self):
        self.own()[5]["timestamp"] -= 60
        self.breaks("per token the timestamps never fall")

    def test_a_push_that_the_phone_dropped(self):
        self.own()[5]["effect"] = "ignoredOld"
        self.breaks("per token the timestamps never fall")

    def test_an_update_after_the_end(self):
        late = dict(self.own(event="update")[-1])
        late.update(time=self.own(event="end")[0]["time"] + 5_000, apnsId="late", status=410, effect=None)
        self.run_.pushes.append(late)
        self.breaks("nothing after an accepted end")

    def test_a_start_twice(self):
        again = dict(self.own(event="start")[0])
        again.update(time=again["time"] + 500, apnsId="again")
        self.run_.pushes.append(again)
        self.breaks("no start twice", others=["each accepted", "no two pushes"])

    def test_a_lost_alert(self):
        rings = next(p for p in self.own(event="update") if p["alert"] is not None)
        rings["alert"] = None
        self.breaks("every alert appears", others=["no more pushes"])

    def test_an_older_alert_in_place_of_a_newer(self):
        rings = [p for p in self.own(event="update") if p["alert"] is not None]
        rings[1]["alert"] = rings[0]["alert"]
        self.breaks("every alert appears")

    def test_an_alert_twice(self):
        pushes = self.own(event="update")
        rings = next(number for number, push in enumerate(pushes) if push["alert"] is not None)
        quiet = next(push for push in pushes[rings + 1 :] if push["alert"] is None)
        quiet["alert"] = pushes[rings]["alert"]
        self.breaks("every alert appears", others=["nothing is demoted"])
        _, broken, _ = self.judged(self.run_.written(), "--alerts-again", "1")
        self.assertFalse(any(name.startswith("every alert appears") for name in broken))

    def test_a_long_wait(self):
        silent = self.own(event="update")[2:6]
        for push in silent:
            self.run_.pushes.remove(push)
            result = next(r for r in self.run_.results if r.get("apnsId") == push["apnsId"])
            result["outcome"] = "superseded"
        self.breaks("no state waits longer", others=["every alert", "nothing is demoted"])

    def test_another_last_state(self):
        end = self.own(event="end")[0]
        end["state"] = self.own(event="update")[-1]["state"]
        self.breaks("each phone ends with")

    def test_no_end(self):
        end = self.own(event="end")[0]
        self.run_.pushes.remove(end)
        self.breaks("each phone ends with", others=["each accepted", "every alert", "no state waits"])

    def test_what_cannot_be_read(self):
        self.refuses(
            ("commands.jsonl", "{}\n"), ("commands.jsonl", "nonsense\n"), ("pushes.jsonl", "[]\n"),
            ("pushes.jsonl", '{"time":1'), ("results.jsonl", "\n"), ("policy.json", "{}"),
            ("results.jsonl", None),
        )


if __name__ == "__main__":
    unittest.main()

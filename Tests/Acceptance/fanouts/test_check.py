"""The checker accepts fan-outs without violations, and finds each invariant that a changed run violates."""

import json
import unittest

from fanouts import check
from recorded_runs.changed_runs import ChangedRunTestCase

START_MILLISECONDS = 1_790_000_000_000
HALF_MEMBER_COUNT = 20
OLD, NEW = "goal-1", "goal-2"
LEFT, JOINED, DIED, ROTATED = "leaver", "joiner", "dead", "member-3"


class RecordedRun:
    """Forty members, one of which gets another token, and three more: one leaves, one joins and one dies. The second of
    two commands supersedes the first when half of the forty are reached."""

    def __init__(self):
        self.names = [f"member-{number}" for number in range(2 * HALF_MEMBER_COUNT)]
        self.commands = [self.make_command(OLD, 0, "Goal"), self.make_command(NEW, 200, None)]
        self.members = [{"activity": name} for name in self.names]
        self.members.append({"activity": LEFT, "left": START_MILLISECONDS + 250})
        self.members.append({"activity": JOINED, "joined": START_MILLISECONDS + 400})
        self.members.append({"activity": DIED, "dead": True})
        self.incidents = []
        self.retired = [{"token": "old", "time": START_MILLISECONDS + 260}]
        self.invalidations = [{"activity": DIED, "time": START_MILLISECONDS + 160}]
        self.pushes = []
        for number, name in enumerate([*self.names[:HALF_MEMBER_COUNT], LEFT]):
            self.add_push(name, OLD, 100 + number, "Goal")
        self.add_push(DIED, OLD, 150, "Goal", 410)
        for number, name in enumerate(self.names[HALF_MEMBER_COUNT:]):
            self.add_push(name, NEW, 210 + number, "Goal")
        for number, name in enumerate(self.names[:HALF_MEMBER_COUNT]):
            self.add_push(name, NEW, 300 + number, None)
        self.add_push(JOINED, NEW, 450, None)
        next(p for p in self.pushes if p["activity"] == ROTATED)["token"] = "old"
        self.results = []
        self.add_results(OLD, [{"delivered": 11, "superseded": 10}, {"delivered": 10, "superseded": 10, "unregistered": 1}])
        self.results.append({"command": OLD, "audience": "final", "activity": DIED, "outcome": "unregistered"})
        self.add_results(NEW, [{"delivered": 20}, {"delivered": 20}])
        self.crowd = {
            "shown": [{"contentState": self.commands[1]["content"], "phones": 41}], "reversed": 0, "alertedTwice": 0,
        }

    @staticmethod
    def make_command(identifier, time, alert):
        return {
            "command": identifier, "time": START_MILLISECONDS + time, "timestamp": (START_MILLISECONDS + 10 * time) // 1_000,
            "alert": alert, "state": f"state of {identifier}", "content": {"score": identifier},
        }

    def add_push(self, activity, command, time, alert, status=200):
        push = {
            "time": START_MILLISECONDS + time, "status": status, "app": "app", "activity": activity, "token": f"of {activity}",
            "priority": 10, "event": "update", "timestamp": 0, "alert": alert, "state": f"state of {command}",
        }
        self.pushes.append(push | ({"effect": "shown"} if status == 200 else {}))

    def add_results(self, command, ranges):
        sums = {}
        for index, members in enumerate(ranges):
            for outcome, count in members.items():
                sums[outcome] = sums.get(outcome, 0) + count
            self.add_result(command, members, segments=[128 * index, 128 * index + 127])
        admitted = next(c["time"] for c in self.commands if c["command"] == command) + 5
        self.add_result(command, sums, ranges=len(ranges), times={"admitted": admitted})

    def add_result(self, command, members, **others):
        outcome = "superseded" if members.get("superseded") else "delivered"
        self.results.append({"command": command, "audience": "final", "outcome": outcome, "members": members, **others})

    def file_texts(self):
        names = ("commands", "members", "incidents", "retired", "invalidations", "pushes", "results")
        files = {f"{name}.jsonl": "".join(json.dumps(value) + "\n" for value in getattr(self, name)) for name in names}
        return files | {"crowd.json": json.dumps(self.crowd)}


class ChangedFanouts(ChangedRunTestCase):
    main = staticmethod(check.main)

    def setUp(self):
        self.recorded_run = RecordedRun()

    def push_of(self, activity, command):
        return next(p for p in self.recorded_run.pushes if (p["activity"], p["state"]) == (activity, f"state of {command}"))

    def result_of(self, command, **having):
        return next(
            r for r in self.recorded_run.results if r["command"] == command and all(r.get(name) == value for name, value in having.items())
        )

    def repeat_push(self, push, later=50, **others):
        self.recorded_run.pushes.append({**push, "time": push["time"] + later, **others})

    def test_a_correct_run_has_no_violation(self):
        self.assertIn("11 of 11 invariants hold", self.assert_all_hold())

    def test_a_phone_that_ends_with_an_older_state_is_found(self):
        self.recorded_run.pushes.remove(self.push_of("member-5", NEW))
        self.assert_violated("every member that stays", others=["results count"])

    def test_a_member_without_a_push_is_found(self):
        self.recorded_run.pushes.remove(self.push_of("member-25", NEW))
        self.assert_violated("every member that stays", others=["results count", "every alert"])

    def test_phones_that_show_another_state_are_found(self):
        self.recorded_run.crowd["shown"][0]["phones"] = 40
        self.assert_violated("every member that stays")

    def test_a_push_to_a_stranger_or_of_an_unknown_state_is_found(self):
        self.repeat_push(self.push_of("member-5", NEW), activity="stranger")
        self.assert_violated("every member that stays")
        self.setUp()
        self.repeat_push(self.push_of("member-5", OLD), state="nobody's")
        self.assert_violated("every member that stays")

    def test_a_push_of_an_older_state_is_found(self):
        self.push_of("member-5", OLD)["time"] += 400
        self.recorded_run.pushes.append(self.recorded_run.pushes.pop(5))
        self.assert_violated("no phone goes back", others=["every member"])

    def test_phones_that_went_back_in_time_are_found(self):
        self.recorded_run.crowd["reversed"] = 1
        self.assert_violated("no phone goes back")

    def test_a_repeated_state_is_found(self):
        self.repeat_push(self.push_of("member-5", NEW))
        self.assert_violated("no member gets a state twice")

    def test_after_a_crash_a_state_may_be_repeated_once(self):
        push = self.push_of("member-5", NEW)
        self.repeat_push(push)
        self.recorded_run.incidents.append({"time": push["time"] + 20, "what": "kill"})
        self.assert_all_hold()
        self.assert_violated("no member gets a state twice", "--checkpoint", "10")
        self.recorded_run.incidents[0]["what"] = "join"
        self.assert_violated("no member gets a state twice")

    def test_a_state_that_came_three_times_is_found(self):
        push = self.push_of("member-5", NEW)
        self.repeat_push(push)
        self.repeat_push(push, later=60)
        self.recorded_run.incidents.append({"time": push["time"] + 20, "what": "kill"})
        self.assert_violated("no member gets a state twice")

    def test_a_repeated_state_of_after_the_crash_is_found(self):
        push = self.push_of("member-5", NEW)
        self.repeat_push(push)
        self.recorded_run.incidents.append({"time": push["time"] - 100, "what": "kill"})
        self.assert_violated("no member gets a state twice", "--flight", "50")

    def test_too_many_pushes_are_found(self):
        for _ in range(2):
            for push in list(self.recorded_run.pushes):
                if push["state"] == f"state of {NEW}" and push["alert"] is None:
                    self.repeat_push(push)
        self.recorded_run.incidents += [{"time": START_MILLISECONDS + 400, "what": "kill"}] * 2
        self.assert_violated("no more pushes than", others=["no member gets"])

    def test_an_older_state_that_is_sent_late_is_found(self):
        for push in self.recorded_run.pushes:
            if push["state"] == f"state of {NEW}" and push["activity"] != JOINED:
                push["time"] += 1_900
        self.push_of("member-5", OLD)["time"] += 1_800
        self.assert_violated("no older state is sent")

    def test_a_lost_alert_is_found(self):
        self.push_of("member-25", NEW)["alert"] = None
        self.assert_violated("every alert rings once")

    def test_only_a_crash_allows_a_repeated_alert(self):
        self.push_of("member-5", NEW)["alert"] = "Goal"
        self.assert_violated("every alert rings once")
        self.recorded_run.incidents.append({"time": START_MILLISECONDS + 200, "what": "kill"})
        self.assert_all_hold()

    def test_a_newer_alert_may_replace_an_older_one(self):
        self.recorded_run.commands[1]["alert"] = "Second goal"
        for push in self.recorded_run.pushes:
            if push["state"] == f"state of {NEW}":
                push["alert"] = "Second goal"
        self.assert_all_hold()
        self.push_of("member-25", NEW)["alert"] = "Goal"
        self.assert_violated("every alert rings once")

    def test_an_alert_of_no_command_or_of_a_newer_command_is_found(self):
        self.push_of("member-5", NEW)["alert"] = "Own goal"
        self.assert_violated("every alert rings once")
        self.setUp()
        self.recorded_run.commands[1]["alert"] = "Second goal"
        for push in self.recorded_run.pushes:
            if push["state"] == f"state of {NEW}":
                push["alert"] = "Second goal"
        self.push_of("member-5", OLD)["alert"] = "Second goal"
        self.assert_violated("every alert rings once")

    def test_phones_that_heard_an_alert_twice_are_found(self):
        self.recorded_run.crowd["alertedTwice"] = 1
        self.assert_violated("every alert rings once")

    def test_a_command_without_a_result_is_found(self):
        self.recorded_run.results.remove(self.result_of(NEW, ranges=2))
        self.assert_violated("the results of the ranges add up", others=["no more pushes", "a joiner shows"])

    def test_a_range_without_a_result_is_found(self):
        self.recorded_run.results.remove(self.result_of(NEW, segments=[128, 255]))
        self.assert_violated("the results of the ranges add up")

    def test_overlapping_ranges_are_found(self):
        self.result_of(NEW, segments=[128, 255])["segments"] = [127, 255]
        self.assert_violated("the results of the ranges add up")

    def test_a_wrong_sum_of_ranges_is_found(self):
        self.result_of(NEW, segments=[128, 255])["members"] = {"delivered": 19}
        self.assert_violated("the results of the ranges add up")

    def test_a_member_that_no_result_counts_is_found(self):
        self.result_of(NEW, segments=[128, 255])["members"] = {"delivered": 19}
        self.result_of(NEW, ranges=2)["members"] = {"delivered": 39}
        self.assert_violated("the results of the ranges add up", others=["results count"])

    def test_only_a_crash_allows_a_repeated_result(self):
        self.recorded_run.results.append(self.result_of(NEW, segments=[128, 255]))
        self.assert_violated("the results of the ranges add up")
        self.recorded_run.incidents.append({"time": START_MILLISECONDS, "what": "kill"})
        self.assert_all_hold()

    def test_a_repeated_result_with_other_counts_is_found(self):
        self.recorded_run.results.append({**self.result_of(NEW, segments=[128, 255]), "members": {"delivered": 21}})
        self.recorded_run.incidents.append({"time": START_MILLISECONDS, "what": "kill"})
        self.assert_violated("the results of the ranges add up")

    def test_a_result_of_no_command_is_found(self):
        self.recorded_run.results.append({"command": "goal-9", "audience": "final", "outcome": "delivered"})
        self.assert_violated("the results of the ranges add up")

    def test_a_last_command_that_is_not_fanned_out_is_found(self):
        self.recorded_run.results = [r for r in self.recorded_run.results if r["command"] != NEW]
        self.recorded_run.results.append({"command": NEW, "audience": "final", "outcome": "superseded"})
        self.assert_violated("the results of the ranges add up", others=["no more pushes", "a joiner shows"])

    def test_more_delivered_members_than_in_the_log_are_found(self):
        self.result_of(OLD, segments=[0, 127])["members"] = {"delivered": 12, "superseded": 9}
        self.result_of(OLD, ranges=2)["members"] = {"delivered": 22, "superseded": 19, "unregistered": 1}
        self.assert_violated("results count as many")

    def test_only_a_crash_allows_fewer_delivered_members_than_in_the_log(self):
        self.result_of(OLD, segments=[0, 127])["members"] = {"delivered": 10, "superseded": 11}
        self.result_of(OLD, ranges=2)["members"] = {"delivered": 20, "superseded": 21, "unregistered": 1}
        self.assert_violated("results count as many")
        self.recorded_run.incidents.append({"time": START_MILLISECONDS, "what": "kill"})
        self.assert_all_hold()

    def test_a_push_to_a_member_that_has_left_is_found(self):
        member = next(m for m in self.recorded_run.members if m["activity"] == LEFT)
        member["left"] = self.push_of(LEFT, OLD)["time"] - 50
        self.assert_all_hold()
        self.assert_violated("nothing is sent more than 40 ms", "--leave", "40")
        member["left"] -= 2_000
        self.assert_violated("nothing is sent")

    def test_a_push_to_an_old_token_is_found(self):
        self.push_of(ROTATED, NEW)["token"] = "old"
        self.assert_violated("nothing is sent more than 20 ms", "--leave", "20")

    def test_a_push_to_a_dead_phone_is_found(self):
        self.recorded_run.add_push(DIED, NEW, 2_100, None, 410)
        self.assert_violated("nothing is sent")

    def test_a_dead_token_without_an_invalidation_is_found(self):
        self.recorded_run.invalidations.clear()
        self.assert_violated("each dead token")

    def test_a_dead_token_without_a_result_is_found(self):
        self.recorded_run.results.remove(self.result_of(OLD, activity=DIED))
        self.assert_violated("each dead token")

    def test_a_result_that_declares_a_living_token_dead_is_found(self):
        self.recorded_run.results.append({**self.result_of(OLD, activity=DIED), "activity": "member-5"})
        self.assert_violated("each dead token")

    def test_a_wrong_count_of_dead_tokens_is_found(self):
        self.result_of(OLD, segments=[128, 255])["members"] = {"delivered": 10, "superseded": 11}
        self.result_of(OLD, ranges=2)["members"] = {"delivered": 21, "superseded": 21}
        self.assert_violated("each dead token")

    def test_a_member_with_a_new_token_may_get_the_state_again(self):
        push = self.push_of(ROTATED, NEW)
        member = next(m for m in self.recorded_run.members if m["activity"] == ROTATED)
        self.repeat_push(push)
        self.assert_violated("no member gets a state twice")
        member["renewed"] = push["time"] + 10
        self.assert_all_hold()
        self.repeat_push(push, later=60)
        self.assert_violated("no member gets a state twice")

    def test_the_fanout_may_also_reach_a_joiner(self):
        self.repeat_push(self.push_of(JOINED, NEW))
        self.assert_all_hold()
        next(m for m in self.recorded_run.members if m["activity"] == JOINED)["joined"] = START_MILLISECONDS + 190
        self.assert_violated("no member gets a state twice")

    def test_an_alert_to_a_replaced_token_may_be_missing(self):
        push = self.push_of("member-25", NEW)
        push["alert"] = None
        self.repeat_push(push, later=-5, status=410, effect=None, alert="Goal")
        self.recorded_run.invalidations.append({"activity": "member-25", "time": push["time"]})
        self.recorded_run.results.append({"command": NEW, "audience": "final", "activity": "member-25", "outcome": "unregistered"})
        self.assert_violated("every alert rings once", others=["each dead token"])
        next(m for m in self.recorded_run.members if m["activity"] == "member-25")["renewed"] = push["time"] - 10
        violated = self.run_checker(self.recorded_run.file_texts())[1]
        self.assertFalse(any(name.startswith("every alert") for name in violated), violated)

    def test_an_invalidation_of_a_living_token_is_found(self):
        self.recorded_run.invalidations.append({"activity": "member-5", "time": START_MILLISECONDS})
        self.assert_violated("each dead token")

    def test_a_repeated_invalidation_is_found(self):
        self.recorded_run.invalidations *= 2
        self.assert_violated("each dead token")

    def test_a_joiner_that_waits_too_long_is_found(self):
        self.push_of(JOINED, NEW)["time"] += 5_000
        self.assert_violated("a joiner shows")

    def test_a_joiner_without_a_push_is_found(self):
        self.recorded_run.pushes.remove(self.push_of(JOINED, NEW))
        self.assert_violated("a joiner shows", others=["every member that stays"])

    def test_after_a_wipe_all_pushes_may_be_repeated(self):
        first = [push for push in self.recorded_run.pushes if push["state"] == f"state of {OLD}" and push["status"] == 200]
        self.recorded_run.pushes[len(first) : len(first)] = [{**push, "time": push["time"] + 60} for push in first]
        self.assert_violated("no member gets a state twice", others=["every alert"])
        self.recorded_run.incidents.append({"time": START_MILLISECONDS + 150, "what": "wipe"})
        self.assert_all_hold()

    def test_after_a_wipe_a_command_may_be_divided_again(self):
        self.add_result(NEW, {"delivered": 30}, segments=[0, 255])
        self.assert_violated("the results of the ranges add up")
        self.add_result(NEW, {"delivered": 30}, ranges=1)
        self.add_wipe()
        self.assert_all_hold()
        self.add_result(NEW, {"delivered": 31}, ranges=1)
        self.assert_violated("the results of the ranges add up")

    def add_result(self, command, members, **others):
        self.recorded_run.add_result(command, members, **others)

    def add_wipe(self):
        self.recorded_run.incidents.append({"time": START_MILLISECONDS + 150, "what": "wipe"})

    def test_unreadable_files_are_refused(self):
        self.assert_unreadable(
            ("commands.jsonl", "{}\n"), ("commands.jsonl", ""), ("members.jsonl", "nonsense\n"), ("pushes.jsonl", '{"time":1'),
            ("results.jsonl", "\n"), ("crowd.json", "{"), ("incidents.jsonl", "[]\n"),
            ("results.jsonl", None),
        )


if __name__ == "__main__":
    unittest.main()

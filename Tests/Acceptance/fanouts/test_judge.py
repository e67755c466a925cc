"""The judge accepts fan-outs that keep the laws, and finds each law that a changed run breaks."""

import json
import unittest

from fanouts import judge
from recorded_runs.changed_runs import ChangedRunTestCase

BEGIN = 1_790_000_000_000
HALF = 20
OLD, NEW = "goal-1", "goal-2"
LEFT, JOINED, DIED, ROTATED = "leaver", "joiner", "dead", "member-3"


class Run:
    """Forty members, one of which gets another token, and three more: one leaves, one joins and one dies. The second of
    two commands supersedes the first when half of the forty are reached."""

    def __init__(self):
        self.names = [f"member-{number}" for number in range(2 * HALF)]
        self.commands = [self.command(OLD, 0, "Goal"), self.command(NEW, 200, None)]
        self.members = [{"activity": name} for name in self.names]
        self.members.append({"activity": LEFT, "left": BEGIN + 250})
        self.members.append({"activity": JOINED, "joined": BEGIN + 400})
        self.members.append({"activity": DIED, "dead": True})
        self.incidents = []
        self.retired = [{"token": "old", "time": BEGIN + 260}]
        self.invalidations = [{"activity": DIED, "time": BEGIN + 160}]
        self.pushes = []
        for number, name in enumerate([*self.names[:HALF], LEFT]):
            self.push(name, OLD, 100 + number, "Goal")
        self.push(DIED, OLD, 150, "Goal", 410)
        for number, name in enumerate(self.names[HALF:]):
            self.push(name, NEW, 210 + number, "Goal")
        for number, name in enumerate(self.names[:HALF]):
            self.push(name, NEW, 300 + number, None)
        self.push(JOINED, NEW, 450, None)
        next(p for p in self.pushes if p["activity"] == ROTATED)["token"] = "old"
        self.results = []
        self.tell(OLD, [{"delivered": 11, "superseded": 10}, {"delivered": 10, "superseded": 10, "unregistered": 1}])
        self.results.append({"command": OLD, "audience": "final", "activity": DIED, "outcome": "unregistered"})
        self.tell(NEW, [{"delivered": 20}, {"delivered": 20}])
        self.crowd = {
            "shown": [{"contentState": self.commands[1]["content"], "phones": 41}], "reversed": 0, "alertedTwice": 0,
        }

    @staticmethod
    def command(identifier, time, alert):
        return {
            "command": identifier, "time": BEGIN + time, "timestamp": (BEGIN + 10 * time) // 1_000, "alert": alert,
            "state": f"state of {identifier}", "content": {"score": identifier},
        }

    def push(self, activity, command, time, alert, status=200):
        push = {
            "time": BEGIN + time, "status": status, "app": "app", "activity": activity, "token": f"of {activity}", "priority": 10,
            "event": "update", "timestamp": 0, "alert": alert, "state": f"state of {command}",
        }
        self.pushes.append(push | ({"effect": "shown"} if status == 200 else {}))

    def tell(self, command, ranges):
        sums = {}
        for index, members in enumerate(ranges):
            for outcome, count in members.items():
                sums[outcome] = sums.get(outcome, 0) + count
            self.result(command, members, segments=[128 * index, 128 * index + 127])
        admitted = next(c["time"] for c in self.commands if c["command"] == command) + 5
        self.result(command, sums, ranges=len(ranges), times={"admitted": admitted})

    def result(self, command, members, **others):
        outcome = "superseded" if members.get("superseded") else "delivered"
        self.results.append({"command": command, "audience": "final", "outcome": outcome, "members": members, **others})

    def written(self):
        names = ("commands", "members", "incidents", "retired", "invalidations", "pushes", "results")
        files = {f"{name}.jsonl": "".join(json.dumps(value) + "\n" for value in getattr(self, name)) for name in names}
        return files | {"crowd.json": json.dumps(self.crowd)}


class ChangedFanouts(ChangedRunTestCase):
    main = staticmethod(judge.main)

    def setUp(self):
        self.run_ = Run()

    def own(self, activity, command):
        return next(p for p in self.run_.pushes if (p["activity"], p["state"]) == (activity, f"state of {command}"))

    def result_of(self, command, **having):
        return next(
            r for r in self.run_.results if r["command"] == command and all(r.get(name) == value for name, value in having.items())
        )

    def again(self, push, later=50, **others):
        self.run_.pushes.append({**push, "time": push["time"] + later, **others})

    def test_a_sound_run(self):
        self.assertIn("11 of 11 laws hold", self.holds())

    def test_an_older_state_at_the_end(self):
        self.run_.pushes.remove(self.own("member-5", NEW))
        self.breaks("every member that is in", others=["results count"])

    def test_a_member_without_a_push(self):
        self.run_.pushes.remove(self.own("member-25", NEW))
        self.breaks("every member that is in", others=["results count", "every alert"])

    def test_phones_that_show_something_else(self):
        self.run_.crowd["shown"][0]["phones"] = 40
        self.breaks("every member that is in")

    def test_a_push_to_a_stranger_and_of_an_unknown_state(self):
        self.again(self.own("member-5", NEW), activity="stranger")
        self.breaks("every member that is in")
        self.setUp()
        self.again(self.own("member-5", OLD), state="nobody's")
        self.breaks("every member that is in")

    def test_back_in_time(self):
        self.own("member-5", OLD)["time"] += 400
        self.run_.pushes.append(self.run_.pushes.pop(5))
        self.breaks("nobody goes back", others=["every member"])

    def test_phones_that_say_they_went_back(self):
        self.run_.crowd["reversed"] = 1
        self.breaks("nobody goes back")

    def test_a_state_twice(self):
        self.again(self.own("member-5", NEW))
        self.breaks("nobody is sent a state twice")

    def test_a_state_twice_after_a_crash(self):
        push = self.own("member-5", NEW)
        self.again(push)
        self.run_.incidents.append({"time": push["time"] + 20, "what": "kill"})
        self.holds()
        self.breaks("nobody is sent a state twice", "--checkpoint", "10")
        self.run_.incidents[0]["what"] = "join"
        self.breaks("nobody is sent a state twice")

    def test_a_state_three_times_after_one_crash(self):
        push = self.own("member-5", NEW)
        self.again(push)
        self.again(push, later=60)
        self.run_.incidents.append({"time": push["time"] + 20, "what": "kill"})
        self.breaks("nobody is sent a state twice")

    def test_a_state_that_was_sent_after_the_crash_twice(self):
        push = self.own("member-5", NEW)
        self.again(push)
        self.run_.incidents.append({"time": push["time"] - 100, "what": "kill"})
        self.breaks("nobody is sent a state twice", "--flight", "50")

    def test_too_many_pushes(self):
        for _ in range(2):
            for push in list(self.run_.pushes):
                if push["state"] == f"state of {NEW}" and push["alert"] is None:
                    self.again(push)
        self.run_.incidents += [{"time": BEGIN + 400, "what": "kill"}, {"time": BEGIN + 400, "what": "kill"}]
        self.breaks("no more pushes than", others=["nobody is sent"])

    def test_an_older_state_late(self):
        for push in self.run_.pushes:
            if push["state"] == f"state of {NEW}" and push["activity"] != JOINED:
                push["time"] += 1_900
        self.own("member-5", OLD)["time"] += 1_800
        self.breaks("nothing older is sent")

    def test_a_lost_alert(self):
        self.own("member-25", NEW)["alert"] = None
        self.breaks("every alert is heard once")

    def test_an_alert_twice(self):
        self.own("member-5", NEW)["alert"] = "Goal"
        self.breaks("every alert is heard once")
        self.run_.incidents.append({"time": BEGIN + 200, "what": "kill"})
        self.holds()

    def test_an_alert_in_whose_place_a_newer_one_rings(self):
        self.run_.commands[1]["alert"] = "Second goal"
        for push in self.run_.pushes:
            if push["state"] == f"state of {NEW}":
                push["alert"] = "Second goal"
        self.holds()
        self.own("member-25", NEW)["alert"] = "Goal"
        self.breaks("every alert is heard once")

    def test_an_alert_of_nobody_and_one_of_a_newer_command(self):
        self.own("member-5", NEW)["alert"] = "Own goal"
        self.breaks("every alert is heard once")
        self.setUp()
        self.run_.commands[1]["alert"] = "Second goal"
        for push in self.run_.pushes:
            if push["state"] == f"state of {NEW}":
                push["alert"] = "Second goal"
        self.own("member-5", OLD)["alert"] = "Second goal"
        self.breaks("every alert is heard once")

    def test_phones_that_say_they_heard_one_twice(self):
        self.run_.crowd["alertedTwice"] = 1
        self.breaks("every alert is heard once")

    def test_a_command_without_a_result(self):
        self.run_.results.remove(self.result_of(NEW, ranges=2))
        self.breaks("ranges' results add up", others=["no more pushes", "who joins"])

    def test_a_range_without_a_result(self):
        self.run_.results.remove(self.result_of(NEW, segments=[128, 255]))
        self.breaks("ranges' results add up")

    def test_ranges_that_overlap(self):
        self.result_of(NEW, segments=[128, 255])["segments"] = [127, 255]
        self.breaks("ranges' results add up")

    def test_sums_that_are_wrong(self):
        self.result_of(NEW, segments=[128, 255])["members"] = {"delivered": 19}
        self.breaks("ranges' results add up")

    def test_members_that_are_counted_nowhere(self):
        self.result_of(NEW, segments=[128, 255])["members"] = {"delivered": 19}
        self.result_of(NEW, ranges=2)["members"] = {"delivered": 39}
        self.breaks("ranges' results add up", others=["results count"])

    def test_a_result_twice(self):
        self.run_.results.append(self.result_of(NEW, segments=[128, 255]))
        self.breaks("ranges' results add up")
        self.run_.incidents.append({"time": BEGIN, "what": "kill"})
        self.holds()

    def test_a_result_twice_that_is_not_the_same(self):
        self.run_.results.append({**self.result_of(NEW, segments=[128, 255]), "members": {"delivered": 21}})
        self.run_.incidents.append({"time": BEGIN, "what": "kill"})
        self.breaks("ranges' results add up")

    def test_a_result_of_nobody(self):
        self.run_.results.append({"command": "goal-9", "audience": "final", "outcome": "delivered"})
        self.breaks("ranges' results add up")

    def test_a_last_command_that_is_not_fanned_out(self):
        self.run_.results = [r for r in self.run_.results if r["command"] != NEW]
        self.run_.results.append({"command": NEW, "audience": "final", "outcome": "superseded"})
        self.breaks("ranges' results add up", others=["no more pushes", "who joins"])

    def test_counts_that_the_log_has_not(self):
        self.result_of(OLD, segments=[0, 127])["members"] = {"delivered": 12, "superseded": 9}
        self.result_of(OLD, ranges=2)["members"] = {"delivered": 22, "superseded": 19, "unregistered": 1}
        self.breaks("results count as delivered")

    def test_counts_that_are_below_the_log(self):
        self.result_of(OLD, segments=[0, 127])["members"] = {"delivered": 10, "superseded": 11}
        self.result_of(OLD, ranges=2)["members"] = {"delivered": 20, "superseded": 21, "unregistered": 1}
        self.breaks("results count as delivered")
        self.run_.incidents.append({"time": BEGIN, "what": "kill"})
        self.holds()

    def test_a_push_to_who_has_left(self):
        member = next(m for m in self.run_.members if m["activity"] == LEFT)
        member["left"] = self.own(LEFT, OLD)["time"] - 50
        self.holds()
        self.breaks("nothing is sent 40 ms", "--leave", "40")
        member["left"] -= 2_000
        self.breaks("nothing is sent")

    def test_a_push_to_an_old_token(self):
        self.own(ROTATED, NEW)["token"] = "old"
        self.breaks("nothing is sent 20 ms", "--leave", "20")

    def test_a_push_to_who_has_died(self):
        self.run_.push(DIED, NEW, 2_100, None, 410)
        self.breaks("nothing is sent")

    def test_a_death_without_an_invalidation(self):
        self.run_.invalidations.clear()
        self.breaks("each dead token")

    def test_a_death_without_a_result(self):
        self.run_.results.remove(self.result_of(OLD, activity=DIED))
        self.breaks("each dead token")

    def test_a_result_of_who_lives(self):
        self.run_.results.append({**self.result_of(OLD, activity=DIED), "activity": "member-5"})
        self.breaks("each dead token")

    def test_deaths_that_are_counted_wrong(self):
        self.result_of(OLD, segments=[128, 255])["members"] = {"delivered": 10, "superseded": 11}
        self.result_of(OLD, ranges=2)["members"] = {"delivered": 21, "superseded": 21}
        self.breaks("each dead token")

    def test_a_new_token_is_shown_the_state_once_more(self):
        push = self.own(ROTATED, NEW)
        member = next(m for m in self.run_.members if m["activity"] == ROTATED)
        self.again(push)
        self.breaks("nobody is sent a state twice")
        member["renewed"] = push["time"] + 10
        self.holds()
        self.again(push, later=60)
        self.breaks("nobody is sent a state twice")

    def test_a_joiner_is_reached_by_the_fanout_as_well(self):
        self.again(self.own(JOINED, NEW))
        self.holds()
        next(m for m in self.run_.members if m["activity"] == JOINED)["joined"] = BEGIN + 190
        self.breaks("nobody is sent a state twice")

    def test_an_alert_that_an_old_token_missed(self):
        push = self.own("member-25", NEW)
        push["alert"] = None
        self.again(push, later=-5, status=410, effect=None, alert="Goal")
        self.run_.invalidations.append({"activity": "member-25", "time": push["time"]})
        self.run_.results.append({"command": NEW, "audience": "final", "activity": "member-25", "outcome": "unregistered"})
        self.breaks("every alert is heard once", others=["each dead token"])
        next(m for m in self.run_.members if m["activity"] == "member-25")["renewed"] = push["time"] - 10
        broken = self.judged(self.run_.written())[1]
        self.assertFalse(any(name.startswith("every alert") for name in broken), broken)

    def test_an_invalidation_of_who_lives(self):
        self.run_.invalidations.append({"activity": "member-5", "time": BEGIN})
        self.breaks("each dead token")

    def test_an_invalidation_twice(self):
        self.run_.invalidations *= 2
        self.breaks("each dead token")

    def test_a_joiner_that_waits(self):
        self.own(JOINED, NEW)["time"] += 5_000
        self.breaks("who joins")

    def test_a_joiner_that_is_forgotten(self):
        self.run_.pushes.remove(self.own(JOINED, NEW))
        self.breaks("who joins", others=["every member that is in"])

    def test_after_a_wipe_all_may_be_sent_once_more(self):
        first = [push for push in self.run_.pushes if push["state"] == f"state of {OLD}" and push["status"] == 200]
        self.run_.pushes[len(first) : len(first)] = [{**push, "time": push["time"] + 60} for push in first]
        self.breaks("nobody is sent a state twice", others=["every alert"])
        self.run_.incidents.append({"time": BEGIN + 150, "what": "wipe"})
        self.holds()

    def test_after_a_wipe_a_command_may_be_divided_once_more(self):
        self.result(NEW, {"delivered": 30}, segments=[0, 255])
        self.breaks("ranges' results add up")
        self.result(NEW, {"delivered": 30}, ranges=1)
        self.incidents_of_a_wipe()
        self.holds()
        self.result(NEW, {"delivered": 31}, ranges=1)
        self.breaks("ranges' results add up")

    def result(self, command, members, **others):
        self.run_.result(command, members, **others)

    def incidents_of_a_wipe(self):
        self.run_.incidents.append({"time": BEGIN + 150, "what": "wipe"})

    def test_what_cannot_be_read(self):
        self.refuses(
            ("commands.jsonl", "{}\n"), ("commands.jsonl", ""), ("members.jsonl", "nonsense\n"), ("pushes.jsonl", '{"time":1'),
            ("results.jsonl", "\n"), ("crowd.json", "{"), ("incidents.jsonl", "[]\n"),
            ("results.jsonl", None),
        )


if __name__ == "__main__":
    unittest.main()

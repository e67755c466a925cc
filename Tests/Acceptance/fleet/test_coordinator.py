"""The coordinator follows Kafka's rules of groups, on which the fleet's tests depend."""

import unittest

from fleet import coordinator
from fleet.coordinator import Coordinator, JoinRequest

GROUP = "fleet"
REBALANCE_SECONDS = 5.0
FIRST_DELAY_SECONDS = 3.0


class Member:
    """A member of a group: it sends requests as a client does, and stores the responses."""

    def __init__(self, test, name, session=10.0, instance=None, subscription=b"all"):
        self.test, self.name, self.session, self.instance, self.subscription = test, name, session, instance, subscription
        self.identifier = ""
        self.join_responses, self.sync_responses, self.heartbeat_errors = [], [], []

    def join(self, identifier=None):
        asked = self.identifier if identifier is None else identifier
        self.test.coordinator.join(
            GROUP,
            JoinRequest(
                asked, self.instance, self.name, self.session, REBALANCE_SECONDS, [("range", self.subscription)], self._handle_join_response
            ),
        )

    def _handle_join_response(self, error, generation, protocol, leader, identifier, members):
        self.identifier = identifier
        if error == coordinator.MEMBER_ID_REQUIRED:
            return self.join()
        self.join_responses.append((error, generation, leader == identifier, [member for member, _, _ in members]))

    @property
    def generation(self):
        return self.join_responses[-1][1]

    def sync(self, assignments=None):
        self.test.coordinator.sync(
            GROUP,
            self.identifier,
            self.instance,
            self.generation,
            assignments or {},
            lambda *response: self.sync_responses.append(response),
        )

    def heartbeat(self):
        self.test.coordinator.heartbeat(GROUP, self.identifier, self.instance, self.generation, self.heartbeat_errors.append)
        return self.heartbeat_errors[-1]

    def commit(self, generation=None):
        """Returns the error of a commit; 0 if it is accepted."""
        asked = self.generation if generation is None else generation
        return self.test.coordinator.commit_error(GROUP, self.identifier, self.instance, asked)


class FakeTimer:
    def __init__(self, due, call):
        self.due, self.call = due, call

    def cancel(self):
        self.call = None


class FakeClock:
    """The timers of an event loop. The test advances the time."""

    def __init__(self):
        self._now, self._timers = 0.0, []

    def call_later(self, seconds, call, *arguments):
        timer = FakeTimer(self._now + seconds, lambda: call(*arguments))
        self._timers.append(timer)
        return timer

    def advance(self, seconds):
        end = self._now + seconds
        while due := sorted((one for one in self._timers if one.call and one.due <= end), key=lambda one: one.due):
            self._now, call = due[0].due, due[0].call
            due[0].cancel()
            call()
        self._timers = [one for one in self._timers if one.call]
        self._now = end


class CoordinatorTests(unittest.TestCase):
    def setUp(self):
        self.clock = FakeClock()
        self.coordinator = Coordinator(self.clock, first_delay_seconds=FIRST_DELAY_SECONDS)

    def form_group(self, *members):
        """Lets all members join. The first one becomes the leader, and assigns each member its own name."""
        for member in members:
            member.join()
        self.assertFalse(any(member.join_responses for member in members), "others may come")
        self.clock.advance(FIRST_DELAY_SECONDS)
        leader = next(member for member in members if member.join_responses[-1][2])
        for member in members:
            if member is not leader:
                member.sync()
        leader.sync({member.identifier: member.name.encode() for member in members})
        for member in members:
            self.assertEqual(member.sync_responses[-1], (coordinator.OK, member.name.encode()))

    def test_a_joining_member_waits_for_all_others_and_the_leader_gets_their_ids(self):
        one, two = Member(self, "one"), Member(self, "two")
        self.form_group(one, two)
        self.assertEqual({one.generation, two.generation}, {1})
        three = Member(self, "three")
        three.join()
        self.clock.advance(FIRST_DELAY_SECONDS)
        self.assertEqual(three.join_responses, [], "the others have not joined again")
        self.assertEqual(one.heartbeat(), coordinator.REBALANCE_IN_PROGRESS)
        self.assertEqual(one.commit(), coordinator.OK, "what is revoked is committed now")
        one.join()
        self.assertEqual(three.join_responses, [])
        two.join()
        self.assertEqual({member.generation for member in (one, two, three)}, {2})
        leader = next(member for member in (one, two, three) if member.join_responses[-1][2])
        self.assertEqual(set(leader.join_responses[-1][3]), {one.identifier, two.identifier, three.identifier})
        self.assertEqual(one.commit(), coordinator.REBALANCE_IN_PROGRESS, "nobody knows yet who has what")

    def test_a_silent_member_is_removed_and_fenced(self):
        one, two = Member(self, "one"), Member(self, "two", session=2.0)
        self.form_group(one, two)
        self.clock.advance(1.9)
        self.assertEqual(one.heartbeat(), coordinator.OK)
        self.clock.advance(0.1)
        self.assertEqual(one.heartbeat(), coordinator.REBALANCE_IN_PROGRESS, "without the silent member")
        one.join()
        self.assertEqual(one.join_responses[-1], (coordinator.OK, 2, True, [one.identifier]))
        self.assertEqual(two.heartbeat(), coordinator.UNKNOWN_MEMBER)
        self.assertEqual(two.commit(), coordinator.UNKNOWN_MEMBER)
        self.assertEqual(one.commit(generation=1), coordinator.ILLEGAL_GENERATION)

    def test_heartbeats_keep_a_member(self):
        one = Member(self, "one", session=2.0)
        self.form_group(one)
        for _ in range(5):
            self.clock.advance(1.0)
            self.assertEqual(one.heartbeat(), coordinator.OK)

    def test_a_member_that_leaves_is_removed_at_once(self):
        one, two = Member(self, "one"), Member(self, "two")
        self.form_group(one, two)
        left = []
        self.coordinator.leave(GROUP, two.identifier, left.append)
        self.assertEqual(left, [coordinator.OK])
        self.assertEqual(one.heartbeat(), coordinator.REBALANCE_IN_PROGRESS)
        one.join()
        self.assertEqual(one.join_responses[-1][1:], (2, True, [one.identifier]))

    def test_a_leader_that_joins_again_causes_a_rebalance_and_an_unchanged_follower_does_not(self):
        one, two = Member(self, "one"), Member(self, "two")
        self.form_group(one, two)
        leader, follower = (one, two) if one.join_responses[-1][2] else (two, one)
        follower.join()
        self.assertEqual(follower.join_responses[-1][:2], (coordinator.OK, 1))
        self.assertEqual(leader.heartbeat(), coordinator.OK)
        leader.join()
        self.assertEqual(follower.heartbeat(), coordinator.REBALANCE_IN_PROGRESS)
        follower.join()
        self.assertEqual({one.generation, two.generation}, {2})

    def test_a_static_member_keeps_its_assignment_and_fences_its_former_process(self):
        one, two = Member(self, "one", instance="1"), Member(self, "two", instance="2")
        self.form_group(one, two)
        for old in (one, two):
            new = Member(self, old.name, instance=old.instance)
            new.join()
            self.assertEqual(new.join_responses[-1], (coordinator.OK, 1, False, []), "nobody assigns again")
            new.sync()
            self.assertEqual(new.sync_responses[-1], (coordinator.OK, old.name.encode()))
            self.assertEqual(new.heartbeat(), coordinator.OK)
            self.assertEqual(old.heartbeat(), coordinator.FENCED_INSTANCE)
            self.assertEqual(old.commit(), coordinator.FENCED_INSTANCE)

    def test_a_member_that_does_not_join_again_in_time_is_removed(self):
        one, two = Member(self, "one"), Member(self, "two")
        self.form_group(one, two)
        Member(self, "three").join()
        one.join()
        self.assertEqual(len(one.join_responses), 1, "two may still come")
        self.clock.advance(REBALANCE_SECONDS)
        self.assertEqual(one.generation, 2)
        self.assertEqual(two.heartbeat(), coordinator.UNKNOWN_MEMBER)


if __name__ == "__main__":
    unittest.main()

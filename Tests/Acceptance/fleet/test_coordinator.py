"""The coordinator keeps the rules of groups that the fleet's tests depend on."""

import asyncio
import unittest

from fleet import coordinator
from fleet.coordinator import Coordinator, Join

GROUP = "fleet"


class Member:
    """A member as in a client: it sends requests and stores the answers."""

    def __init__(self, test, name, session=5.0, instance=None, subscription=b"all"):
        self.test, self.name, self.session, self.instance, self.subscription = test, name, session, instance, subscription
        self.identifier = ""
        self.joined, self.synced, self.beaten = [], [], []

    def join(self, identifier=None):
        asked = self.identifier if identifier is None else identifier
        self.test.coordinator.join(
            GROUP, Join(asked, self.instance, self.name, self.session, 5.0, [("range", self.subscription)], self._hear)
        )

    def _hear(self, error, generation, protocol, leader, identifier, members):
        self.identifier = identifier
        if error == coordinator.MEMBER_ID_REQUIRED:
            return self.join()
        self.joined.append((error, generation, leader == identifier, [member for member, _, _ in members]))

    @property
    def generation(self):
        return self.joined[-1][1]

    def sync(self, assignments=None):
        self.test.coordinator.sync(
            GROUP, self.identifier, self.instance, self.generation, assignments or {}, lambda *answer: self.synced.append(answer)
        )

    def beat(self):
        self.test.coordinator.heartbeat(GROUP, self.identifier, self.instance, self.generation, self.beaten.append)
        return self.beaten[-1]

    def commit(self, generation=None):
        """The error of a commit."""
        asked = self.generation if generation is None else generation
        return self.test.coordinator.commit_fault(GROUP, self.identifier, self.instance, asked)


EVENT_SECONDS = 5.0


class CoordinatorTests(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.coordinator = Coordinator(asyncio.get_running_loop(), first_delay_seconds=0.05)

    async def until(self, condition, what):
        """Waits for something that the coordinator's timers bring."""
        end = asyncio.get_running_loop().time() + EVENT_SECONDS
        while not condition():
            self.assertLess(asyncio.get_running_loop().time(), end, f"{what}: not so after {EVENT_SECONDS} s")
            await asyncio.sleep(0.005)

    async def settle(self, *members):
        """All join at once, and the leader, the first one, assigns to each its own name."""
        for member in members:
            member.join()
        await self.until(lambda: all(member.joined for member in members), "all have joined")
        leader = next(member for member in members if member.joined[-1][2])
        for member in members:
            if member is not leader:
                member.sync()
        leader.sync({member.identifier: member.name.encode() for member in members})
        for member in members:
            self.assertEqual(member.synced[-1], (coordinator.OK, member.name.encode()))

    async def test_who_joins_waits_for_all_and_the_leader_hears_of_all(self):
        one, two = Member(self, "one"), Member(self, "two")
        await self.settle(one, two)
        self.assertEqual({one.generation, two.generation}, {1})
        three = Member(self, "three")
        three.join()
        await asyncio.sleep(0.1)
        self.assertEqual(three.joined, [], "the others have not joined again")
        self.assertEqual(one.beat(), coordinator.REBALANCE_IN_PROGRESS)
        self.assertEqual(one.commit(), coordinator.OK, "what is revoked is committed now")
        one.join()
        self.assertEqual(three.joined, [])
        two.join()
        self.assertEqual({member.generation for member in (one, two, three)}, {2})
        leader = next(member for member in (one, two, three) if member.joined[-1][2])
        self.assertEqual(set(leader.joined[-1][3]), {one.identifier, two.identifier, three.identifier})
        self.assertEqual(one.commit(), coordinator.REBALANCE_IN_PROGRESS, "nobody knows yet who has what")

    async def test_a_silent_member_is_missed_and_fenced(self):
        one, two = Member(self, "one"), Member(self, "two", session=0.2)
        await self.settle(one, two)
        await self.until(lambda: one.beat() == coordinator.REBALANCE_IN_PROGRESS, "a rebalance without the silent member")
        one.join()
        self.assertEqual(one.joined[-1], (coordinator.OK, 2, True, [one.identifier]))
        self.assertEqual(two.beat(), coordinator.UNKNOWN_MEMBER)
        self.assertEqual(two.commit(), coordinator.UNKNOWN_MEMBER)
        self.assertEqual(one.commit(generation=1), coordinator.ILLEGAL_GENERATION)

    async def test_heartbeats_keep_a_member(self):
        one = Member(self, "one", session=0.2)
        await self.settle(one)
        for _ in range(5):
            await asyncio.sleep(0.1)
            self.assertEqual(one.beat(), coordinator.OK)

    async def test_who_leaves_is_gone_at_once(self):
        one, two = Member(self, "one"), Member(self, "two")
        await self.settle(one, two)
        left = []
        self.coordinator.leave(GROUP, two.identifier, left.append)
        self.assertEqual(left, [coordinator.OK])
        self.assertEqual(one.beat(), coordinator.REBALANCE_IN_PROGRESS)
        one.join()
        self.assertEqual(one.joined[-1][1:], (2, True, [one.identifier]))

    async def test_a_leader_that_joins_again_brings_a_rebalance_and_a_follower_unchanged_does_not(self):
        one, two = Member(self, "one"), Member(self, "two")
        await self.settle(one, two)
        leader, follower = (one, two) if one.joined[-1][2] else (two, one)
        follower.join()
        self.assertEqual(follower.joined[-1][:2], (coordinator.OK, 1))
        self.assertEqual(leader.beat(), coordinator.OK)
        leader.join()
        self.assertEqual(follower.beat(), coordinator.REBALANCE_IN_PROGRESS)
        follower.join()
        self.assertEqual({one.generation, two.generation}, {2})

    async def test_a_static_member_takes_its_place_again_and_fences_what_it_was(self):
        one, two = Member(self, "one", instance="1"), Member(self, "two", instance="2")
        await self.settle(one, two)
        for old in (one, two):
            new = Member(self, old.name, instance=old.instance)
            new.join()
            self.assertEqual(new.joined[-1], (coordinator.OK, 1, False, []), "nobody assigns again")
            new.sync()
            self.assertEqual(new.synced[-1], (coordinator.OK, old.name.encode()))
            self.assertEqual(new.beat(), coordinator.OK)
            self.assertEqual(old.beat(), coordinator.FENCED_INSTANCE)
            self.assertEqual(old.commit(), coordinator.FENCED_INSTANCE)

    async def test_a_member_that_does_not_join_again_is_left_behind(self):
        one, two = Member(self, "one"), Member(self, "two", session=0.4)
        await self.settle(one, two)
        Member(self, "three").join()
        one.join()
        self.assertEqual(len(one.joined), 1, "two may still come")
        await self.until(lambda: one.generation == 2, "a generation without the one that does not join")
        self.assertEqual(two.beat(), coordinator.UNKNOWN_MEMBER)


if __name__ == "__main__":
    unittest.main()

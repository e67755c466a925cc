"""A group coordinator with Kafka's rules of the classic protocol: one rebalance for all members, barriers at join and at sync, session
timeouts, static members, fencing of earlier members, committed offsets with their metadata.

The broker's own coordinator differs: it waits for seconds instead of for its members, does not rebalance when a leader joins again
unchanged, never notices a dead static member, and drops the metadata of commits. So it says little about a group on Kafka. This
coordinator knows nothing of topics: members' subscriptions and assignments are bytes to it.

Everything runs on one event loop. The `send` of a request writes a response's body to the client that asked."""

import uuid
from dataclasses import dataclass, field

OK = 0
ILLEGAL_GENERATION = 22
INCONSISTENT_PROTOCOL = 23
UNKNOWN_MEMBER = 25
METADATA_TOO_LARGE = 12
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE = 82

FIRST_JOIN_DELAY_SECONDS = 1.0
"""How long an empty group waits for more members (group.initial.rebalance.delay.ms, 3 s in Kafka)."""
MEMBERS_MAX = 64
METADATA_BYTES_MAX = 4_096
"""The default of Kafka's offset.metadata.max.bytes."""


@dataclass
class JoinRequest:
    """The contents of a member's request to join."""

    member: str
    instance: str | None
    client: str
    session_seconds: float
    rebalance_seconds: float
    protocols: list
    """Pairs of name and subscription, the preferred one first."""
    send: object
    """Called with the response: an error, a generation, a protocol, the leader, the member, and the members
    (id, instance, subscription)."""


@dataclass
class Member:
    identifier: str
    join_request: JoinRequest
    assignment: bytes = b""
    is_joining: bool = False
    """Whether the member's join has no response yet, because the group waits for other members."""
    send_sync: object = None
    """Sends the response to this member's sync request, which waits for the leader's. None if no request waits."""
    session_timer: object = None

    def subscription(self, protocol):
        return dict(self.join_request.protocols).get(protocol, b"")


@dataclass
class Group:
    """The states of a group: `empty`; `preparing` after a join; `syncing` when all have joined or the
    deadline has passed; `stable` after the leader's sync. A join that needs a rebalance, a leave or a loss of a
    member leads back to `preparing`; without members the group is `empty` again."""

    state: str = "empty"
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: dict = field(default_factory=dict)
    offered_ids: set = field(default_factory=set)
    """Ids that were given to members which have not joined with them yet."""
    ids_by_instance: dict = field(default_factory=dict)
    offsets: dict = field(default_factory=dict)
    """The committed offset, leader epoch and metadata, by topic and partition."""
    join_timer: object = None
    waits_for_first_members: bool = False
    """Whether the group was empty before it was preparing. It then waits for the whole first delay, because further
    members may come."""


class Coordinator:
    """The coordinator of all groups."""

    def __init__(self, loop, first_delay_seconds=FIRST_JOIN_DELAY_SECONDS):
        self._loop = loop
        self._first_delay_seconds = first_delay_seconds
        self._groups = {}

    def _group(self, name):
        return self._groups.setdefault(name, Group())

    # Requests

    def join(self, name, request):
        group = self._group(name)
        identifier = request.member
        if identifier == "":
            identifier = f"{request.client}-{uuid.uuid4()}"
            if request.instance in group.ids_by_instance:
                return self._replace_static_member(group, request, identifier)
            if request.instance is None:
                if len(group.members) + len(group.offered_ids) < MEMBERS_MAX:
                    group.offered_ids.add(identifier)
                return request.send(MEMBER_ID_REQUIRED, -1, "", "", identifier, [])
        elif request.instance is not None and group.ids_by_instance.get(request.instance, identifier) != identifier:
            return request.send(FENCED_INSTANCE, -1, "", "", identifier, [])
        elif identifier not in group.members and identifier not in group.offered_ids:
            return request.send(UNKNOWN_MEMBER, -1, "", "", identifier, [])
        known_member = group.members.get(identifier)
        is_unchanged = known_member is not None and known_member.join_request.protocols == request.protocols
        if is_unchanged and self._may_respond_at_once(group, known_member):
            return self._send_join_response(group, known_member, request.send)
        self._add_joining_member(group, identifier, request)
        self._prepare_rebalance(group)

    @staticmethod
    def _may_respond_at_once(group, member):
        """Whether an unchanged join of a known member gets its response at once, without a rebalance. In a stable group the
        leader's join needs a rebalance, because the leader may know something new."""
        return group.state == "syncing" or (group.state == "stable" and member.identifier != group.leader)

    def _add_joining_member(self, group, identifier, request):
        group.offered_ids.discard(identifier)
        member = group.members.setdefault(identifier, Member(identifier, request))
        member.join_request = request
        member.is_joining = True
        if request.instance is not None:
            group.ids_by_instance[request.instance] = identifier
        self._stop_session_timer(member)

    def _replace_static_member(self, group, request, identifier):
        """Replaces a static member's former process by its new one. The former process is fenced from now on.
        If the subscription is the same and the group is stable, no rebalance follows."""
        former = group.members.pop(group.ids_by_instance[request.instance])
        self._stop_session_timer(former)
        if former.is_joining:
            former.join_request.send(FENCED_INSTANCE, -1, "", "", former.identifier, [])
        if former.send_sync is not None:
            former.send_sync(FENCED_INSTANCE, b"")
        leader = group.leader
        if group.leader == former.identifier:
            group.leader = identifier
        group.ids_by_instance[request.instance] = identifier
        if group.state == "stable" and former.join_request.protocols == request.protocols:
            member = Member(identifier, request, assignment=former.assignment)
            group.members[identifier] = member
            self._start_session_timer(group, member)
            # The response names the former leader, so that this member does not assign partitions again.
            return request.send(OK, group.generation, group.protocol, leader, identifier, [])
        self._add_joining_member(group, identifier, request)
        self._prepare_rebalance(group)

    def sync(self, name, identifier, instance, generation, assignments, send):
        group = self._group(name)
        error = self._member_error(group, identifier, instance, generation)
        if error == OK and group.state == "preparing":
            error = REBALANCE_IN_PROGRESS
        if error != OK:
            return send(error, b"")
        member = group.members[identifier]
        self._start_session_timer(group, member)
        if group.state == "stable":
            return send(OK, member.assignment)
        member.send_sync = send
        if identifier == group.leader:
            group.state = "stable"
            for other in group.members.values():
                other.assignment = assignments.get(other.identifier, b"")
            self._send_sync_responses(group, OK)

    def heartbeat(self, name, identifier, instance, generation, send):
        group = self._group(name)
        error = self._member_error(group, identifier, instance, generation)
        if error == OK:
            self._start_session_timer(group, group.members[identifier])
            if group.state == "preparing":
                error = REBALANCE_IN_PROGRESS
        send(error)

    def leave(self, name, identifier, send):
        group = self._group(name)
        if identifier not in group.members:
            return send(UNKNOWN_MEMBER)
        send(OK)
        self._remove_and_rebalance(group, identifier)

    def commit_error(self, name, identifier, instance, generation):
        """Returns the error with which a commit is refused, or 0. A commit from outside the group is always
        accepted."""
        if generation < 0 and identifier == "":
            return OK
        group = self._group(name)
        error = self._member_error(group, identifier, instance, generation)
        return REBALANCE_IN_PROGRESS if error == OK and group.state == "syncing" else error

    def commit(self, name, topic, partition, committed):
        """Stores a partition's commit that `commit_error` has accepted. Returns the partition's error."""
        if len(committed[2] or "") > METADATA_BYTES_MAX:
            return METADATA_TOO_LARGE
        self._group(name).offsets[topic, partition] = committed
        return OK

    def committed(self, name):
        """Returns offset, leader epoch and metadata of each commit, by topic and partition."""
        return self._group(name).offsets

    @staticmethod
    def _member_error(group, identifier, instance, generation):
        if instance is not None and group.ids_by_instance.get(instance, identifier) != identifier:
            return FENCED_INSTANCE
        if identifier not in group.members:
            return UNKNOWN_MEMBER
        return OK if generation == group.generation else ILLEGAL_GENERATION

    # Rebalances

    def _prepare_rebalance(self, group):
        if group.state != "preparing":
            was_empty = group.state == "empty"
            self._send_sync_responses(group, REBALANCE_IN_PROGRESS)
            group.state = "preparing"
            limit = max(member.join_request.rebalance_seconds for member in group.members.values())
            group.join_timer = self._loop.call_later(self._first_delay_seconds if was_empty else limit, self._complete_join, group)
            group.waits_for_first_members = was_empty
        if not group.waits_for_first_members and all(member.is_joining for member in group.members.values()):
            self._complete_join(group)

    def _complete_join(self, group):
        """Ends the joining, when all members have joined or the deadline has passed. Members that have not joined are
        removed, except static ones, which stay until their sessions end. If nobody has joined, the group waits again
        for its static members. Without members it is empty."""
        group.join_timer.cancel()
        for member in [one for one in group.members.values() if not one.is_joining and one.join_request.instance is None]:
            self._delete_member(group, member)
        if not any(member.is_joining for member in group.members.values()):
            if group.members:
                group.join_timer = self._loop.call_later(self._first_delay_seconds, self._complete_join, group)
            else:
                group.state = "empty"
            return
        group.generation += 1
        names = [[name for name, _ in member.join_request.protocols] for member in group.members.values()]
        group.protocol = next((name for name in names[0] if all(name in other for other in names)), "")
        leader = group.members.get(group.leader)
        if leader is None or not leader.is_joining:
            group.leader = next(member.identifier for member in group.members.values() if member.is_joining)
        group.state = "syncing"
        for member in group.members.values():
            if member.is_joining:
                member.is_joining = False
                self._send_join_response(group, member, member.join_request.send)

    def _send_join_response(self, group, member, send):
        self._start_session_timer(group, member)
        if group.protocol == "":
            return send(INCONSISTENT_PROTOCOL, -1, "", "", member.identifier, [])
        members = []
        if member.identifier == group.leader:
            members = [(m.identifier, m.join_request.instance, m.subscription(group.protocol)) for m in group.members.values()]
        send(OK, group.generation, group.protocol, group.leader, member.identifier, members)

    @staticmethod
    def _send_sync_responses(group, error):
        for member in group.members.values():
            if member.send_sync is not None:
                member.send_sync(error, member.assignment if error == OK else b"")
                member.send_sync = None

    # Members that leave

    def _start_session_timer(self, group, member):
        self._stop_session_timer(member)
        member.session_timer = self._loop.call_later(member.join_request.session_seconds, self._expire, group, member)

    @staticmethod
    def _stop_session_timer(member):
        if member.session_timer is not None:
            member.session_timer.cancel()
            member.session_timer = None

    def _expire(self, group, member):
        if group.members.get(member.identifier) is member and not member.is_joining:
            self._remove_and_rebalance(group, member.identifier)

    def _delete_member(self, group, member):
        self._stop_session_timer(member)
        del group.members[member.identifier]
        if member.join_request.instance is not None:
            group.ids_by_instance.pop(member.join_request.instance, None)

    def _remove_and_rebalance(self, group, identifier):
        self._delete_member(group, group.members[identifier])
        if group.members:
            self._prepare_rebalance(group)
        elif group.state != "preparing":
            group.state = "empty"


__all__ = ["Coordinator", "JoinRequest"]

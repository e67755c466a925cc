"""What the members of groups say on one connection, handed to a coordinator or only looked at."""

import struct

from coordinator import OK, Join
from wire import HEADER, Reader, assignment, data, framed, text

OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 11, 12, 13, 14
VERSIONS_MAX = {OFFSET_COMMIT: 9, JOIN_GROUP: 5, HEARTBEAT: 3, LEAVE_GROUP: 2, SYNC_GROUP: 3}
OFFSET_COMMIT_FLEXIBLE = 8


class Onlooker:
    """Sees the assignments that a broker hands out by itself."""

    def __init__(self, on_assigned):
        self._on_assigned = on_assigned
        self._asked = {}

    @staticmethod
    def is_request_wanted(head):
        return HEADER.unpack_from(head)[1] == SYNC_GROUP

    def take_request(self, frame):
        _, _, version, correlation = HEADER.unpack_from(frame)
        if version <= VERSIONS_MAX[SYNC_GROUP]:
            reader = Reader(frame, HEADER.size)
            client, _group = reader.text(), reader.text()
            self._asked[correlation] = (version, client, reader.number(">i"))
        return frame

    def is_answer_wanted(self, head):
        return struct.unpack_from(">i", head, 4)[0] in self._asked

    def take_answer(self, frame):
        version, client, generation = self._asked.pop(struct.unpack_from(">i", frame, 4)[0])
        reader = Reader(frame, 8 + (4 if version >= 1 else 0))
        if reader.number(">h") == OK:
            self._on_assigned(client, generation, assignment(reader.bytes()))
        return frame


class Desk:
    """Keeps a group's requests from the broker, and has them answered by a coordinator. Commits go on to the broker, if they may."""

    def __init__(self, coordinator, writer, on_assigned):
        self._coordinator, self._writer, self._on_assigned = coordinator, writer, on_assigned
        self._takers = {
            JOIN_GROUP: self._join, SYNC_GROUP: self._sync, HEARTBEAT: self._heartbeat, LEAVE_GROUP: self._leave
        }

    def is_request_wanted(self, head):
        api = HEADER.unpack_from(head)[1]
        return api in self._takers or api == OFFSET_COMMIT

    def take_request(self, frame):
        _, api, version, correlation = HEADER.unpack_from(frame)
        if version > VERSIONS_MAX[api]:
            raise ValueError(f"version {version} of API {api} is not known")
        reader = Reader(frame, HEADER.size)
        client = reader.text() or ""
        if api == OFFSET_COMMIT:
            return self._commit(version, correlation, frame, reader)
        throttle = b"\0\0\0\0" if version >= (2 if api == JOIN_GROUP else 1) else b""
        self._takers[api](version, client, reader, lambda body: self._answer(correlation, throttle + body))
        return b""

    def _answer(self, correlation, body):
        if not self._writer.is_closing():
            self._writer.write(framed(struct.pack(">i", correlation) + body))

    def _join(self, version, client, reader, answer):
        group, session = reader.text(), reader.number(">i")
        rebalance = reader.number(">i") if version >= 1 else session
        member, instance = reader.text(), reader.text() if version >= 5 else None
        reader.text()
        protocols = reader.list(lambda: (reader.text(), reader.bytes()))

        def send(error, generation, protocol, leader, identifier, members):
            body = struct.pack(">hi", error, generation) + text(protocol) + text(leader) + text(identifier)
            body += struct.pack(">i", len(members))
            for other, other_instance, subscription in members:
                body += text(other) + (text(other_instance) if version >= 5 else b"") + data(subscription)
            answer(body)

        join = Join(member, instance, client, session / 1_000, rebalance / 1_000, protocols, send)
        self._coordinator.join(group, join)

    def _sync(self, version, client, reader, answer):
        group, generation, member = reader.text(), reader.number(">i"), reader.text()
        instance = reader.text() if version >= 3 else None
        assignments = dict(reader.list(lambda: (reader.text(), reader.bytes())))

        def send(error, own):
            if error == OK:
                self._on_assigned(client, generation, assignment(own))
            answer(struct.pack(">h", error) + data(own))

        self._coordinator.sync(group, member, instance, generation, assignments, send)

    def _heartbeat(self, version, _client, reader, answer):
        group, generation, member = reader.text(), reader.number(">i"), reader.text()
        instance = reader.text() if version >= 3 else None
        self._coordinator.heartbeat(group, member, instance, generation, lambda error: answer(struct.pack(">h", error)))

    def _leave(self, _version, _client, reader, answer):
        self._coordinator.leave(reader.text(), reader.text(), lambda error: answer(struct.pack(">h", error)))

    def _commit(self, version, correlation, frame, reader):
        """What goes on to the broker: the commit, as one from outside the group, since the broker knows no members; or nothing, and
        it has been answered."""
        is_flexible = version >= OFFSET_COMMIT_FLEXIBLE
        if is_flexible:
            client_bytes = 2 + len((Reader(frame, HEADER.size).text() or "").encode())
            reader = Reader(frame, HEADER.size + client_bytes, is_flexible=True)
            reader.tags()
        group = reader.text()
        before = frame[4 : reader.offset]
        generation, member = reader.number(">i"), reader.text()
        instance = reader.text() if version >= 7 else None
        error = self._coordinator.commit_fault(group, member, instance, generation)
        if error == OK:
            nobody = b"\1\0" if is_flexible else text("") + (text(None) if version >= 7 else b"")
            return framed(before + struct.pack(">i", -1) + nobody + frame[reader.offset :])
        if 2 <= version <= 4:
            reader.number(">q")

        def partition():
            number = reader.number(">i")
            reader.number(">q")
            if version >= 6:
                reader.number(">i")
            reader.text()
            reader.tags()
            return number

        def topic():
            found = (reader.text(), reader.list(partition))
            reader.tags()
            return found

        self._answer(correlation, refused(version, reader.list(topic), error))
        return b""


def refused(version, topics, error):
    """The answer to a commit of which no partition is taken."""
    is_flexible = version >= OFFSET_COMMIT_FLEXIBLE
    tags = b"\0" if is_flexible else b""

    def count(number):
        # One byte holds what a test's group commits at once.
        return bytes([number + 1]) if is_flexible else struct.pack(">i", number)

    body = tags + (b"\0\0\0\0" if version >= 3 else b"") + count(len(topics))
    for name, partitions in topics:
        body += bytes([len(name) + 1]) + name.encode() if is_flexible else text(name)
        body += count(len(partitions))
        body += b"".join(struct.pack(">ih", number, error) + tags for number in partitions) + tags
    return body + tags

"""Handles the requests of a group's members on one connection: observes them, or passes them to a
coordinator."""

import struct

from fleet.coordinator import OK, Join
from fleet.kafka_protocol import HEADER, Reader, Writer, assignment, data, framed, text

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 11, 12, 13, 14
VERSIONS_MAX = {OFFSET_COMMIT: 9, OFFSET_FETCH: 9, JOIN_GROUP: 5, HEARTBEAT: 3, LEAVE_GROUP: 2, SYNC_GROUP: 3}
OFFSET_COMMIT_FLEXIBLE, OFFSET_FETCH_FLEXIBLE, OFFSET_FETCH_OF_GROUPS = 8, 6, 8
NO_OFFSET = (-1, -1, "")


class AssignmentObserver:
    """Observes which partitions the broker's own coordinator assigns."""

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


class RequestInterceptor:
    """Takes a group's requests out of the connection to the broker, and lets our coordinator answer them."""

    def __init__(self, coordinator, writer, on_assigned):
        self._coordinator, self._writer, self._on_assigned = coordinator, writer, on_assigned
        self._takers = {
            JOIN_GROUP: self._join, SYNC_GROUP: self._sync, HEARTBEAT: self._heartbeat, LEAVE_GROUP: self._leave
        }
        self._offset_takers = {
            OFFSET_COMMIT: (OFFSET_COMMIT_FLEXIBLE, self._commit), OFFSET_FETCH: (OFFSET_FETCH_FLEXIBLE, self._fetch)
        }

    def is_request_wanted(self, head):
        api = HEADER.unpack_from(head)[1]
        return api in self._takers or api in self._offset_takers

    def take_request(self, frame):
        _, api, version, correlation = HEADER.unpack_from(frame)
        if version > VERSIONS_MAX[api]:
            raise ValueError(f"version {version} of API {api} is not known")
        reader = Reader(frame, HEADER.size)
        client = reader.text() or ""
        if api in self._offset_takers:
            first_flexible, take = self._offset_takers[api]
            is_flexible = version >= first_flexible
            reader = Reader(frame, reader.offset, is_flexible)
            reader.tags()
            self._answer(correlation, (b"\0" if is_flexible else b"") + take(version, reader, Writer(is_flexible)))
            return b""
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

    def _commit(self, version, reader, writer):
        group, generation, member = reader.text(), reader.number(">i"), reader.text()
        instance = reader.text() if version >= 7 else None
        if 2 <= version <= 4:
            reader.number(">q")
        fault = self._coordinator.commit_fault(group, member, instance, generation)

        def partition(topic):
            number, offset = reader.number(">i"), reader.number(">q")
            epoch = reader.number(">i") if version >= 6 else -1
            committed = (offset, epoch, reader.text())
            reader.tags()
            error = fault if fault != OK else self._coordinator.commit(group, topic, number, committed)
            return struct.pack(">ih", number, error) + writer.tags()

        def topic():
            name = reader.text()
            partitions = reader.list(lambda: partition(name))
            reader.tags()
            return writer.text(name) + writer.list(partitions) + writer.tags()

        return (b"\0\0\0\0" if version >= 3 else b"") + writer.list(reader.list(topic)) + writer.tags()

    def _fetch(self, version, reader, writer):
        def group():
            name = reader.text()
            if version >= 9:
                reader.text()
                reader.number(">i")
            topics = reader.list(topic)
            if version >= OFFSET_FETCH_OF_GROUPS:
                reader.tags()
            return name, topics if topics else self._all_committed(name)

        def topic():
            found = (reader.text(), reader.list(lambda: reader.number(">i")))
            reader.tags()
            return found

        def answered(asked):
            name, topics = asked
            return writer.list([writer.text(one) + writer.list([offset(name, one, n) for n in numbers]) + writer.tags()
                                for one, numbers in topics])

        def offset(name, one, number):
            offset, epoch, metadata = self._coordinator.committed(name).get((one, number), NO_OFFSET)
            return (
                struct.pack(">iq", number, offset) + (struct.pack(">i", epoch) if version >= 5 else b"")
                + writer.text(metadata) + struct.pack(">h", OK) + writer.tags()
            )

        throttle = b"\0\0\0\0" if version >= 3 else b""
        error = struct.pack(">h", OK) if version >= 2 else b""
        if version < OFFSET_FETCH_OF_GROUPS:
            return throttle + answered(group()) + error + writer.tags()
        groups = reader.list(group)
        return throttle + writer.list([writer.text(one[0]) + answered(one) + error + writer.tags() for one in groups]) + writer.tags()

    def _all_committed(self, group):
        topics = {}
        for topic, partition in self._coordinator.committed(group):
            topics.setdefault(topic, []).append(partition)
        return list(topics.items())

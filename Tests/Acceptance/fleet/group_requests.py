"""Handles the requests of a group's members on one connection: observes them, or passes them to a
coordinator."""

import struct

from fleet.coordinator import OK, JoinRequest
from fleet.kafka_protocol import REQUEST_HEADER, MessageReader, MessageWriter, decode_assignment, encode_bytes, encode_frame, encode_text

OFFSET_COMMIT, OFFSET_FETCH, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 11, 12, 13, 14
VERSIONS_MAX = {OFFSET_COMMIT: 9, OFFSET_FETCH: 9, JOIN_GROUP: 5, HEARTBEAT: 3, LEAVE_GROUP: 2, SYNC_GROUP: 3}
OFFSET_COMMIT_FLEXIBLE, OFFSET_FETCH_FLEXIBLE, OFFSET_FETCH_OF_GROUPS = 8, 6, 8
NO_OFFSET = (-1, -1, "")


class AssignmentObserver:
    """Observes which partitions the broker's member_assignment coordinator assigns."""

    def __init__(self, on_assigned):
        self._on_assigned = on_assigned
        self._sync_requests = {}

    @staticmethod
    def is_request_wanted(header):
        return REQUEST_HEADER.unpack_from(header)[1] == SYNC_GROUP

    def handle_request(self, frame):
        _, _, version, correlation = REQUEST_HEADER.unpack_from(frame)
        if version <= VERSIONS_MAX[SYNC_GROUP]:
            reader = MessageReader(frame, REQUEST_HEADER.size)
            client, _group = reader.text(), reader.text()
            self._sync_requests[correlation] = (version, client, reader.number(">i"))
        return frame

    def is_response_wanted(self, header):
        return struct.unpack_from(">i", header, 4)[0] in self._sync_requests

    def handle_response(self, frame):
        version, client, generation = self._sync_requests.pop(struct.unpack_from(">i", frame, 4)[0])
        reader = MessageReader(frame, 8 + (4 if version >= 1 else 0))
        if reader.number(">h") == OK:
            self._on_assigned(client, generation, decode_assignment(reader.bytes()))
        return frame


class RequestInterceptor:
    """Takes a group's requests out of the connection to the broker, and lets our coordinator respond to them."""

    def __init__(self, coordinator, writer, on_assigned):
        self._coordinator, self._writer, self._on_assigned = coordinator, writer, on_assigned
        self._handlers = {
            JOIN_GROUP: self._join, SYNC_GROUP: self._sync, HEARTBEAT: self._heartbeat, LEAVE_GROUP: self._leave
        }
        self._offset_handlers = {
            OFFSET_COMMIT: (OFFSET_COMMIT_FLEXIBLE, self._commit), OFFSET_FETCH: (OFFSET_FETCH_FLEXIBLE, self._fetch)
        }

    def is_request_wanted(self, header):
        api = REQUEST_HEADER.unpack_from(header)[1]
        return api in self._handlers or api in self._offset_handlers

    def handle_request(self, frame):
        _, api, version, correlation = REQUEST_HEADER.unpack_from(frame)
        if version > VERSIONS_MAX[api]:
            raise ValueError(f"version {version} of API {api} is not known")
        reader = MessageReader(frame, REQUEST_HEADER.size)
        client = reader.text() or ""
        if api in self._offset_handlers:
            first_flexible_version, handle = self._offset_handlers[api]
            is_flexible = version >= first_flexible_version
            reader = MessageReader(frame, reader.offset, is_flexible)
            reader.tags()
            self._send_response(correlation, (b"\0" if is_flexible else b"") + handle(version, reader, MessageWriter(is_flexible)))
            return b""
        throttle = b"\0\0\0\0" if version >= (2 if api == JOIN_GROUP else 1) else b""
        self._handlers[api](version, client, reader, lambda body: self._send_response(correlation, throttle + body))
        return b""

    def _send_response(self, correlation, body):
        if not self._writer.is_closing():
            self._writer.write(encode_frame(struct.pack(">i", correlation) + body))

    def _join(self, version, client, reader, send_response):
        group, session = reader.text(), reader.number(">i")
        rebalance = reader.number(">i") if version >= 1 else session
        member, instance = reader.text(), reader.text() if version >= 5 else None
        reader.text()
        protocols = reader.list(lambda: (reader.text(), reader.bytes()))

        def send(error, generation, protocol, leader, identifier, members):
            body = struct.pack(">hi", error, generation) + encode_text(protocol) + encode_text(leader) + encode_text(identifier)
            body += struct.pack(">i", len(members))
            for other, other_instance, subscription in members:
                body += encode_text(other) + (encode_text(other_instance) if version >= 5 else b"") + encode_bytes(subscription)
            send_response(body)

        join = JoinRequest(member, instance, client, session / 1_000, rebalance / 1_000, protocols, send)
        self._coordinator.join(group, join)

    def _sync(self, version, client, reader, send_response):
        group, generation, member = reader.text(), reader.number(">i"), reader.text()
        instance = reader.text() if version >= 3 else None
        assignments = dict(reader.list(lambda: (reader.text(), reader.bytes())))

        def send(error, member_assignment):
            if error == OK:
                self._on_assigned(client, generation, decode_assignment(member_assignment))
            send_response(struct.pack(">h", error) + encode_bytes(member_assignment))

        self._coordinator.sync(group, member, instance, generation, assignments, send)

    def _heartbeat(self, version, _client, reader, send_response):
        group, generation, member = reader.text(), reader.number(">i"), reader.text()
        instance = reader.text() if version >= 3 else None
        self._coordinator.heartbeat(group, member, instance, generation, lambda error: send_response(struct.pack(">h", error)))

    def _leave(self, _version, _client, reader, send_response):
        self._coordinator.leave(reader.text(), reader.text(), lambda error: send_response(struct.pack(">h", error)))

    def _commit(self, version, reader, writer):
        group, generation, member = reader.text(), reader.number(">i"), reader.text()
        instance = reader.text() if version >= 7 else None
        if 2 <= version <= 4:
            reader.number(">q")
        commit_error = self._coordinator.commit_error(group, member, instance, generation)

        def read_partition(topic):
            number, offset = reader.number(">i"), reader.number(">q")
            epoch = reader.number(">i") if version >= 6 else -1
            committed = (offset, epoch, reader.text())
            reader.tags()
            error = commit_error if commit_error != OK else self._coordinator.commit(group, topic, number, committed)
            return struct.pack(">ih", number, error) + writer.tags()

        def read_topic():
            name = reader.text()
            partitions = reader.list(lambda: read_partition(name))
            reader.tags()
            return writer.text(name) + writer.list(partitions) + writer.tags()

        return (b"\0\0\0\0" if version >= 3 else b"") + writer.list(reader.list(read_topic)) + writer.tags()

    def _fetch(self, version, reader, writer):
        def read_group():
            name = reader.text()
            if version >= 9:
                reader.text()
                reader.number(">i")
            topics = reader.list(read_topic)
            if version >= OFFSET_FETCH_OF_GROUPS:
                reader.tags()
            return name, topics if topics else self._committed_partitions(name)

        def read_topic():
            found = (reader.text(), reader.list(lambda: reader.number(">i")))
            reader.tags()
            return found

        def encode_offsets(requested):
            name, topics = requested
            return writer.list([writer.text(one) + writer.list([encode_offset(name, one, n) for n in numbers]) + writer.tags()
                                for one, numbers in topics])

        def encode_offset(name, one, number):
            offset, epoch, metadata = self._coordinator.committed(name).get((one, number), NO_OFFSET)
            return (
                struct.pack(">iq", number, offset) + (struct.pack(">i", epoch) if version >= 5 else b"")
                + writer.text(metadata) + struct.pack(">h", OK) + writer.tags()
            )

        throttle = b"\0\0\0\0" if version >= 3 else b""
        error = struct.pack(">h", OK) if version >= 2 else b""
        if version < OFFSET_FETCH_OF_GROUPS:
            return throttle + encode_offsets(read_group()) + error + writer.tags()
        groups = reader.list(read_group)
        return throttle + writer.list([writer.text(one[0]) + encode_offsets(one) + error + writer.tags() for one in groups]) + writer.tags()

    def _committed_partitions(self, group):
        topics = {}
        for topic, partition in self._coordinator.committed(group):
            topics.setdefault(topic, []).append(partition)
        return list(topics.items())

"""Gates in front of servers: all clients come through them, so that a server can be away and come back as it was."""

import asyncio
import struct
import threading

SYNC_GROUP = 14
SYNC_GROUP_VERSION_MAX = 3
API_VERSIONS = 18
UNSUPPORTED_VERSION = 35
CHUNK_BYTES = 1 << 18
REQUEST_BYTES_MAX = 1 << 16
HEADER = struct.Struct(">ihhi")  # length, API, version, correlation


def refusal(correlation):
    """What a broker answers that knows ApiVersions up to version 2 only: error 35 in version 0's form, and what it knows."""
    body = struct.pack(">ihihhh", correlation, UNSUPPORTED_VERSION, 1, API_VERSIONS, 0, 2)
    return struct.pack(">i", len(body)) + body


class Gate:
    """Carries bytes between `port` and the server's port, and looks at none. Shut, as it begins, it cuts every connection and refuses
    new ones. Runs as a thread with an event loop of its own."""

    def __init__(self, port, server_port):
        self.port = port
        self.server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._server = None
        self._writers = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._thread.start()

    def open(self):
        self._call(self._open())

    def shut(self):
        """Cuts every connection at once."""
        self._call(self._shut())

    def close(self):
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _call(self, coroutine):
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _open(self):
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _shut(self):
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        server = None
        try:
            first = await self._begin(reader, writer)
            to_server, to_client = self._eyes()
            server_reader, server = await asyncio.open_connection("127.0.0.1", self.server_port)
            self._writers.add(server)
            server.write(first)
            if to_server is not None:
                to_server(first)
            carrying = [
                asyncio.create_task(self._carry(reader, server, to_server)),
                asyncio.create_task(self._carry(server_reader, writer, to_client)),
            ]
            await asyncio.wait(carrying, return_when=asyncio.FIRST_COMPLETED)
            for task in carrying:
                task.cancel()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for one in (writer, server):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()

    async def _begin(self, reader, writer):
        """The bytes to begin with towards the server."""
        return b""

    def _eyes(self):
        """Who looks at the bytes to the server, and at those to the client."""
        return None, None

    @staticmethod
    async def _carry(reader, writer, look):
        try:
            while data := await reader.read(CHUNK_BYTES):
                if look is not None:
                    look(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass


class BrokerGate(Gate):
    """A gate that meets an old client's habit, and sees who is assigned what.

    librdkafka 2.0.2 cannot read this broker's answer to ApiVersions 3 ("Read underflow") and does not try a lower version by itself.
    So the first request of each connection, if it is that one, is answered as an older broker would, and the client asks
    again in version 0. Nothing else is changed.

    This broker does not tell a group's members to those who ask. So the answers to SyncGroup are read as they pass: `on_assigned` is
    called with the client's id, the generation, and the partitions by topic."""

    def __init__(self, port, server_port, on_assigned):
        super().__init__(port, server_port)
        self.on_assigned = on_assigned

    async def _begin(self, reader, writer):
        header = await reader.readexactly(HEADER.size)
        length, api, version, correlation = HEADER.unpack(header)
        if api != API_VERSIONS or version < 3 or length > REQUEST_BYTES_MAX:
            return header
        await reader.readexactly(length - (HEADER.size - 4))
        writer.write(refusal(correlation))
        return b""

    def _eyes(self):
        asked = {}

        def is_question(head):
            return HEADER.unpack_from(head)[1] == SYNC_GROUP

        def question(frame):
            _, _, version, correlation = HEADER.unpack_from(frame)
            if version > SYNC_GROUP_VERSION_MAX:
                return
            reader = Reader(frame, HEADER.size)
            client, _group = reader.text(), reader.text()
            asked[correlation] = (version, client, reader.number(">i"))

        def is_answer(head):
            return struct.unpack_from(">i", head, 4)[0] in asked

        def answer(frame):
            version, client, generation = asked.pop(struct.unpack_from(">i", frame, 4)[0])
            reader = Reader(frame, 8)
            if version >= 1:
                reader.number(">i")
            if reader.number(">h") == 0:
                self.on_assigned(client, generation, assignment(Reader(reader.bytes(), 2)))

        return Frames(HEADER.size, is_question, question).feed, Frames(8, is_answer, answer).feed


def assignment(reader):
    """The partitions by topic in a member's assignment, behind its version."""
    if reader.is_empty():
        return {}
    return {
        reader.text(): [reader.number(">i") for _ in range(reader.number(">i"))] for _ in range(reader.number(">i"))
    }


class Reader:
    """Kafka's primitive types, one after the other."""

    def __init__(self, data, offset):
        self._data, self._offset = data, offset

    def is_empty(self):
        return self._offset >= len(self._data)

    def number(self, form):
        (value,) = struct.unpack_from(form, self._data, self._offset)
        self._offset += struct.calcsize(form)
        return value

    def _take(self, count):
        data = self._data[self._offset : self._offset + max(0, count)]
        self._offset += max(0, count)
        return data

    def text(self):
        return bytes(self._take(self.number(">h"))).decode()

    def bytes(self):
        return bytes(self._take(self.number(">i")))


class Frames:
    """Finds the frames of a connection as its bytes pass, and hands on those that somebody wants whole."""

    def __init__(self, head_bytes, is_wanted, hand_on):
        self._head_bytes, self._is_wanted, self._hand_on = head_bytes, is_wanted, hand_on
        self._buffer = bytearray()
        self._skip = 0

    def feed(self, data):
        passed = min(self._skip, len(data))
        self._skip -= passed
        self._buffer += data[passed:] if passed else data
        while len(self._buffer) >= self._head_bytes:
            length = 4 + struct.unpack_from(">i", self._buffer)[0]
            if not self._is_wanted(self._buffer):
                self._skip = max(0, length - len(self._buffer))
                del self._buffer[:length]
            elif len(self._buffer) >= length:
                self._hand_on(bytes(self._buffer[:length]))
                del self._buffer[:length]
            else:
                return

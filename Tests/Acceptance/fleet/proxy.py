"""Proxies in front of servers. All clients connect through them, so that a server can become
unreachable while it runs on."""

import asyncio
import threading

from fleet.coordinator import Coordinator
from fleet.group_requests import AssignmentObserver, RequestInterceptor
from fleet.kafka_protocol import REQUEST_HEADER, FrameFilter, unsupported_version_response

CHUNK_BYTES = 1 << 18
RESPONSE_HEADER_BYTES = 8
API_VERSIONS = 18
REQUEST_BYTES_MAX = 1 << 16


class Proxy:
    """Copies bytes between `port` and the server's port; a subclass may change them. A new proxy refuses connections
    until it is opened. It runs as a thread with its own event loop."""

    def __init__(self, port, server_port):
        self.port = port
        self.server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._server = None
        self._writers = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def open(self):
        self._run_on_loop(self._open())

    def disconnect(self):
        """Closes every connection at once, and refuses new ones."""
        self._run_on_loop(self._disconnect())

    def close(self):
        self._run_on_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run_on_loop(self, coroutine):
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _open(self):
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _disconnect(self):
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self):
        await self._disconnect()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        server = None
        try:
            first_bytes = await self._read_first_bytes(reader, writer)
            server_reader, server = await asyncio.open_connection("127.0.0.1", self.server_port)
            self._writers.add(server)
            to_server, to_client = self._make_filters(writer)
            server.write(to_server(first_bytes))
            copy_tasks = [
                asyncio.create_task(self._copy(reader, server, to_server)),
                asyncio.create_task(self._copy(server_reader, writer, to_client)),
            ]
            await asyncio.wait(copy_tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in copy_tasks:
                task.cancel()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # One of the sides has closed, or the proxy has.
        finally:
            for one in (writer, server):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()

    async def _read_first_bytes(self, reader, writer):
        """Returns the first bytes to send to the server."""
        return b""

    def _make_filters(self, writer):
        """Returns two functions: the bytes to the server pass through the first one, those to the client through the
        second."""
        return bytes, bytes

    @staticmethod
    async def _copy(reader, writer, byte_filter):
        try:
            while data := await reader.read(CHUNK_BYTES):
                writer.write(byte_filter(data))
                await writer.drain()
        except OSError:
            pass


class BrokerProxy(Proxy):
    """A proxy in front of a Kafka broker. It recognizes the requests of a group's members.

    librdkafka 2.0.2 cannot read this broker's response to version 3 of ApiVersions ("Read underflow"), and tries no lower
    version. So if a connection begins with version 3 or later, the proxy responds as an older broker would. The client
    then asks again in version 0.

    `has_coordinator`: whether our own coordinator serves the groups, instead of the broker's. In both cases the
    proxy calls `on_assigned` on its thread, with a client's id, the generation, and the partitions by topic."""

    def __init__(self, port, server_port, has_coordinator, on_assigned):
        super().__init__(port, server_port)
        self._coordinator = Coordinator(self._loop) if has_coordinator else None
        self._on_assigned = on_assigned

    async def _read_first_bytes(self, reader, writer):
        header = await reader.readexactly(REQUEST_HEADER.size)
        length, api, version, correlation = REQUEST_HEADER.unpack(header)
        if api != API_VERSIONS or version < 3 or length > REQUEST_BYTES_MAX:
            return header
        await reader.readexactly(length - (REQUEST_HEADER.size - 4))
        writer.write(unsupported_version_response(correlation, API_VERSIONS))
        return b""

    def _make_filters(self, writer):
        if self._coordinator is not None:
            interceptor = RequestInterceptor(self._coordinator, writer, self._on_assigned)
            return FrameFilter(REQUEST_HEADER.size, interceptor.is_request_wanted, interceptor.handle_request).feed, bytes
        observer = AssignmentObserver(self._on_assigned)
        return (
            FrameFilter(REQUEST_HEADER.size, observer.is_request_wanted, observer.handle_request).feed,
            FrameFilter(RESPONSE_HEADER_BYTES, observer.is_response_wanted, observer.handle_response).feed,
        )

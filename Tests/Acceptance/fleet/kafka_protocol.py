"""The part of Kafka's protocol that a proxy must understand: frames, primitive types, and the assignments of a group's
members."""

import struct

REQUEST_HEADER = struct.Struct(">ihhi")
"""The header of a request: length, API key, API version, correlation id."""
API_VERSIONS_UNSUPPORTED = 35


def unsupported_version_response(correlation, api):
    """Returns the response of a broker that knows ApiVersions only up to version 2: an error in the form of
    version 0, with its versions."""
    return encode_frame(struct.pack(">ihihhh", correlation, API_VERSIONS_UNSUPPORTED, 1, api, 0, 2))


def encode_frame(body):
    return struct.pack(">i", len(body)) + body


class FrameFilter:
    """Splits a connection's bytes into frames as they pass. Wanted frames are given whole to `handle`, which returns the
    bytes that replace them."""

    def __init__(self, header_bytes, is_wanted, handle):
        self._header_bytes, self._is_wanted, self._handle = header_bytes, is_wanted, handle
        self._buffer = bytearray()
        self._pass_bytes = 0

    def feed(self, data):
        """Takes bytes, and returns the bytes to pass on."""
        passed = bytearray(data[: self._pass_bytes])
        self._pass_bytes -= len(passed)
        self._buffer += data[len(passed) :]
        while len(self._buffer) >= self._header_bytes:
            length = 4 + struct.unpack_from(">i", self._buffer)[0]
            if not self._is_wanted(self._buffer):
                passed += self._buffer[:length]
                self._pass_bytes = max(0, length - len(self._buffer))
            elif len(self._buffer) >= length:
                passed += self._handle(bytes(self._buffer[:length]))
            else:
                break
            del self._buffer[:length]
        return bytes(passed)


class MessageReader:
    """Reads Kafka's primitive types one after the other; in a flexible message, the compact types."""

    def __init__(self, data, offset, is_flexible=False):
        self._data, self.offset, self._is_flexible = data, offset, is_flexible

    def is_empty(self):
        return self.offset >= len(self._data)

    def number(self, form):
        (value,) = struct.unpack_from(form, self._data, self.offset)
        self.offset += struct.calcsize(form)
        return value

    def _unsigned(self):
        value = shift = 0
        while True:
            byte = self.number(">B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _length(self, form):
        return self._unsigned() - 1 if self._is_flexible else self.number(form)

    def _take(self, count):
        self.offset += max(0, count)
        return None if count < 0 else self._data[self.offset - count : self.offset]

    def text(self):
        value = self._take(self._length(">h"))
        return None if value is None else value.decode()

    def bytes(self):
        return self._take(self._length(">i")) or b""

    def list(self, element):
        """Returns the elements of a list; an empty list for a null list."""
        return [element() for _ in range(self._length(">i"))]

    def tags(self):
        if self._is_flexible:
            for _ in range(self._unsigned()):
                self._unsigned()
                self._take(self._unsigned())


class MessageWriter:
    """Writes Kafka's primitive types one after the other; in a flexible message, the compact types."""

    def __init__(self, is_flexible):
        self._is_flexible = is_flexible

    def _unsigned(self, value):
        written = bytearray()
        while value >= 128:
            written.append(value & 127 | 128)
            value >>= 7
        return bytes(written) + bytes([value])

    def text(self, value):
        if not self._is_flexible:
            return encode_text(value)
        return b"\0" if value is None else self._unsigned(len(value.encode()) + 1) + value.encode()

    def list(self, elements):
        count = self._unsigned(len(elements) + 1) if self._is_flexible else struct.pack(">i", len(elements))
        return count + b"".join(elements)

    def tags(self):
        return b"\0" if self._is_flexible else b""


def encode_text(value):
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def encode_bytes(value):
    return struct.pack(">i", len(value)) + value


def decode_assignment(encoded):
    """Returns the partitions in a member's assignment, by topic. A topic may occur more than once."""
    topics = {}
    reader = MessageReader(encoded, 2)
    if reader.is_empty():
        return topics

    def read_topic():
        own = topics.setdefault(reader.text(), [])
        own += reader.list(lambda: reader.number(">i"))

    reader.list(read_topic)
    return topics

"""A Kafka broker that knows only topics: a client can list topics and create new ones. It is written from Kafka's own description of the
protocol (https://kafka.apache.org/protocol), independently of any client.

    broker.py [NAME:PARTITIONS…]    these topics exist from the beginning

Prints its port, and each topic that a client asks it to create, as one line of JSON. It refuses a topic that exists, or
that has "denied" in its name.
"""
import json
import socketserver
import struct
import sys

topics = {name: int(count) for name, _, count in (word.rpartition(":") for word in sys.argv[1:])}
METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER = 3, 18, 19, 22
versions = {METADATA: (0, 2), API_VERSIONS: (0, 0), CREATE_TOPICS: (0, 4), INIT_PRODUCER: (0, 0)}
UNSUPPORTED_VERSION, TOPIC_EXISTS, NOT_AUTHORIZED = 35, 36, 29


class Request:
    def __init__(self, data):
        self.data, self.offset = data, 0

    def number(self, form):
        (value,) = struct.unpack_from(">" + form, self.data, self.offset)
        self.offset += struct.calcsize(form)
        return value

    def text(self):
        length = self.number("h")
        if length < 0:
            return None
        self.offset += length
        return self.data[self.offset - length : self.offset].decode()

    def list(self, element):
        return [element() for _ in range(self.number("i"))]


def encode_text(value):
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def encode_array(elements):
    return struct.pack(">i", len(elements)) + b"".join(elements)


def encode_api_versions(error=0):
    return struct.pack(">h", error) + encode_array([struct.pack(">hhh", key, *version_range) for key, version_range in versions.items()])


def encode_metadata(port):
    partition = lambda number: struct.pack(">hii", 0, number, 1) + encode_array([struct.pack(">i", 1)]) * 2
    found = [
        struct.pack(">h", 0) + encode_text(name) + b"\0" + encode_array([partition(number) for number in range(count)])
        for name, count in topics.items()
    ]
    broker = struct.pack(">i", 1) + encode_text("127.0.0.1") + struct.pack(">i", port) + encode_text(None)
    return encode_array([broker]) + encode_text("cluster") + struct.pack(">i", 1) + encode_array(found)


def create_topic(requested_topic):
    print(json.dumps(requested_topic), flush=True)
    name = requested_topic["name"]
    error = NOT_AUTHORIZED if "denied" in name else TOPIC_EXISTS if name in topics else 0
    if not error and not requested_topic["validatesOnly"]:
        topics[name] = requested_topic["partitions"]
    return encode_text(name) + struct.pack(">h", error) + encode_text("refused here" if error else None)


def create_topics(request):
    def topic():
        requested_topic = {"name": request.text(), "partitions": request.number("i"), "replicationFactor": request.number("h")}
        requested_topic["assignments"] = request.list(lambda: (request.number("i"), request.list(lambda: request.number("i"))))
        requested_topic["settings"] = dict(request.list(lambda: (request.text(), request.text())))
        return requested_topic

    requested_topics = request.list(topic)
    request.number("i")
    validates_only = bool(request.number("b"))
    assert request.offset == len(request.data), "bytes behind the request"
    return struct.pack(">i", 0) + encode_array([create_topic(topic | {"validatesOnly": validates_only}) for topic in requested_topics])


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        while header := self.rfile.read(4):
            request = Request(self.rfile.read(*struct.unpack(">i", header)))
            key, version, correlation = request.number("h"), request.number("h"), request.number("i")
            request.text()
            if key == API_VERSIONS:
                body = encode_api_versions(0 if version <= versions[key][1] else UNSUPPORTED_VERSION)
            elif key == METADATA:
                body = encode_metadata(self.server.server_address[1])
            elif key == CREATE_TOPICS:
                body = create_topics(request)
            elif key == INIT_PRODUCER:
                body = struct.pack(">ihqh", 0, 0, 1, 0)
            else:
                return
            response = struct.pack(">i", correlation) + body
            self.wfile.write(struct.pack(">i", len(response)) + response)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Connection)
print(server.server_address[1], flush=True)
server.serve_forever()

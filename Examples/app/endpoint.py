#!/usr/bin/env python3
"""The endpoint to which the app reports its tokens. It writes each token to causeway.registrations.

    endpoint.py BOOTSTRAP_SERVERS PORT BUNDLE_ID     (pip install confluent-kafka)

It responds with 204 only when Kafka has the record. Otherwise the app can try again. An endpoint in production must check the
user's session first, because a report decides which device gets pushes.
"""
import http.server
import json
import sys
import time

from confluent_kafka import Producer

BODY_BYTES_MAX = 16_384
# The limits of a registration: see Documentation/records.md.
AUDIENCES_MAX = 8
ID_BYTES_MAX = 256
TOKEN_DIGITS_MAX = 200
TOPIC = "causeway.registrations"


def text(report, key, bytes_max):
    """Returns a text of a report. Raises ValueError if the text is empty or too long, because its record would be invalid."""
    value = report[key]
    if not isinstance(value, str) or not 0 < len(value.encode()) <= bytes_max:
        raise ValueError(key)
    return value


def registration(app, report, now):
    """Returns the key and the value of the record for a report of `LiveActivityTokens`. A record without a value
    unregisters the activity. Each type of activity has a key of its own: the topic keeps only the newest record of a key.

    - now: UNIX milliseconds.
    """
    if report["kind"] == "ended":
        return text(report, "activity", ID_BYTES_MAX), None
    if report["kind"] not in ("activity", "device"):
        raise ValueError("kind")
    token = text(report, "token", TOKEN_DIGITS_MAX)
    bytes.fromhex(token)
    if len(report["audiences"]) > AUDIENCES_MAX:
        raise ValueError("audiences")
    for audience in report["audiences"]:
        text({"audiences": audience}, "audiences", ID_BYTES_MAX)
    record = {
        "app": app,
        "environment": "sandbox" if report["isSandbox"] else "production",
        "registeredAt": now - max(0, int(report["ageMilliseconds"])),
        "token": token,
    }
    if report["audiences"]:
        record["audiences"] = report["audiences"]
    if report["kind"] == "device":
        device = text(report, "device", ID_BYTES_MAX)
        attributes_type = text(report, "attributesType", ID_BYTES_MAX)
        record |= {"device": device, "attributesType": attributes_type, "channels": report["channels"]}
        return f"{device}/{attributes_type}", record
    activity = text(report, "activity", ID_BYTES_MAX)
    record |= {"activity": activity, "frequentUpdates": report["frequentUpdates"]}
    return activity, record


class Handler(http.server.BaseHTTPRequestHandler):
    producer, app = None, None

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/live-activities" or not 0 < length <= BODY_BYTES_MAX:
            return self.respond(404)
        try:
            key, record = registration(self.app, json.loads(self.rfile.read(length)), int(time.time() * 1000))
        except (KeyError, TypeError, ValueError) as fault:
            return self.respond(400, f"not a report: {fault}")
        errors = []
        value = None if record is None else json.dumps(record)
        self.producer.produce(TOPIC, value, key, on_delivery=lambda error, _: errors.append(error))
        self.producer.flush(10)
        self.respond(204 if errors == [None] else 503)

    def respond(self, status, reason=None):
        self.send_response(status)
        body = f"{reason}\n".encode() if reason else b""
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    servers, port, Handler.app = sys.argv[1:]
    # All producers of a topic need the same partitioner. Otherwise a tombstone is in another partition.
    Handler.producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "partitioner": "murmur2_random"}
    )
    http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()

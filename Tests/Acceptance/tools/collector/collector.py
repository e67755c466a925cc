"""A collector of traces: accepts OTLP over HTTP in JSON, as the specification says, and appends each span to a file,
one in each line. It responds with 400 to requests that violate the protocol and writes them as {"error": …}.

    collector.py FILE [STATUS…]    refuses the first requests with these statuses; 0 leaves a request without a response, and
                                   writes it as {"unanswered": true}
        [--certificate FILE --key FILE]    speaks TLS
        [--authorization VALUE]            responds with 401 to a request without it

Prints its port. If the package opentelemetry-proto is installed, its messages parse each request too, and refuse
unknown names. "foreign" in the line of a span or an error says whether the package is installed.
"""
import argparse
import base64
import http.server
import json
import re
import ssl
import threading

try:
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
except ImportError:
    json_format = None

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("refusals", type=int, nargs="*")
parser.add_argument("--certificate")
parser.add_argument("--key")
parser.add_argument("--authorization")
arguments = parser.parse_args()
file, refusals = arguments.file, arguments.refusals


def require(condition, what):
    if not condition:
        raise ValueError(what)


def with_base64_ids(span):
    """Returns the span with its ids in Base64, as Protobuf's JSON has them. OTLP's JSON has hexadecimal
    ids."""
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64encode(bytes.fromhex(value)).decode() if key in ids else value for key, value in span.items()}


def check_span(span):
    require(set(span) <= {"traceId", "spanId", "parentSpanId", "flags", "name", "kind", "startTimeUnixNano",
                         "endTimeUnixNano", "attributes", "status"}, f"keys {sorted(span)}")
    require(re.fullmatch("[0-9a-f]{32}", span["traceId"]) and int(span["traceId"], 16), "traceId")
    for key in ("spanId", "parentSpanId"):
        require(key not in span or re.fullmatch("[0-9a-f]{16}", span[key]) and int(span[key], 16), key)
    require(span["kind"] in (1, 2, 3, 4, 5), "kind")
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        require(isinstance(span[key], str) and span[key].isdigit(), key)
    require(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), "the end is before the beginning")
    for attribute in span["attributes"]:
        require(set(attribute) == {"key", "value"} and len(attribute["value"]) == 1, f"attribute {attribute}")


def read_spans(body):
    request = json.loads(body)
    require(set(request) == {"resourceSpans"}, "resourceSpans")
    spans = []
    for resource in request["resourceSpans"]:
        names = {attribute["key"] for attribute in resource["resource"]["attributes"]}
        require("service.name" in names, "service.name")
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                check_span(span)
                spans.append(span)
            scope["spans"] = [with_base64_ids(span) for span in scope["spans"]]
    if json_format:
        json_format.ParseDict(request, ExportTraceServiceRequest())
    return spans


def append_lines(lines):
    with open(file, "a") as output:
        for line in lines:
            output.write(json.dumps(line) + "\n")


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if refusals:
            status = refusals.pop(0)
            if status == 0:
                append_lines([{"unanswered": True}])
                threading.Event().wait()
            return self.send_empty_response(status)
        if arguments.authorization and self.headers["Authorization"] != arguments.authorization:
            return self.send_empty_response(401)
        try:
            require(self.path == "/base/v1/traces", f"path {self.path}")
            require(self.headers["Content-Type"] == "application/json", "Content-Type")
            spans, status = read_spans(body), 200
        except (ValueError, KeyError, TypeError) as error:
            spans, status = [{"error": str(error)}], 400
        except Exception as error:
            spans, status = [{"error": f"{type(error).__name__}: {error}"}], 400
        append_lines(span | {"foreign": json_format is not None} for span in spans)
        self.send_empty_response(status)

    def send_empty_response(self, status):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
server.daemon_threads = True
if arguments.certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(arguments.certificate, arguments.key)
    # The handshake is left to the connection's own thread, so that a silent client does not block the others.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()

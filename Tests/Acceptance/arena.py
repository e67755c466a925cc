"""The place that rounds run in: the fleet's stage, with a Redis that keeps its data on disk and an APNs whose pace is known."""

import json
import pathlib
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Fleet"))

from health import samples  # noqa: E402
from processes import Failure, Process, wait_until  # noqa: E402
from stage import START_SECONDS, Kind, Stage  # noqa: E402

STREAMS = 60
LATENCY_MILLISECONDS = 40
"""With so many streams a connection carries 1,500 pushes a second at most: a round lasts long enough to be met in its middle."""
SESSION_MILLISECONDS = 6_000
INVALIDATIONS = "causeway.invalidations"


def now():
    """UNIX milliseconds."""
    return int(time.time() * 1_000)


class Arena(Stage):
    def __init__(self, program, directory, group):
        super().__init__(program, Kind("system", "range", False, "kafka"), directory, group)

    def start_redis(self):
        command = ["redis-server", "--port", str(self._redis_port), "--bind", "127.0.0.1", "--dir", self.directory]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
        self.parts["redis"] = Process("redis", command, self.path("redis.log"))
        wait_until(lambda: self._ask_redis(b"PING") == b"+PONG", START_SECONDS, "redis-server answers")

    def kill_redis(self):
        self.parts.pop("redis").kill()

    def wipe_redis(self):
        if self._ask_redis(b"FLUSHALL") != b"+OK":
            raise Failure("Redis does not flush")

    def freeze_redis(self, seconds):
        redis = self.parts["redis"]
        redis.signal(signal.SIGSTOP)
        time.sleep(seconds)
        redis.signal(signal.SIGCONT)

    def _ask_redis(self, command):
        """The first line of the answer; empty if nobody answers."""
        try:
            with socket.create_connection(("127.0.0.1", self._redis_port), 5) as connection:
                connection.sendall(command + b"\r\n")
                return connection.recv(1_000).split(b"\r\n")[0]
        except OSError:
            return b""

    def set_pace(self):
        """Before the first worker connects."""
        pace = {
            "latencyMillisecondsLeast": LATENCY_MILLISECONDS, "latencyMillisecondsMost": LATENCY_MILLISECONDS,
            "concurrentStreams": STREAMS,
        }
        self.control("PUT", "/faults", pace)

    def configuration(self, worker):
        configuration = json.loads(super().configuration(worker))
        configuration["kafka"]["consumer"] |= {"session.timeout.ms": str(SESSION_MILLISECONDS), "heartbeat.interval.ms": "1000"}
        configuration["kafka"]["producer"] = {"linger.ms": "20"}
        return json.dumps(configuration, indent=2)

    def busiest(self):
        """The worker that has most ranges under way."""
        running = [worker for worker in self.workers.values() if worker.process is not None and worker.process.is_running()]
        rounds = {worker.name: sum(value for _, value in samples(worker, "causeway_audience_rounds")) for worker in running}
        if not any(rounds.values()):
            raise Failure("no worker has a round under way")
        return self.workers[max(rounds, key=rounds.get)]

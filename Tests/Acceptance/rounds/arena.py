"""The processes of the tests of fan-outs: those of the fleet's tests, with one form of Redis and an APNs of a known
speed."""

import json
import time

from fleet.health import samples
from common.processes import Failure
from fleet.deployment import Deployment, Kind

STREAMS = 60
LATENCY_MILLISECONDS = 40
"""With this latency and number of streams, a connection carries at most 1,500 pushes a second, so a
fan-out takes long enough to be disturbed."""
SESSION_MILLISECONDS = 6_000
INVALIDATIONS = "causeway.invalidations"


def now():
    """The present time in UNIX milliseconds."""
    return int(time.time() * 1_000)


class Arena(Deployment):
    def __init__(self, program, directory, group, servers):
        super().__init__(program, Kind("system", "range", False, "kafka"), directory, group)
        self.redis = servers(self)

    def start_redis(self):
        self.redis.start()

    def set_pace(self):
        """Sets the speed of APNs. Call it before the first worker connects."""
        pace = {
            "latencyMillisecondsMin": LATENCY_MILLISECONDS, "latencyMillisecondsMax": LATENCY_MILLISECONDS,
            "concurrentStreams": STREAMS,
        }
        self.control("PUT", "/faults", pace)

    def configuration(self, worker):
        configuration = json.loads(super().configuration(worker))
        configuration["kafka"]["consumer"] |= {"session.timeout.ms": str(SESSION_MILLISECONDS), "heartbeat.interval.ms": "1000"}
        configuration["redis"] = self.redis.configuration()
        configuration["kafka"]["producer"] = {"linger.ms": "20"}
        return json.dumps(configuration, indent=2)

    def busiest(self):
        """Returns the worker with the most ranges in progress."""
        running = [worker for worker in self.workers.values() if worker.process is not None and worker.process.is_running()]
        rounds = {worker.name: sum(value for _, value in samples(worker, "causeway_audience_rounds")) for worker in running}
        if not any(rounds.values()):
            raise Failure("no worker has a round under way")
        return self.workers[max(rounds, key=rounds.get)]

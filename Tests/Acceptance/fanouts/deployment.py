"""The processes of the tests of fan-outs: as in the fleet's tests, but with one of several forms of Redis, and with
APNs at a known speed."""

import json
import time

from fleet.deployment import Deployment, FleetKind
from fleet.health import metric_samples
from processes import Failure

STREAMS_PER_CONNECTION = 60
LATENCY_MILLISECONDS = 40
"""With this latency and number of streams, a connection carries at most 1,500 pushes a second, so a
fan-out takes long enough to be disturbed."""
SESSION_MILLISECONDS = 6_000
INVALIDATIONS = "causeway.invalidations"


def now_milliseconds():
    """The present time in UNIX milliseconds."""
    return int(time.time() * 1_000)


class FanoutDeployment(Deployment):
    def __init__(self, program, directory, group, redis_class):
        super().__init__(program, FleetKind("system", "range", False, "kafka"), directory, group)
        self.redis = redis_class(self)

    def start_redis(self):
        self.redis.start()

    def set_apns_speed(self):
        """Sets the speed of APNs. Call it before the first worker connects."""
        speed = {
            "latencyMillisecondsMin": LATENCY_MILLISECONDS, "latencyMillisecondsMax": LATENCY_MILLISECONDS,
            "concurrentStreams": STREAMS_PER_CONNECTION,
        }
        self.call_simulator("PUT", "/faults", speed)

    def configuration(self, worker):
        configuration = json.loads(super().configuration(worker))
        configuration["kafka"]["consumer"] |= {"session.timeout.ms": str(SESSION_MILLISECONDS), "heartbeat.interval.ms": "1000"}
        configuration["redis"] = self.redis.configuration()
        configuration["kafka"]["producer"] = {"linger.ms": "20"}
        return json.dumps(configuration, indent=2)

    def busiest_worker(self):
        """Returns the worker with the most ranges in progress."""
        ranges = {
            worker.name: sum(value for _, value in metric_samples(worker, "causeway_audience_rounds"))
            for worker in self.running_workers
        }
        if not any(ranges.values()):
            raise Failure("no worker has a range in progress")
        return self.workers[max(ranges, key=ranges.get)]

"""The scenarios of a fleet. Each gets a deployment without workers and a load that has not started. When it
returns, the load runs, the fault has ended, and workers run."""

import signal
import time
from dataclasses import dataclass
from typing import Callable

from fleet.deployment import PARTITIONS, SESSION_SECONDS
from fleet.fanouts_and_starts import SLOW_APNS, FanoutsAndStarts
from fleet.health import HealthChecks
from fleet.observers import SHARE_SECONDS
from processes import Failure, wait_until

WORKER_COUNT = 3
STOP_SECONDS = 10
"""The maximum time in seconds for the end of a worker that has little to drain."""
TAKEOVER_SECONDS = 12
"""The maximum time in seconds from a worker's death until each partition has results again, with the worker's
default session."""


class ScenarioContext:
    """What a scenario works with, and the figures that it records."""

    def __init__(self, deployment, load, results, group, options):
        self.deployment, self.load, self.results, self.group, self.options = deployment, load, results, group, options
        self.health = HealthChecks(deployment, group)
        self.figures = {}
        self.fanouts_and_starts = None
        """The fan-outs to an audience and the starts besides the load; None in most scenarios."""

    def start_workers(self):
        return [self.deployment.start_worker(number) for number in range(1, WORKER_COUNT + 1)]

    def wait_for_results(self, seconds=SHARE_SECONDS):
        """Waits until every partition of commands has a new result. Returns the seconds that it took."""
        now = time.monotonic()
        last_results = self.results.last_result_seconds_of
        wait_until(lambda: all(last_results.get(number, 0) > now for number in range(PARTITIONS)), seconds, "results of every partition")
        return time.monotonic() - now

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.deployment.check_processes()
            time.sleep(0.2)


def start_load(context):
    """Starts three workers and the load. Returns when the workers share the partitions."""
    context.load.make_phones()
    workers = context.start_workers()
    context.figures["shared after"] = f"{context.group.await_shared_partitions(workers):.1f} s"
    context.figures["partitions of commands + registrations + deferred + fanout"] = context.group.describe()
    context.load.start()
    context.health.check_shared("three share", workers)
    return workers


def run_undisturbed(context):
    """Three workers share the partitions of all topics that they read."""
    start_load(context)
    context.run_for(20)


def restart_workers(context):
    """Three workers are restarted one after the other, by default ten times, under load."""
    workers = start_load(context)
    context.run_for(3)
    stops, shares = [], []
    for _ in range(context.options.repetitions):
        for worker in workers:
            stops.append(worker.restart())
            shares.append(context.group.await_shared_partitions(workers))
            context.deployment.check_processes()
    context.figures["partitions after it"] = context.group.describe()
    context.figures["restarts"] = len(stops)
    context.figures["stop took"] = describe_seconds(stops)
    context.figures["shared again after"] = describe_seconds(shares)


def upgrade_and_roll_back(context):
    """The present version replaces three workers of a former version, one by one, under load. Then the former
    version replaces the present one. Before each worker stops, a fan-out begins and starts are written."""
    context.deployment.workers_program = context.options.former
    context.deployment.call_simulator("PUT", "/faults", SLOW_APNS)
    workers = start_load(context)
    context.fanouts_and_starts = FanoutsAndStarts(context.deployment, context.results)
    context.load.tokens += context.fanouts_and_starts.tokens
    context.run_for(5)
    for name, program in [("upgrade", context.deployment.program), ("rollback", context.options.former)]:
        stops = []
        for worker in workers:
            worker.program = program
            context.fanouts_and_starts.send()
            stops.append(worker.restart())
            context.group.await_shared_partitions(workers)
            # Workers of both versions share the load now, unless the last worker has just been restarted.
            context.run_for(5)
        context.figures[f"{name}: stop took"] = describe_seconds(stops)
        context.figures[f"{name}: all flows after"] = f"{context.wait_for_results():.1f} s"
    context.run_for(3)


def add_and_remove_worker(context):
    """A fourth worker joins three and leaves them, by default ten times, under load."""
    workers = start_load(context)
    context.run_for(3)
    joins, leaves = [], []
    for _ in range(context.options.repetitions):
        new_worker = context.deployment.start_worker(4)
        joins.append(context.group.await_shared_partitions([*workers, new_worker]))
        context.run_for(1)
        new_worker.stop()
        leaves.append(context.group.await_shared_partitions(workers))
        context.deployment.check_processes()
    context.figures["joins and leaves"] = 2 * len(joins)
    context.figures["shared after a join"] = describe_seconds(joins)
    context.figures["shared after a leave"] = describe_seconds(leaves)


def kill_and_freeze_workers(context):
    """One worker is killed, another is frozen, and a new one joins. Then the frozen worker continues with assignments
    that are no longer valid. At the end APNs is away for a moment."""
    one, two, three = start_load(context)
    context.run_for(3)
    one.kill()
    context.figures["killed: others have all after"] = f"{context.group.await_shared_partitions([two, three]):.1f} s"
    context.figures["killed: all flows after"] = f"{context.wait_for_results():.1f} s more"
    context.health.check_shared("one is gone", [two, three])
    context.run_for(2)
    two.process.signal(signal.SIGSTOP)
    context.health.check_silent("one is stopped", two)
    context.figures["stopped: the other has all after"] = f"{context.group.await_shared_partitions([three]):.1f} s"
    context.figures["stopped: all flows after"] = f"{context.wait_for_results():.1f} s more"
    context.health.check_shared("one has all", [three])
    new_worker = context.deployment.start_worker(4)
    context.figures["added: shared after"] = f"{context.group.await_shared_partitions([three, new_worker]):.1f} s"
    context.figures["added: partitions"] = context.group.describe()
    context.health.check_shared("one is added", [three, new_worker])
    context.run_for(2)
    two.process.signal(signal.SIGCONT)
    context.figures["woken: shared after"] = f"{context.group.await_shared_partitions([two, three, new_worker]):.1f} s"
    context.figures["woken: partitions"] = context.group.describe()
    context.health.check_shared("one woke up", [two, three, new_worker])
    context.run_for(3)
    context.deployment.apns_proxy.disconnect()
    context.health.check_behind("APNs is away", [two, three, new_worker], context.load.commands_per_second)
    context.deployment.apns_proxy.open()
    context.run_for(3)


def replace_killed_worker(context):
    """One worker is killed and another replaces it at once. All partitions are served within 12 s, and the new worker
    is not ready before it has partitions."""
    one, two, three = start_load(context)
    context.run_for(3)
    killed = time.monotonic()
    one.kill()
    new_worker = context.deployment.start_worker(4)
    ready = context.health.check_ready_with_share(new_worker, SHARE_SECONDS)
    context.figures["its successor is ready after"] = f"{ready:.1f} s"
    context.wait_for_results()
    served = time.monotonic() - killed
    context.figures["killed: all is served after"] = f"{served:.1f} s"
    if served > TAKEOVER_SECONDS:
        raise Failure(f"what a killed worker had was served after {served:.1f} s, {TAKEOVER_SECONDS} are promised")
    context.health.check_shared("another came in its place", [two, three, new_worker])
    context.run_for(3)


def stop_all_workers(context):
    """All workers get SIGTERM at once, one of them just after its start. Partitions that come too late keep no worker
    from ending."""
    workers = start_load(context)
    context.run_for(3)
    workers.append(context.deployment.start_worker(4))
    context.health.await_alive(workers[-1], SHARE_SECONDS)
    for worker in workers:
        worker.process.signal(signal.SIGTERM)
    stops = [worker.await_end(STOP_SECONDS) for worker in workers]
    context.figures["all ended after"] = f"{sum(stops):.1f} s"
    context.figures["shared again after"] = f"{context.group.await_shared_partitions(context.start_workers()):.1f} s"
    context.run_for(3)


def start_workers_first(context):
    """Workers start before the broker, Redis and APNs, which come one by one."""
    workers = context.start_workers()
    context.run_for(4)
    context.deployment.start_broker()
    context.run_for(4)
    context.deployment.start_redis()
    context.run_for(4)
    context.load.make_phones()
    context.load.start()
    context.run_for(4)
    context.deployment.apns_proxy.open()
    context.figures["APNs last: all flows after"] = f"{context.wait_for_results():.1f} s"
    context.figures["shares"] = f"{context.group.await_shared_partitions(workers):.1f} s more"
    context.run_for(5)


def interrupt_broker(context):
    """The broker hangs for longer than a session, and later is away: every connection is cut, and new ones are refused."""
    workers = start_load(context)
    context.run_for(3)
    broker_process = context.deployment.parts["broker"]
    broker_process.signal(signal.SIGSTOP)
    context.run_for(SESSION_SECONDS + 4)
    broker_process.signal(signal.SIGCONT)
    context.figures["hung: shared after"] = f"{context.group.await_shared_partitions(workers):.1f} s"
    context.figures["hung: all flows after"] = f"{context.wait_for_results():.1f} s more"
    context.run_for(5)
    context.deployment.broker_proxy.disconnect()
    context.run_for(SESSION_SECONDS + 4)
    context.deployment.broker_proxy.open()
    context.figures["away: all flows after"] = f"{context.wait_for_results():.1f} s"
    context.figures["away: shared after"] = f"{context.group.await_shared_partitions(workers):.1f} s more"
    context.run_for(3)


def describe_seconds(values):
    ordered = sorted(values)
    return f"half {ordered[len(ordered) // 2]:.1f}, longest {ordered[-1]:.1f} s"


@dataclass(frozen=True)
class Scenario:
    play: Callable
    repeats: float
    """The share of the commands whose pushes may be sent a second time."""
    results_again: float
    """The share of the commands whose results may be written a second time."""
    alerts_again: float
    """The share of the commands whose alerts may ring a second time."""
    wait_seconds: int
    """The maximum time in seconds that a state may wait for its push."""
    apns_cuts: int = 0
    """How often all connections to APNs are cut. Each cut may lose one response for each activity."""
    is_empty: bool = False
    """Whether workers can reach broker, Redis and APNs only some time after they have started."""
    needs_former: bool = False
    """Whether the scenario needs a former version of the program."""


SCENARIOS = {
    "share": Scenario(run_undisturbed, 0, 0, 0, wait_seconds=10),
    "rolling": Scenario(restart_workers, 0, 0, 0, wait_seconds=15),
    "upgrade": Scenario(upgrade_and_roll_back, 0, 0, 0, wait_seconds=15, needs_former=True),
    "joining": Scenario(add_and_remove_worker, 0, 0, 0, wait_seconds=15),
    # A killed worker has not committed its last settled offsets, so the next owner of the partitions reads these records again.
    "failures": Scenario(kill_and_freeze_workers, 0.01, 0.05, 0.005, wait_seconds=30, apns_cuts=1),
    "replaced": Scenario(replace_killed_worker, 0.01, 0.05, 0.005, wait_seconds=30),
    "ending": Scenario(stop_all_workers, 0, 0, 0, wait_seconds=30),
    "order": Scenario(start_workers_first, 0, 0, 0, wait_seconds=30, is_empty=True),
    # After the outage most of the backlog is read again, because its partitions were revoked before its records had settled.
    "broker": Scenario(interrupt_broker, 0.01, 0.5, 0.03, wait_seconds=45),
}

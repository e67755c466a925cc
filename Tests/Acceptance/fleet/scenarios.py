"""The scenarios of a fleet. Each gets a deployment without workers and a load that has not started. When it
returns, the load runs, the fault has ended, and workers run."""

import signal
import time
from dataclasses import dataclass
from typing import Callable

from fleet.deployment import PARTITIONS, SESSION_SECONDS
from fleet.fanouts_and_starts import PACE, FanoutsAndStarts
from fleet.health import Health
from fleet.watch import SHARE_SECONDS
from processes import Failure, wait_until

WORKERS = 3
STOP_SECONDS = 10
"""The maximum time in seconds for the end of a worker that has little to drain."""
TAKEOVER_SECONDS = 12
"""The maximum time in seconds from a worker's death until each partition has results again, with the worker's
default session."""


class Scene:
    """What a scenario works with, and the figures that it records."""

    def __init__(self, deployment, load, results, group, options):
        self.deployment, self.load, self.results, self.group, self.options = deployment, load, results, group, options
        self.health = Health(deployment, group)
        self.figures = {}
        self.fanouts_and_starts = None
        """The fan-outs to an audience and the starts besides the load; None in most scenarios."""

    def start_workers(self):
        return [self.deployment.worker(number) for number in range(1, WORKERS + 1)]

    def wait_for_results(self, seconds=SHARE_SECONDS):
        """Waits until every partition of commands has a new result. Returns the seconds that it took."""
        now = time.monotonic()
        last_results = self.results.partitions_at
        wait_until(lambda: all(last_results.get(number, 0) > now for number in range(PARTITIONS)), seconds, "results of every partition")
        return time.monotonic() - now

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.deployment.check()
            time.sleep(0.2)


def begin(scene):
    """Starts three workers and the load. Returns when the workers share the partitions."""
    scene.load.make_phones()
    workers = scene.start_workers()
    scene.figures["shared after"] = f"{scene.group.await_share(workers):.1f} s"
    scene.figures["partitions of commands + registrations + deferred + fanout"] = scene.group.text()
    scene.load.start()
    scene.health.check_shared("three share", workers)
    return workers


def run_undisturbed(scene):
    """Three workers share the partitions of all topics that they read."""
    begin(scene)
    scene.run_for(20)


def restart_workers(scene):
    """Three workers are restarted one after the other, by default ten times, under load."""
    workers = begin(scene)
    scene.run_for(3)
    stops, shares = [], []
    for _ in range(scene.options.repetitions):
        for worker in workers:
            stops.append(worker.restart())
            shares.append(scene.group.await_share(workers))
            scene.deployment.check()
    scene.figures["partitions after it"] = scene.group.text()
    scene.figures["restarts"] = len(stops)
    scene.figures["stop took"] = median_and_longest(stops)
    scene.figures["shared again after"] = median_and_longest(shares)


def upgrade_and_roll_back(scene):
    """The present version replaces three workers of a former version, one by one, under load. Then the former
    version replaces the present one. Before each worker stops, a fan-out begins and starts are written."""
    scene.deployment.workers_program = scene.options.former
    scene.deployment.control("PUT", "/faults", PACE)
    workers = begin(scene)
    scene.fanouts_and_starts = FanoutsAndStarts(scene.deployment, scene.results)
    scene.load.tokens += scene.fanouts_and_starts.tokens
    scene.run_for(5)
    for name, program in [("upgrade", scene.deployment.program), ("rollback", scene.options.former)]:
        stops = []
        for worker in workers:
            worker.program = program
            scene.fanouts_and_starts.begin()
            stops.append(worker.restart())
            scene.group.await_share(workers)
            # Until the last worker is replaced, workers of both versions share the load in this time.
            scene.run_for(5)
        scene.figures[f"{name}: stop took"] = median_and_longest(stops)
        scene.figures[f"{name}: all flows after"] = f"{scene.wait_for_results():.1f} s"
    scene.run_for(3)


def add_and_remove_worker(scene):
    """A fourth worker joins three and leaves them, by default ten times, under load."""
    workers = begin(scene)
    scene.run_for(3)
    joins, leaves = [], []
    for _ in range(scene.options.repetitions):
        new_worker = scene.deployment.worker(4)
        joins.append(scene.group.await_share([*workers, new_worker]))
        scene.run_for(1)
        new_worker.stop()
        leaves.append(scene.group.await_share(workers))
        scene.deployment.check()
    scene.figures["joins and leaves"] = 2 * len(joins)
    scene.figures["shared after a join"] = median_and_longest(joins)
    scene.figures["shared after a leave"] = median_and_longest(leaves)


def kill_and_freeze_workers(scene):
    """One worker is killed. Another is frozen, and continues with assignments that are no longer valid. One worker is
    added. Then APNs is away."""
    one, two, three = begin(scene)
    scene.run_for(3)
    one.kill()
    scene.figures["killed: others have all after"] = f"{scene.group.await_share([two, three]):.1f} s"
    scene.figures["killed: all flows after"] = f"{scene.wait_for_results():.1f} s more"
    scene.health.check_shared("one is gone", [two, three])
    scene.run_for(2)
    two.process.signal(signal.SIGSTOP)
    scene.health.check_silent("one is stopped", two)
    scene.figures["stopped: the other has all after"] = f"{scene.group.await_share([three]):.1f} s"
    scene.figures["stopped: all flows after"] = f"{scene.wait_for_results():.1f} s more"
    scene.health.check_shared("one has all", [three])
    new_worker = scene.deployment.worker(4)
    scene.figures["added: shared after"] = f"{scene.group.await_share([three, new_worker]):.1f} s"
    scene.figures["added: partitions"] = scene.group.text()
    scene.health.check_shared("one is added", [three, new_worker])
    scene.run_for(2)
    two.process.signal(signal.SIGCONT)
    scene.figures["woken: shared after"] = f"{scene.group.await_share([two, three, new_worker]):.1f} s"
    scene.figures["woken: partitions"] = scene.group.text()
    scene.health.check_shared("one woke up", [two, three, new_worker])
    scene.run_for(3)
    scene.deployment.apns_proxy.shut()
    scene.health.check_behind("APNs is away", [two, three, new_worker], scene.load.rate)
    scene.deployment.apns_proxy.open()
    scene.run_for(3)


def replace_killed_worker(scene):
    """One worker is killed and another replaces it at once. All partitions are served within 12 s, and the new worker
    is not ready before it has partitions."""
    one, two, three = begin(scene)
    scene.run_for(3)
    killed = time.monotonic()
    one.kill()
    new_worker = scene.deployment.worker(4)
    ready = scene.health.check_ready_with_share(new_worker, SHARE_SECONDS)
    scene.figures["its successor is ready after"] = f"{ready:.1f} s"
    scene.wait_for_results()
    served = time.monotonic() - killed
    scene.figures["killed: all is served after"] = f"{served:.1f} s"
    if served > TAKEOVER_SECONDS:
        raise Failure(f"what a killed worker had was served after {served:.1f} s, {TAKEOVER_SECONDS} are promised")
    scene.health.check_shared("another came in its place", [two, three, new_worker])
    scene.run_for(3)


def stop_all_workers(scene):
    """All workers get SIGTERM at once, one of them just after its start. Partitions that come too late keep no worker
    from ending."""
    workers = begin(scene)
    scene.run_for(3)
    workers.append(scene.deployment.worker(4))
    scene.health.await_alive(workers[-1], SHARE_SECONDS)
    for worker in workers:
        worker.process.signal(signal.SIGTERM)
    stops = [worker.await_end(STOP_SECONDS) for worker in workers]
    scene.figures["all ended after"] = f"{sum(stops):.1f} s"
    scene.figures["shared again after"] = f"{scene.group.await_share(scene.start_workers()):.1f} s"
    scene.run_for(3)


def start_workers_first(scene):
    """Workers start before the broker, Redis and APNs, which come one by one."""
    workers = scene.start_workers()
    scene.run_for(4)
    scene.deployment.start_broker()
    scene.run_for(4)
    scene.deployment.start_redis()
    scene.run_for(4)
    scene.load.make_phones()
    scene.load.start()
    scene.run_for(4)
    scene.deployment.apns_proxy.open()
    scene.figures["APNs last: all flows after"] = f"{scene.wait_for_results():.1f} s"
    scene.figures["shares"] = f"{scene.group.await_share(workers):.1f} s more"
    scene.run_for(5)


def interrupt_broker(scene):
    """The broker hangs for longer than a session, and later is away: every connection is cut, and new ones are refused."""
    workers = begin(scene)
    scene.run_for(3)
    broker_process = scene.deployment.parts["broker"]
    broker_process.signal(signal.SIGSTOP)
    scene.run_for(SESSION_SECONDS + 4)
    broker_process.signal(signal.SIGCONT)
    scene.figures["hung: shared after"] = f"{scene.group.await_share(workers):.1f} s"
    scene.figures["hung: all flows after"] = f"{scene.wait_for_results():.1f} s more"
    scene.run_for(5)
    scene.deployment.broker_proxy.shut()
    scene.run_for(SESSION_SECONDS + 4)
    scene.deployment.broker_proxy.open()
    scene.figures["away: all flows after"] = f"{scene.wait_for_results():.1f} s"
    scene.figures["away: shared after"] = f"{scene.group.await_share(workers):.1f} s more"
    scene.run_for(3)


def median_and_longest(values):
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
    is_empty: bool = False
    """Whether workers can reach broker, Redis and APNs only some time after they have started."""
    needs_former: bool = False
    """Whether the scenario needs a former version of the program."""


ALL = {
    "share": Scenario(run_undisturbed, 0, 0, 0, wait_seconds=10),
    "rolling": Scenario(restart_workers, 0, 0, 0, wait_seconds=15),
    "upgrade": Scenario(upgrade_and_roll_back, 0, 0, 0, wait_seconds=15, needs_former=True),
    "joining": Scenario(add_and_remove_worker, 0, 0, 0, wait_seconds=15),
    "failures": Scenario(kill_and_freeze_workers, 0.01, 0.05, 0.005, wait_seconds=30),
    "replaced": Scenario(replace_killed_worker, 0.01, 0.05, 0.005, wait_seconds=30),
    "ending": Scenario(stop_all_workers, 0, 0, 0, wait_seconds=30),
    "order": Scenario(start_workers_first, 0, 0, 0, wait_seconds=30, is_empty=True),
    # After the outage most of the backlog is read again: records were read, and then revoked before they
    # settled.
    "broker": Scenario(interrupt_broker, 0.01, 0.5, 0.03, wait_seconds=45),
}

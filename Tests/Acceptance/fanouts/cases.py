"""The disturbances of fan-outs. Each case gets a context whose members have joined and whose workers share the topics.
It returns when it has sent its last command and caused its last disturbance."""

import signal
import time
from dataclasses import dataclass, field
from typing import Callable

from fanouts.deployment import now_milliseconds
from fanouts.redis_servers import ClusterServers, SentinelServers, SingleServer
from processes import Failure, wait_until

WORKER_COUNT = 3
FANOUT_SECONDS_MAX = 90
IDLE_SECONDS = 2
POLL_SECONDS = 0.02
REDIS_DOWN_SECONDS = 3
"""How long Redis is unreachable, in seconds."""
SECONDS_BETWEEN_FREEZES = 0.1
"""How long Redis replies before it is frozen again, in seconds."""
DISTURBED_SHARE_MAX = 0.95
"""If more than this share of the members is reached, a fan-out is too near its end to be disturbed."""


class CaseContext:
    """What a case works with, and the figures that it records."""

    def __init__(self, deployment, crowd, outcomes, group):
        self.deployment, self.crowd, self.outcomes, self.group = deployment, crowd, outcomes, group
        self.figures = {}

    def start_workers(self, count=WORKER_COUNT):
        workers = [self.deployment.start_worker(number) for number in range(1, count + 1)]
        self.group.await_shared_partitions(workers)
        return workers

    def wait_for_share(self, command, share):
        """Waits until this share of the members shows a command's state, so that the fan-out has certainly begun."""
        wanted_count = int(self.crowd.member_count * share)
        wait_until(
            lambda: self.crowd.count_showing(command) >= wanted_count, FANOUT_SECONDS_MAX, f"{share:.0%} of the members", POLL_SECONDS
        )

    def start_fanout(self, share=0.4):
        """Sends the first command with its alert. Returns when this share of the members shows its state."""
        first = self.crowd.send_command("Goal one")
        self.wait_for_share(first, share)
        return first

    def record_incident(self, what, command):
        """Records that an event happens now. Fails if the command's fan-out is already too near its end."""
        self.crowd.record_incident(what)
        share = self.crowd.count_showing(command) / self.crowd.member_count
        if share > DISTURBED_SHARE_MAX:
            raise Failure(f"{what}: {share:.0%} were reached, the fan-out was not in its middle")
        self.figures[f"{what} at"] = f"{share:.0%} of the fan-out"

    def wait_for_end(self):
        """Waits until every command has its result, at most `FANOUT_SECONDS_MAX`. Then waits until no further result or
        push comes, and records how many phones show the last state."""
        began_seconds = time.monotonic()
        last_command = self.crowd.commands[-1]
        try:
            identifiers = {command["command"] for command in self.crowd.commands}
            wait_until(lambda: self.outcomes.final_outcomes.keys() >= identifiers, FANOUT_SECONDS_MAX, "results")
        except Failure:
            self.figures["results"] = f"only of {sorted(self.outcomes.final_outcomes)}"
        wait_until(
            lambda: now_milliseconds() - self.outcomes.last_record_milliseconds > IDLE_SECONDS * 1_000,
            FANOUT_SECONDS_MAX,
            "no more results",
        )
        last_change = [self.crowd.fetch_report()["pushes"], time.monotonic()]

        def is_quiet():
            pushes = self.crowd.fetch_report()["pushes"]
            if pushes != last_change[0]:
                last_change[:] = [pushes, time.monotonic()]
            return time.monotonic() - last_change[1] > IDLE_SECONDS

        wait_until(is_quiet, FANOUT_SECONDS_MAX, "no more pushes", 0.2)
        phone_count = self.crowd.count_showing(last_command)
        self.figures["done after"] = f"{time.monotonic() - began_seconds:.1f} s; {phone_count} phones show {last_command['command']}"


def play_undisturbed(context):
    """No disturbance: two commands, the second one after the result of the first."""
    context.crowd.send_command("Goal one")
    wait_until(lambda: "goal-1" in context.outcomes.final_outcomes, FANOUT_SECONDS_MAX, "the first fan-out's result")
    context.crowd.send_command("Goal two")


def overtake_at(share, is_same_second=False):
    def play(context):
        first = context.crowd.send_command("Goal one")
        context.wait_for_share(first, share)
        context.crowd.send_command(timestamp=first["timestamp"] if is_same_second else None)
        if not is_same_second:
            context.record_incident("second command", first)

    play.__doc__ = f"A second command{', of the same second,' if is_same_second else ''} when {share:.0%} have the first."
    return play


def kill_worker(context):
    """The worker with the most ranges is killed."""
    first = context.start_fanout()
    victim = context.deployment.busiest_worker()
    victim.kill()
    context.record_incident("kill", first)


def kill_worker_then_send(context):
    """The worker with the most ranges is killed, and a second command comes before another worker has taken over."""
    first = context.start_fanout()
    victim = context.deployment.busiest_worker()
    victim.kill()
    context.record_incident("kill", first)
    context.crowd.send_command()


def kill_all_workers(context):
    """All workers are killed, and new ones start."""
    first = context.start_fanout()
    for worker in context.deployment.workers.values():
        worker.kill()
    context.record_incident("kill", first)
    for worker in context.deployment.workers.values():
        worker.start()


def add_worker(context):
    """A fourth worker joins."""
    first = context.start_fanout(0.2)
    new_worker = context.deployment.start_worker(4)
    others = [worker for worker in context.deployment.workers.values() if worker is not new_worker]
    context.group.await_shared_partitions([*others, new_worker])
    context.record_incident("join", first)


def stop_worker(context):
    """The worker with the most ranges gets SIGTERM."""
    first = context.start_fanout(0.3)
    leaver = context.deployment.busiest_worker()
    leaver.process.signal(signal.SIGTERM)
    context.record_incident("leave", first)
    context.figures["stopped"] = f"after {leaver.await_end():.1f} s"


def stop_worker_then_send(context):
    """The worker with the most ranges gets SIGTERM, and a second command arrives at once."""
    first = context.start_fanout(0.3)
    leaver = context.deployment.busiest_worker()
    leaver.process.signal(signal.SIGTERM)
    context.record_incident("leave", first)
    context.crowd.send_command("Goal two")
    leaver.await_end()


def freeze_worker(context):
    """A worker is frozen for longer than its session, and wakes when the others have finished a newer command."""
    first = context.start_fanout()
    sleeper = context.deployment.busiest_worker()
    sleeper.process.signal(signal.SIGSTOP)
    context.record_incident("freeze", first)
    others = [worker for worker in context.deployment.workers.values() if worker is not sleeper]
    context.group.await_shared_partitions(others)
    second = context.crowd.send_command()
    wait_until(lambda: second["command"] in context.outcomes.final_outcomes, FANOUT_SECONDS_MAX, "the second fan-out's result")
    sleeper.process.signal(signal.SIGCONT)
    context.group.await_shared_partitions([*others, sleeper])


def restart_redis(context):
    """Redis is killed, and comes back with its data."""
    first = context.start_fanout()
    context.deployment.redis.kill()
    context.record_incident("redis killed", first)
    context.deployment.start_redis()


def stop_redis_then_send(context):
    """Redis is killed, a second command comes, and some seconds later Redis is back with its data."""
    first = context.start_fanout()
    context.deployment.redis.kill()
    context.record_incident("redis killed", first)
    context.crowd.send_command("Goal two")
    time.sleep(REDIS_DOWN_SECONDS)
    context.deployment.start_redis()


def freeze_redis(context):
    """Four times, Redis does not reply for longer than workers wait for a reply."""
    first = context.crowd.send_command("Goal one")
    for share in [0.2, 0.4, 0.6, 0.8]:
        context.wait_for_share(first, share)
        context.deployment.redis.freeze(1.4)
        context.record_incident("redis frozen", first)


def wipe_redis(context):
    """Redis loses all data."""
    first = context.start_fanout()
    context.deployment.redis.wipe()
    context.record_incident("wipe", first)


def wipe_redis_then_send(context):
    """Redis loses all data, and a second command comes at once."""
    first = context.start_fanout()
    context.deployment.redis.wipe()
    context.record_incident("wipe", first)
    context.crowd.send_command()


def wipe_and_freeze_redis(context):
    """Redis loses all data. While workers read the registrations again, it twice does not reply for longer than they
    wait."""
    first = context.start_fanout()
    context.deployment.redis.wipe()
    context.record_incident("wipe", first)
    for _ in range(2):
        time.sleep(SECONDS_BETWEEN_FREEZES)
        context.deployment.redis.freeze(1.2)


def promote_replica(context):
    """The primary of Redis is killed, and its replica replaces it."""
    first = context.start_fanout()
    context.deployment.redis.kill()
    context.record_incident("redis killed", first)


def promote_replica_then_send(context):
    """The primary of Redis is killed, and a second command comes before the replica has replaced it."""
    first = context.start_fanout()
    context.deployment.redis.kill()
    context.record_incident("redis killed", first)
    context.crowd.send_command("Goal two")


CHANGED_MEMBER_COUNT = 200


def change_members(context):
    """Some phones are dead. Others join, leave and get other tokens during the fan-out. Then a second command comes."""
    crowd = context.crowd
    crowd.dismiss(0, CHANGED_MEMBER_COUNT)
    first = crowd.send_command("Goal one")
    context.wait_for_share(first, 0.3)
    crowd.leave(CHANGED_MEMBER_COUNT, CHANGED_MEMBER_COUNT)
    crowd.join(crowd.member_count, CHANGED_MEMBER_COUNT)
    crowd.rotate_tokens(2 * CHANGED_MEMBER_COUNT, CHANGED_MEMBER_COUNT)
    context.record_incident("members have changed", first)
    wait_until(lambda: first["command"] in context.outcomes.final_outcomes, FANOUT_SECONDS_MAX, "the first fan-out's result")
    crowd.send_command()


@dataclass(frozen=True)
class Case:
    play: Callable
    joiner_count: int = 0
    """The number of phones that join during the case."""
    options: dict = field(default_factory=dict)
    """Options for `check.py`."""
    redis_class: type = SingleServer
    """The form of Redis: one server, Sentinel or a cluster."""


CASES = {
    "quiet": Case(play_undisturbed),
    "overtaken-10": Case(overtake_at(0.1)),
    "overtaken-50": Case(overtake_at(0.5)),
    "overtaken-90": Case(overtake_at(0.9)),
    "same-second": Case(overtake_at(0.5, is_same_second=True)),
    "membership": Case(change_members, joiner_count=CHANGED_MEMBER_COUNT),
    "joined": Case(add_worker),
    "left": Case(stop_worker),
    "left-overtaken": Case(stop_worker_then_send),
    "killed": Case(kill_worker),
    "killed-overtaken": Case(kill_worker_then_send),
    "all-killed": Case(kill_all_workers),
    "frozen": Case(freeze_worker),
    "redis-restarted": Case(restart_redis),
    "redis-away": Case(stop_redis_then_send),
    "redis-frozen": Case(freeze_redis),
    "redis-emptied": Case(wipe_redis),
    "redis-emptied-overtaken": Case(wipe_redis_then_send),
    "redis-emptied-frozen": Case(wipe_and_freeze_redis),
    "redis-promoted": Case(promote_replica, redis_class=SentinelServers),
    "redis-promoted-overtaken": Case(promote_replica_then_send, redis_class=SentinelServers),
    "redis-segment-promoted": Case(promote_replica, redis_class=ClusterServers),
    "redis-segment-promoted-overtaken": Case(promote_replica_then_send, redis_class=ClusterServers),
}

"""The disturbances of rounds. Each case gets a scene whose members have joined and whose workers share the topics. It returns when its
last command is sent and the fault has ended."""

import signal
import time
from dataclasses import dataclass, field
from typing import Callable

from common.processes import Failure, wait_until
from rounds.arena import now
from rounds.servers import Alone, Cluster, Watched

WORKERS = 3
ROUND_SECONDS = 90
QUIET_SECONDS = 2
LOOK_SECONDS = 0.02
AWAY_SECONDS = 3
"""How long Redis is unreachable, in seconds."""
THAWED_SECONDS = 0.1
"""How long Redis answers before it is frozen again, in seconds."""
OVER_SHARE = 0.95
"""The share of the members above which a round is too near its end to be disturbed."""


class Scene:
    """What a case works with, and the figures that it records."""

    def __init__(self, deployment, crowd, outcomes, group):
        self.deployment, self.crowd, self.outcomes, self.group = deployment, crowd, outcomes, group
        self.figures = {}

    def start_workers(self, count=WORKERS):
        workers = [self.deployment.worker(number) for number in range(1, count + 1)]
        self.group.await_share(workers)
        return workers

    def reach(self, command, share):
        """Waits until this share of the members shows a command's state, so that the round is certainly in
        progress."""
        wanted = int(self.crowd.count * share)
        wait_until(lambda: self.crowd.shown(command) >= wanted, ROUND_SECONDS, f"{share:.0%} of the members", LOOK_SECONDS)

    def midway(self, share=0.4):
        """Sends the first command with its alert. Returns when this share of the members shows its state."""
        first = self.crowd.command("Goal one")
        self.reach(first, share)
        return first

    def happens(self, what, command):
        """Records that an event happens now, and checks that the round is still in progress."""
        self.crowd.incident(what)
        share = self.crowd.shown(command) / self.crowd.count
        if share > OVER_SHARE:
            raise Failure(f"{what}: {share:.0%} were reached, the round was not in its middle")
        self.figures[f"{what} at"] = f"{share:.0%} of the round"

    def done(self):
        """Waits until every command has its result, every phone shows the last state, and no further push
        comes."""
        began = time.monotonic()
        last = self.crowd.commands[-1]
        try:
            wait_until(lambda: self.outcomes.final.keys() >= {c["command"] for c in self.crowd.commands}, ROUND_SECONDS, "results")
        except Failure:
            self.figures["results"] = f"only of {sorted(self.outcomes.final)}"
        wait_until(lambda: now() - self.outcomes.last_at > QUIET_SECONDS * 1_000, ROUND_SECONDS, "no more results")
        seen = [self.crowd.report()["pushes"], time.monotonic()]

        def is_quiet():
            pushes = self.crowd.report()["pushes"]
            if pushes != seen[0]:
                seen[:] = [pushes, time.monotonic()]
            return time.monotonic() - seen[1] > QUIET_SECONDS

        wait_until(is_quiet, ROUND_SECONDS, "no more pushes", 0.2)
        self.figures["done after"] = f"{time.monotonic() - began:.1f} s; {self.crowd.shown(last)} phones show {last['command']}"


def quiet(scene):
    """No disturbance: two rounds, one after the other."""
    scene.crowd.command("Goal one")
    wait_until(lambda: "goal-1" in scene.outcomes.final, ROUND_SECONDS, "the first round's result")
    scene.crowd.command("Goal two")


def overtaken(share, is_same_second=False):
    def play(scene):
        first = scene.crowd.command("Goal one")
        scene.reach(first, share)
        scene.crowd.command(timestamp=first["timestamp"] if is_same_second else None)
        if not is_same_second:
            scene.happens("second command", first)

    play.__doc__ = f"A second command{', of the same second,' if is_same_second else ''} when {share:.0%} have the first."
    return play


def killed(scene):
    """The worker with the most ranges is killed."""
    first = scene.midway()
    victim = scene.deployment.busiest()
    victim.process.kill()
    scene.happens("kill", first)


def killed_overtaken(scene):
    """The worker with the most ranges is killed, and a second command comes before another worker has taken over."""
    first = scene.midway()
    victim = scene.deployment.busiest()
    victim.process.kill()
    scene.happens("kill", first)
    scene.crowd.command()


def all_killed(scene):
    """All workers are killed, and new ones start."""
    first = scene.midway()
    for worker in scene.deployment.workers.values():
        worker.process.kill()
    scene.happens("kill", first)
    for worker in scene.deployment.workers.values():
        worker.start()


def joined(scene):
    """A fourth worker joins."""
    first = scene.midway(0.2)
    four = scene.deployment.worker(4)
    scene.group.await_share([*(worker for worker in scene.deployment.workers.values() if worker is not four), four])
    scene.happens("join", first)


def left(scene):
    """The worker with the most ranges gets SIGTERM."""
    first = scene.midway(0.3)
    leaver = scene.deployment.busiest()
    leaver.process.signal(signal.SIGTERM)
    scene.happens("leave", first)
    scene.figures["stopped"] = f"after {leaver.await_end():.1f} s"


def left_overtaken(scene):
    """The worker with the most ranges gets SIGTERM, and a second command arrives at once."""
    first = scene.midway(0.3)
    leaver = scene.deployment.busiest()
    leaver.process.signal(signal.SIGTERM)
    scene.happens("leave", first)
    scene.crowd.command("Goal two")
    leaver.await_end()


def frozen(scene):
    """A worker is frozen for longer than its session, and wakes when the others have finished a newer round."""
    first = scene.midway()
    sleeper = scene.deployment.busiest()
    sleeper.process.signal(signal.SIGSTOP)
    scene.happens("freeze", first)
    others = [worker for worker in scene.deployment.workers.values() if worker is not sleeper]
    scene.group.await_share(others)
    second = scene.crowd.command()
    wait_until(lambda: second["command"] in scene.outcomes.final, ROUND_SECONDS, "the second round's result")
    sleeper.process.signal(signal.SIGCONT)
    scene.group.await_share([*others, sleeper])


def redis_restarted(scene):
    """Redis is killed, and comes back with its data."""
    first = scene.midway()
    scene.deployment.redis.kill()
    scene.happens("redis killed", first)
    scene.deployment.start_redis()


def redis_away(scene):
    """Redis is killed, a second command comes, and some seconds later Redis is back with its data."""
    first = scene.midway()
    scene.deployment.redis.kill()
    scene.happens("redis killed", first)
    scene.crowd.command("Goal two")
    time.sleep(AWAY_SECONDS)
    scene.deployment.start_redis()


def redis_frozen(scene):
    """Redis repeatedly does not answer for longer than workers wait."""
    first = scene.crowd.command("Goal one")
    for part in [0.2, 0.4, 0.6, 0.8]:
        scene.reach(first, part)
        scene.deployment.redis.freeze(1.4)
        scene.happens("redis frozen", first)


def redis_emptied(scene):
    """Redis loses all data."""
    first = scene.midway()
    scene.deployment.redis.wipe()
    scene.happens("wipe", first)


def redis_emptied_overtaken(scene):
    """Redis loses all data, and a second command comes at once."""
    first = scene.midway()
    scene.deployment.redis.wipe()
    scene.happens("wipe", first)
    scene.crowd.command()


def redis_emptied_frozen(scene):
    """Redis loses all data, and then twice does not answer for longer than workers wait, while they read the registrations again."""
    first = scene.midway()
    scene.deployment.redis.wipe()
    scene.happens("wipe", first)
    for _ in range(2):
        time.sleep(THAWED_SECONDS)
        scene.deployment.redis.freeze(1.2)


def redis_promoted(scene):
    """The primary of Redis is killed, and its replica replaces it."""
    first = scene.midway()
    scene.deployment.redis.kill()
    scene.happens("redis killed", first)


def redis_promoted_overtaken(scene):
    """The primary of Redis is killed, and a second command comes before the replica has replaced it."""
    first = scene.midway()
    scene.deployment.redis.kill()
    scene.happens("redis killed", first)
    scene.crowd.command("Goal two")


CHANGED = 200


def membership(scene):
    """Some phones have died before. Others join, leave and get other tokens during the round; then comes a second command."""
    crowd = scene.crowd
    crowd.die(0, CHANGED)
    first = crowd.command("Goal one")
    scene.reach(first, 0.3)
    crowd.leave(CHANGED, CHANGED)
    crowd.join(crowd.count, CHANGED)
    crowd.rotate(2 * CHANGED, CHANGED)
    scene.happens("members have changed", first)
    wait_until(lambda: first["command"] in scene.outcomes.final, ROUND_SECONDS, "the first round's result")
    crowd.command()


@dataclass(frozen=True)
class Case:
    play: Callable
    later: int = 0
    """The number of phones that join during the case."""
    options: dict = field(default_factory=dict)
    """Options for the judge."""
    servers: type = Alone
    """The form of Redis: one server, Sentinel or a cluster."""


ALL = {
    "quiet": Case(quiet),
    "overtaken-10": Case(overtaken(0.1)),
    "overtaken-50": Case(overtaken(0.5)),
    "overtaken-90": Case(overtaken(0.9)),
    "same-second": Case(overtaken(0.5, is_same_second=True)),
    "membership": Case(membership, later=CHANGED),
    "joined": Case(joined),
    "left": Case(left),
    "left-overtaken": Case(left_overtaken),
    "killed": Case(killed),
    "killed-overtaken": Case(killed_overtaken),
    "all-killed": Case(all_killed),
    "frozen": Case(frozen),
    "redis-restarted": Case(redis_restarted),
    "redis-away": Case(redis_away),
    "redis-frozen": Case(redis_frozen),
    "redis-emptied": Case(redis_emptied),
    "redis-emptied-overtaken": Case(redis_emptied_overtaken),
    "redis-emptied-frozen": Case(redis_emptied_frozen),
    "redis-promoted": Case(redis_promoted, servers=Watched),
    "redis-promoted-overtaken": Case(redis_promoted_overtaken, servers=Watched),
    "redis-segment-promoted": Case(redis_promoted, servers=Cluster),
    "redis-segment-promoted-overtaken": Case(redis_promoted_overtaken, servers=Cluster),
}

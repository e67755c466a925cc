"""Fan-outs to an audience, and starts, which are in progress while a fleet is upgraded. Their pushes and results
are checked here, separately from those of the load."""

import json
import os
import time

from fanouts.crowd import Crowd
from fleet.deployment import APP, COMMANDS, REGISTRATIONS
from fleet.load import REGISTRATIONS_PER_PAGE, digest
from fleet.topics import TopicWriter
from processes import Failure, wait_until
from recorded_runs.invariant_results import EXAMPLES_MAX

MEMBER_COUNT = 4_000
GUEST_COUNT = 60
STARTS_PER_STOP = 5
SLOW_APNS = {"latencyMillisecondsMin": 100, "latencyMillisecondsMax": 100, "concurrentStreams": 20}
"""With 20 streams and 100 ms for each response, a connection carries 200 pushes a second, so a fan-out
takes seconds."""
FANOUT_BEGIN_SECONDS_MAX = 20
SETTLE_SECONDS = 60


class FanoutsAndStarts:
    """An audience of phones that the simulator stores in compact form, and guests: other phones, on which activities are
    started. `results` has the results of both."""

    def __init__(self, deployment, results):
        self.deployment, self.results = deployment, results
        self.fanout_under_way_count = 0
        self._starts = {}
        """The digest of each start's state, by activity."""
        self._crowd = Crowd(deployment, MEMBER_COUNT)
        self._writer = TopicWriter(deployment, {"linger.ms": 5})
        self._guests = [f"guest-{number}" for number in range(GUEST_COUNT)]
        deployment.call_simulator("POST", "/phones", {"app": APP, "devices": self._guests})
        self._guest_tokens = []
        self._register_guests()
        self._crowd.join()

    def close(self):
        self._crowd.close()

    @property
    def tokens(self):
        """Returns every token that the members and the guests have registered."""
        return self._guest_tokens + self._crowd.tokens

    def _register_guests(self):
        cursor, missing = 0, set(self._guests)
        while missing:
            page = self.deployment.call_simulator(
                "GET", f"/registrations?since={cursor}&limit={REGISTRATIONS_PER_PAGE}&waitMilliseconds=1000"
            )
            if page["next"] == cursor:
                raise Failure(f"{len(missing)} phones have no push-to-start token")
            for record in page["registrations"]:
                if record["value"].get("device") in missing:
                    missing.discard(record["value"]["device"])
                    self._guest_tokens.append(record["value"]["token"])
                    self._writer.write(REGISTRATIONS, record["key"], json.dumps(record["value"]))
            cursor = page["next"]
        self._writer.flush()

    def send(self):
        """Sends a command to the audience, waits until it has reached some members, and then writes starts. Counts the
        fan-out as under way unless it has already reached all members when the wait ends."""
        command = self._crowd.send_command()
        reached_count = 0

        def has_begun():
            nonlocal reached_count
            reached_count = self._crowd.count_showing(command)
            return reached_count > 0

        wait_until(has_begun, FANOUT_BEGIN_SECONDS_MAX, "a fan-out is under way")
        for _ in range(STARTS_PER_STOP):
            self._start(self._guests[len(self._starts)])
        self._writer.flush()
        self.fanout_under_way_count += reached_count < MEMBER_COUNT

    def _start(self, guest):
        state = json.dumps(
            {
                "driverName": "Ana", "driverPhoto": "person.crop.circle", "vehicleDescription": f"Bus for {guest}",
                "eta": [811693220, 811693340], "status": "driverEnRoute", "distanceRemaining": 0.5,
            },
            separators=(",", ":"),
        )
        value = (
            f'{{"id":"{guest}","app":"{APP}","activity":"{guest}","device":"{guest}","aps":{{"timestamp":{int(time.time())},'
            f'"event":"start","attributes-type":"RideAttributes","attributes":{{"riderName":"{guest}","pickupLocation":"Museum Gate",'
            f'"dropoffLocation":"North Station"}},"content-state":{state},"alert":{{"title":"Your ride","body":"{guest}"}}}}}}'
        )
        self._starts[guest] = digest(state.encode())
        self._writer.write(COMMANDS, guest, value)

    # The check

    def settle(self):
        """Waits until each fan-out and each start has its last result, at most `SETTLE_SECONDS`."""
        wanted_commands = set(self._starts) | {command["command"] for command in self._crowd.commands}
        try:
            wait_until(lambda: wanted_commands <= self._finished_commands(), SETTLE_SECONDS, "fan-outs and starts are settled")
        except Failure:
            pass  # `check` reports the commands that have no last result.

    def _finished_commands(self):
        return {result["command"] for result in self.results.other_results if is_last_result(result)}

    def check(self, report):
        """Removes the pushes of fan-outs and starts from the log, and adds the problems to the report. Call it after the
        workers have stopped."""
        pushes = self._take_pushes()
        commands = self._crowd.commands
        shown_count = self._crowd.count_showing(commands[-1])
        problems = []
        if shown_count != MEMBER_COUNT:
            problems.append(f"{shown_count} of {MEMBER_COUNT} members show the last state")
        if self.fanout_under_way_count == 0:
            problems.append("no fan-out was under way when a worker was stopped")
        finished = self._finished_commands()
        problems += [f"{c['command']} has no result of all its ranges" for c in commands if c["command"] not in finished]
        repeated_count = len(pushes["members"]) - len(set(pushes["members"]))
        if repeated_count:
            problems.append(f"{repeated_count} pushes to members were repeated")
        for guest, state in self._starts.items():
            sent_count, outcomes = pushes["starts"].count(state), self._outcomes_of(guest)
            if sent_count != 1 or outcomes != ["accepted"]:
                problems.append(f"{guest} was started {sent_count} times; its outcomes are {outcomes}")
        report.problems += problems[:EXAMPLES_MAX]
        report.figures["members right"] = f"{shown_count} of {MEMBER_COUNT}, after {len(commands)} fan-outs"
        report.figures["fan-outs under way at a stop"] = self.fanout_under_way_count
        report.figures["pushes to members"] = f"{len(pushes['members'])}, {repeated_count} repeated"
        report.figures["starts"] = f"{len(pushes['starts'])} pushes for {len(self._starts)} commands"

    def _outcomes_of(self, command):
        return [result["outcome"] for result in self.results.other_results if result["command"] == command]

    def _take_pushes(self):
        """Returns the accepted pushes of fan-outs and starts: pairs of token and state for members, and the states of
        starts. The log keeps only the pushes of the load."""
        member_states, starts = {command["state"] for command in self._crowd.commands}, set(self._starts.values())
        pushes = {"members": [], "starts": []}
        path = self.deployment.path("pushes.jsonl")
        with open(path, encoding="utf-8") as log, open(f"{path}.rest", "w", encoding="utf-8") as rest:
            for line in log:
                push = json.loads(line)
                is_member, is_start = push["state"] in member_states, push["state"] in starts
                if not is_member and not is_start:
                    rest.write(line)
                elif push["status"] == 200:
                    if is_member:
                        pushes["members"].append((push["token"], push["state"]))
                    else:
                        pushes["starts"].append(push["state"])
        os.replace(f"{path}.rest", path)
        return pushes


def is_last_result(result):
    """Whether this is the last result of its command: a start's result, or the one over all ranges."""
    return "attempts" in result or "ranges" in result

"""Reads the recorded files of fan-outs to one audience, and finds the command and the member of each push. It shares no
code with the program."""

import json
import os
from dataclasses import dataclass, field

from recorded_runs.json_lines import UnreadableFileError, read_objects

CRASH_INCIDENTS = {"kill", "freeze"}
"""The incidents after which members reached since the last checkpoint may get a push again."""


@dataclass(slots=True)
class Command:
    identifier: str
    order: int
    time: int
    """When the producer wrote the command, in UNIX milliseconds."""
    timestamp: int
    alert: str | None
    state: str
    content: dict
    ranges: dict = field(default_factory=dict)
    """The results of each range in order, by (first, last segment)."""
    totals: list = field(default_factory=list)
    """The results over all ranges of the command."""
    refusals: list = field(default_factory=list)
    """The results of single members whose pushes APNs refused: (activity, outcome)."""

    @property
    def outcome(self):
        return self.totals[-1]["outcome"] if self.totals else None

    @property
    def admitted_at(self):
        """When the command was admitted, in UNIX milliseconds; None if unknown."""
        return next((total["times"]["admitted"] for total in self.totals if "admitted" in total.get("times", {})), None)


@dataclass(slots=True)
class Push:
    line: int
    time: int
    status: int
    activity: str | None
    token: str
    timestamp: int | None
    alert: str | None
    effect: str | None
    command: Command | None


@dataclass(slots=True)
class Member:
    activity: str
    joined: int | None
    """When the join was acknowledged, in UNIX milliseconds; None if before the first command."""
    left: int | None
    """When the leave was acknowledged, in UNIX milliseconds; None if the member stays."""
    renewed: int | None
    """When the phone got another token, in UNIX milliseconds, or None. With the new registration the member joins
    again."""
    is_dead: bool
    """Whether pushes to the phone get 410."""
    pushes: list = field(default_factory=list)
    """The pushes in the order in which APNs got them."""

    @property
    def stays_to_end(self):
        return self.left is None and not self.is_dead

    @property
    def is_member_throughout(self):
        return self.stays_to_end and self.joined is None


def require(value, name, place):
    try:
        return value[name]
    except KeyError:
        raise UnreadableFileError(f"{place}: no {name!r}") from None


class Evidence:
    """The recorded files of one run, which `check.py` lists."""

    def __init__(self, directory):
        self._directory = directory
        self.commands = [
            Command(
                require(value, "command", place), order, require(value, "time", place), require(value, "timestamp", place),
                require(value, "alert", place), require(value, "state", place), require(value, "content", place),
            )
            for order, (place, value) in enumerate(self._lines("commands.jsonl"))
        ]
        self.members = {}
        for place, value in self._lines("members.jsonl"):
            times = (value.get(name) for name in ("joined", "left", "renewed"))
            member = Member(require(value, "activity", place), *times, value.get("dead", False))
            self.members[member.activity] = member
        self.incidents = [
            (require(value, "time", place), require(value, "what", place)) for place, value in self._lines("incidents.jsonl")
        ]
        self.retired_tokens = {
            require(value, "token", place): require(value, "time", place) for place, value in self._lines("retired.jsonl")
        }
        """When the token that replaced each token was acknowledged, by the old token's digest."""
        self._read_results()
        self.invalidations = [
            (require(value, "activity", place), require(value, "time", place)) for place, value in self._lines("invalidations.jsonl")
        ]
        self._read_pushes()
        self.crowd = self._read_crowd()

    def _lines(self, name):
        path = os.path.join(self._directory, name)
        return ((f"{path}:{number}", value) for number, value in read_objects(path))

    def _read_results(self):
        commands = {command.identifier: command for command in self.commands}
        self.foreign_results = []
        for place, value in self._lines("results.jsonl"):
            command = commands.get(value.get("command"))
            if command is None or "audience" not in value or "outcome" not in value:
                self.foreign_results.append(f"{place}: {json.dumps(value)[:200]}")
            elif "activity" in value:
                command.refusals.append((value["activity"], value["outcome"]))
            elif "segments" in value:
                command.ranges.setdefault(tuple(value["segments"]), []).append(value)
            else:
                command.totals.append(value)

    def _read_pushes(self):
        command_of_state = {command.state: command for command in self.commands}
        self.pushes, self.unknown_pushes = [], []
        for place, value in self._lines("pushes.jsonl"):
            push = Push(
                int(place.rsplit(":", 1)[1]), require(value, "time", place), require(value, "status", place), value.get("activity"),
                require(value, "token", place), require(value, "timestamp", place), require(value, "alert", place),
                value.get("effect"), command_of_state.get(require(value, "state", place)),
            )
            self.pushes.append(push)
            member = self.members.get(push.activity)
            if member is None or push.command is None:
                self.unknown_pushes.append(push)
            else:
                member.pushes.append(push)

    def _read_crowd(self):
        path = os.path.join(self._directory, "crowd.json")
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as error:
            raise UnreadableFileError(f"{path}: {error}") from None

    def incident_times(self, *kinds):
        return [time for time, what in self.incidents if what in kinds]

    @property
    def crash_times(self):
        return self.incident_times(*CRASH_INCIDENTS)

    @property
    def wipe_times(self):
        return self.incident_times("wipe")

"""Reads the recorded files of one run, and finds the command of each push. It shares no code with the program."""

import json
import os
from dataclasses import dataclass, field

from recorded_runs.json_lines import UnreadableFileError, read_objects


@dataclass
class Bucket:
    pushes: int
    interval_milliseconds: float
    """The time in which the bucket gains one push."""
    reserved: int


@dataclass
class Policy:
    spacing_milliseconds: int
    bucket: Bucket

    @staticmethod
    def read(path):
        try:
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            bucket = value["budget"]
            return Policy(
                value["spacingMilliseconds"],
                Bucket(bucket["pushes"], 3_600_000 / bucket["refillPerHour"], bucket["reservedForAlerts"]),
            )
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            raise UnreadableFileError(f"{path}: {error!r}") from None


@dataclass(slots=True)
class Command:
    identifier: str
    activity: str
    event: str
    time: int
    """When the producer wrote the command, in UNIX milliseconds."""
    alert: str | None
    state: str
    order: int = 0
    """The command's index among the commands of its activity."""
    outcomes: list = field(default_factory=list)

    @property
    def outcome(self):
        """The last outcome; None without a result. A held command gets a further outcome after it is released."""
        return self.outcomes[-1]["outcome"] if self.outcomes else None


@dataclass(slots=True)
class Push:
    line: int
    time: int
    status: int
    activity: str | None
    token: str
    identifier: str | None
    priority: int
    event: str | None
    timestamp: int | None
    alert: str | None
    state: str | None
    effect: str | None
    command: Command | None = None
    """The command that the push belongs to; None if unknown."""

    @property
    def has_reached_phone(self):
        """Whether a phone got the push, even if the response was lost."""
        return self.effect is not None


class Evidence:
    """Commands, results and pushes of a run. The commands' ids and `apns-id` connect them."""

    def __init__(self, directory):
        """Reads the files, which `check.py` lists."""
        names = ("commands.jsonl", "results.jsonl", "pushes.jsonl", "policy.json")
        commands, results, pushes, policy = (os.path.join(directory, name) for name in names)
        self.policy = Policy.read(policy)
        self.commands = {}
        self.commands_of = {}
        for number, value in read_objects(commands):
            try:
                command = Command(
                    value["command"], value["activity"], value["event"], value["time"], value["alert"], value["state"]
                )
            except KeyError as missing:
                raise UnreadableFileError(f"{commands}:{number}: no {missing}") from None
            if command.identifier in self.commands:
                raise UnreadableFileError(f"{commands}:{number}: the id {command.identifier} is there twice")
            own = self.commands_of.setdefault(command.activity, [])
            command.order = len(own)
            own.append(command)
            self.commands[command.identifier] = command
        self.foreign_results = []
        self.counted_superseded = {}
        """The number of commands that the results of an activity count besides their own, by activity."""
        self.result_count = 0
        commands_by_apns_id = {}
        self.accepted_results = []
        self.unanswered_identifiers = set()
        """The apns-ids of pushes for which a result says that APNs' response was lost."""
        for number, value in read_objects(results):
            self.result_count += 1
            command = self.commands.get(value.get("command"))
            if command is None:
                self.foreign_results.append(f"line {number}: {value.get('command')}")
                continue
            command.outcomes.append(value)
            self.counted_superseded[command.activity] = self.counted_superseded.get(command.activity, 0) + value.get("superseded", 0)
            if value.get("outcome") == "accepted":
                self.accepted_results.append((command, value))
                commands_by_apns_id.setdefault(value.get("apnsId"), command)
            elif value.get("reason") == "noResponse":
                self.unanswered_identifiers.add(value.get("apnsId"))
        self.pushes = []
        for number, value in read_objects(pushes):
            try:
                push = Push(
                    number, value["time"], value["status"], value.get("activity"), value["token"], value.get("apnsId"),
                    value["priority"], value["event"], value["timestamp"], value["alert"], value["state"],
                    value.get("effect"),
                )
            except KeyError as missing:
                raise UnreadableFileError(f"{pushes}:{number}: no {missing}") from None
            push.command = commands_by_apns_id.get(push.identifier) if push.status == 200 else None
            self.pushes.append(push)
        # Several threads of the simulator write to the log in turn, so its lines are not in order of time.
        # The sort is stable: lines of one thread with the same time keep their order.
        self.pushes.sort(key=lambda push: push.time)
        self.pushes_of = {}
        for push in self.pushes:
            if push.activity is not None:
                self.pushes_of.setdefault(push.activity, []).append(push)
        self._find_commands()

    def _find_commands(self):
        """Finds the commands of pushes that have no accepted result, because the worker died or the response was lost.
        Their activity, event and content show the command."""
        for activity, pushes in self.pushes_of.items():
            first_order = 0
            for push in pushes:
                if push.command is None and push.has_reached_phone:
                    push.command = self._find_command(push, activity, first_order)
                if push.command is not None and push.has_reached_phone:
                    first_order = max(first_order, push.command.order)

    def _find_command(self, push, activity, first_order):
        """Returns the activity's first command, from this order on, that the push can belong to; None if there is none."""
        for command in self.commands_of.get(activity, [])[first_order:]:
            if command.state == push.state and command.event == push.event and command.time <= push.time:
                return command
        return None

    def pushes_that_reached(self, activity):
        """Returns the pushes that an activity's phone got, in order."""
        return [push for push in self.pushes_of.get(activity, []) if push.has_reached_phone]

"""The load: phones with activities, their registrations, and updates and ends with increasing sequences. An independent
Kafka client writes the records."""

import json
import threading
import time

from fleet.deployment import APP, COMMANDS, REGISTRATIONS
from fleet.topics import TopicWriter
from processes import Failure

TICK_SECONDS = 0.25
ALERT_EVERY = 10
"""Every tenth update of an activity has an alert."""
END_EVERY = 10
"""Every tenth activity ends with its last command."""
REGISTRATIONS_PER_PAGE = 5_000


def digest(data):
    """Returns the 64-bit FNV-1a digest, which the simulator's log also has."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def is_of_load(identifier):
    """Whether a command belongs to the load: its id has a number and an activity. An `invalid` record has its
    position in the topic as its id."""
    return "/" in identifier


class Load(threading.Thread):
    """Writes updates to all activities in turn at an even rate until it is stopped. Then it writes each
    activity's last state."""

    def __init__(self, deployment, activity_count, commands_per_second):
        super().__init__(name="load", daemon=True)
        self.deployment = deployment
        self.activities = [f"ride-{number}" for number in range(activity_count)]
        self.commands_per_second = commands_per_second
        self.sent_count = 0
        self.last_states = {}
        """The state that each phone must show at the end, by activity. Ended activities are missing."""
        self.tokens = []
        """All tokens that phones have registered."""
        self.error = None
        self._last_numbers = [0] * activity_count
        self._next_index = 0
        self._stop_event = threading.Event()
        self._commands_file = open(deployment.path("commands.jsonl"), "w", encoding="utf-8")
        self._writer = TopicWriter(
            deployment, {"client.id": "load", "linger.ms": 100, "enable.idempotence": True, "compression.type": "lz4"}
        )

    def make_phones(self):
        devices = [f"phone-{number}" for number in range(len(self.activities))]
        self.deployment.call_simulator("POST", "/phones", {"app": APP, "devices": devices, "frequentUpdates": True})
        state = json.loads(self._state("", 0))
        attributes = {"riderName": "Ana", "pickupLocation": "Museum Gate", "dropoffLocation": "North Station"}
        self.deployment.call_simulator(
            "POST",
            "/activities",
            {
                "app": APP, "attributesType": "RideAttributes", "attributes": attributes, "contentState": state,
                "activities": [{"activity": a, "device": d} for a, d in zip(self.activities, devices)],
            },
        )
        cursor, registered_count = 0, 0
        while registered_count < len(self.activities):
            page = self.deployment.call_simulator(
                "GET", f"/registrations?since={cursor}&limit={REGISTRATIONS_PER_PAGE}&waitMilliseconds=1000"
            )
            if page["next"] == cursor:
                raise Failure(f"{registered_count} of {len(self.activities)} phones have registered")
            for record in page["registrations"]:
                self._writer.write(REGISTRATIONS, record["key"], json.dumps(record["value"]))
                registered_count += "activity" in record["value"]
                self.tokens.append(record["value"]["token"])
            cursor = page["next"]
        self._writer.flush()

    @staticmethod
    def _state(activity, number):
        return json.dumps(
            {
                "driverName": "Maria", "driverPhoto": "person.crop.circle", "vehicleDescription": f"White Prius, {activity}",
                "eta": [811693220 + number, 811693340 + number], "status": "driverEnRoute",
                "distanceRemaining": number + 0.5,
            },
            separators=(",", ":"),
        )

    def _write_command(self, index, event):
        activity = self.activities[index]
        self._last_numbers[index] += 1
        number = self._last_numbers[index]
        now = time.time()
        state = self._state(activity, number)
        identifier = f"{number}/{activity}"
        alert = f"Stop {number}" if number % ALERT_EVERY == index % ALERT_EVERY and event == "update" else None
        alert_json = "" if alert is None else f',"alert":{{"title":"{alert}","body":"Maria is near"}}'
        stale_at_seconds = int(now) + 3_600
        value = (
            f'{{"id":"{identifier}","app":"{APP}","activity":"{activity}","sequence":{number},"aps":{{"timestamp":{int(now)},'
            f'"event":"{event}","content-state":{state},"stale-date":{stale_at_seconds}{alert_json}}}}}'
        )
        self._writer.write(COMMANDS, activity, value)
        entry = {
            "command": identifier, "activity": activity, "event": event, "time": int(now * 1_000), "alert": alert,
            "state": digest(state.encode()),
        }
        self._commands_file.write(json.dumps(entry) + "\n")
        self.last_states[activity] = json.loads(state)
        if event == "end":
            del self.last_states[activity]
        self.sent_count += 1

    def run(self):
        try:
            due_seconds = time.monotonic()
            while not self._stop_event.is_set():
                for _ in range(int(self.commands_per_second * TICK_SECONDS)):
                    self._write_command(self._next_index, "update")
                    self._next_index = (self._next_index + 1) % len(self.activities)
                self._writer.poll_deliveries()
                due_seconds = max(due_seconds + TICK_SECONDS, time.monotonic() - 1)
                self._stop_event.wait(max(0, due_seconds - time.monotonic()))
        except Exception as error:
            self.error = error

    def finish(self):
        """Stops the updates and writes each activity's last command, for some activities an end. Waits until
        the broker has all commands."""
        self._stop_event.set()
        self.join()
        if self.error is not None:
            raise self.error
        for index in range(len(self.activities)):
            self._write_command(index, "end" if index % END_EVERY == 0 else "update")
        self._writer.flush()
        self._commands_file.close()

    def cancel(self):
        """Ends the thread without writing last commands. Does nothing if the load has not started or has finished."""
        self._stop_event.set()
        if self.ident is not None:
            self.join()

"""The load: phones with activities, their registrations, and updates and ends with increasing sequences. An independent
Kafka client writes the records."""

import json
import threading
import time

from fleet.deployment import APP, COMMANDS, REGISTRATIONS
from fleet.topics import TopicWriter
from processes import Failure

TURN_SECONDS = 0.25
ALERT_EVERY = 10
END_EVERY = 10
REGISTRATIONS_PAGE = 5_000


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

    def __init__(self, deployment, activities, rate):
        super().__init__(name="load", daemon=True)
        self.deployment = deployment
        self.activities = [f"ride-{number}" for number in range(activities)]
        self.rate = rate
        self.sent = 0
        self.last_states = {}
        """The state that each phone must show at the end, by activity. Ended activities are missing."""
        self.tokens = []
        """All tokens that phones have registered."""
        self.error = None
        self._last_numbers = [0] * activities
        self._next = 0
        self._over = threading.Event()
        self._journal = open(deployment.path("commands.jsonl"), "w", encoding="utf-8")
        self._writer = TopicWriter(
            deployment, {"client.id": "load", "linger.ms": 100, "enable.idempotence": True, "compression.type": "lz4"}
        )

    def make_phones(self):
        devices = [f"phone-{number}" for number in range(len(self.activities))]
        self.deployment.control("POST", "/phones", {"app": APP, "devices": devices, "frequentUpdates": True})
        state = json.loads(self._state("", 0))
        attributes = {"riderName": "Ana", "pickupLocation": "Museum Gate", "dropoffLocation": "North Station"}
        self.deployment.control(
            "POST",
            "/activities",
            {
                "app": APP, "attributesType": "RideAttributes", "attributes": attributes, "contentState": state,
                "activities": [{"activity": a, "device": d} for a, d in zip(self.activities, devices)],
            },
        )
        cursor, registered = 0, 0
        while registered < len(self.activities):
            page = self.deployment.control(
                "GET", f"/registrations?since={cursor}&limit={REGISTRATIONS_PAGE}&waitMilliseconds=1000"
            )
            if page["next"] == cursor:
                raise Failure(f"{registered} of {len(self.activities)} phones have registered")
            for record in page["registrations"]:
                self._writer.write(REGISTRATIONS, record["key"], json.dumps(record["value"]))
                registered += "activity" in record["value"]
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

    def _command(self, index, event):
        activity = self.activities[index]
        self._last_numbers[index] += 1
        number = self._last_numbers[index]
        now = time.time()
        state = self._state(activity, number)
        identifier = f"{number}/{activity}"
        alert = f"Stop {number}" if number % ALERT_EVERY == index % ALERT_EVERY and event == "update" else None
        ring = "" if alert is None else f',"alert":{{"title":"{alert}","body":"Maria is near"}}'
        stale = int(now) + 3_600
        value = (
            f'{{"id":"{identifier}","app":"{APP}","activity":"{activity}","sequence":{number},"aps":{{"timestamp":{int(now)},'
            f'"event":"{event}","content-state":{state},"stale-date":{stale}{ring}}}}}'
        )
        self._writer.write(COMMANDS, activity, value)
        entry = {
            "command": identifier, "activity": activity, "event": event, "time": int(now * 1_000), "alert": alert,
            "state": digest(state.encode()),
        }
        self._journal.write(json.dumps(entry) + "\n")
        self.last_states[activity] = json.loads(state)
        if event == "end":
            del self.last_states[activity]
        self.sent += 1

    def run(self):
        try:
            due = time.monotonic()
            while not self._over.is_set():
                for _ in range(int(self.rate * TURN_SECONDS)):
                    self._command(self._next, "update")
                    self._next = (self._next + 1) % len(self.activities)
                self._writer.take_answers()
                due = max(due + TURN_SECONDS, time.monotonic() - 1)
                self._over.wait(max(0, due - time.monotonic()))
        except Exception as error:
            self.error = error

    def finish(self):
        """Stops the updates and writes each activity's last command, for some activities an end. Waits until
        the broker has all commands."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error
        for index in range(len(self.activities)):
            self._command(index, "end" if index % END_EVERY == 0 else "update")
        self._writer.flush()
        self._journal.close()

    def abandon(self):
        """Ends the thread without writing last commands. Does nothing if the load has not started or has finished."""
        self._over.set()
        if self.ident is not None:
            self.join()

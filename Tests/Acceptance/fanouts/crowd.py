"""The audience: phones that the simulator stores in compact form, their registrations, and the commands to them. An
independent Kafka client writes the records. This module also writes the files that the judge reads."""

import json

from confluent_kafka import Consumer, TopicPartition

from fanouts.deployment import INVALIDATIONS, now
from fleet.deployment import APP, COMMANDS, GROUP, PARTITIONS, REGISTRATIONS, RESULTS
from fleet.load import digest
from fleet.topics import TopicReader, TopicWriter
from processes import Failure, wait_until

AUDIENCE = "final"
NAME = "fan-"
FREQUENT_EVERY = 4
PAGE = 20_000
ACKNOWLEDGED_SECONDS = 60
SHOWN_SECONDS = 3_600
"""The age in seconds of the state that the phones show at the beginning."""


class Crowd:
    """An audience with `count` members at the beginning and `joiner_count` phones that join later."""

    def __init__(self, deployment, count, joiner_count=0):
        self.deployment, self.count, self.phones = deployment, count, count + joiner_count
        self.commands = []
        self.tokens = []
        self._members = {}
        self._retired = []
        self._incidents = []
        self._writer = TopicWriter(deployment, {"linger.ms": 5})
        self._group = Consumer({"bootstrap.servers": deployment.bootstrap, "group.id": GROUP, "log_level": 0})
        shown = {
            "app": APP, "name": NAME, "count": self.phones, "audiences": [AUDIENCE], "environment": "sandbox",
            "frequentEvery": FREQUENT_EVERY, "identifiers": "uuid", "timestamp": now() // 1_000 - SHOWN_SECONDS,
        }
        deployment.control("POST", "/crowds", shown)
        self._names = [record["key"] for record in self._records(0, self.phones)]

    def close(self):
        self._group.close()

    # Members

    def _records(self, first, count):
        """Returns the present registration records of `count` phones, from number `first` on."""
        records = []
        while len(records) < count:
            page = self.deployment.control(
                "GET", f"/crowd/registrations?app={APP}&name={NAME}&from={first + len(records)}&limit={min(PAGE, count - len(records))}"
            )
            if not page["registrations"]:
                raise Failure(f"{len(records)} of {count} phones have a registration")
            records += page["registrations"]
        return records

    def register(self, first, count, audiences=(AUDIENCE,)):
        """Writes registrations of these phones, and waits until the group has committed them. Returns the
        present time."""
        for record in self._records(first, count):
            value = record["value"] | {"audiences": list(audiences)}
            self.tokens.append(value["token"])
            self._writer.write(REGISTRATIONS, record["key"], json.dumps(value))
        self._writer.flush()
        return self.acknowledged()

    def join(self, first=0, count=None):
        count = self.count if count is None else count
        joined = self.register(first, count)
        for name in self._names[first : first + count]:
            self._members[name] = {"activity": name} | ({"joined": joined} if self.commands else {})

    def leave(self, first, count):
        """Lets these phones leave: half by a registration without audiences, half by a tombstone."""
        for name in self._names[first : first + count // 2]:
            self._writer.write(REGISTRATIONS, name, None)
        left = self.register(first + count // 2, count - count // 2, ())
        for name in self._names[first : first + count]:
            self._members[name]["left"] = left

    def rotate(self, first, count):
        """Gives these phones other tokens, and registers them."""
        old = [digest(bytes.fromhex(record["value"]["token"])) for record in self._records(first, count)]
        for name in self._names[first : first + count]:
            self._members[name]["renewed"] = now()
        self.deployment.control("POST", "/crowd/rotate", {"app": APP, "name": NAME, "from": first, "count": count})
        time = self.register(first, count)
        self._retired += [{"token": token, "time": time} for token in old]

    def die(self, first, count):
        """Ends the activities on these phones, so that pushes to their tokens get 410."""
        self.deployment.control("POST", "/crowd/dismiss", {"app": APP, "name": NAME, "from": first, "count": count})
        for name in self._names[first : first + count]:
            self._members[name]["dead"] = True

    def acknowledged(self):
        """Waits until the group has committed all registrations. Returns the present time."""
        places = [TopicPartition(REGISTRATIONS, number) for number in range(PARTITIONS)]

        def is_settled():
            committed = {(place.topic, place.partition): place.offset for place in self._group.committed(places, 10)}
            ends = self._writer.ends
            return all(committed[place] >= ends[place] for place in committed.keys() & ends.keys())

        wait_until(is_settled, ACKNOWLEDGED_SECONDS, "registrations are settled")
        return now()

    # Commands

    def command(self, alert=None, timestamp=None):
        number = len(self.commands) + 1
        last = self.commands[-1]["timestamp"] if self.commands else 0
        timestamp = max(last + 1, now() // 1_000) if timestamp is None else timestamp
        state = json.dumps({"home": number, "away": 0, "minute": number}, separators=(",", ":"))
        ring = "" if alert is None else f',"alert":{{"title":"{alert}","body":"2 to 1","sound":"default"}}'
        command = {
            "command": f"goal-{number}", "time": now(), "timestamp": timestamp, "alert": alert, "state": digest(state.encode()),
            "content": json.loads(state),
        }
        value = (
            f'{{"id":"goal-{number}","app":"{APP}","audience":"{AUDIENCE}","sequence":{number},"priority":10,"aps":'
            f'{{"event":"update","timestamp":{timestamp},"content-state":{state}{ring}}}}}'
        )
        self.commands.append(command)
        self._writer.write(COMMANDS, AUDIENCE, value)
        self._writer.flush()
        return command

    def shown(self, command):
        """Returns the number of phones that show this command's state."""
        return sum(one["phones"] for one in self.report()["shown"] if one["contentState"] == command["content"])

    def report(self):
        return self.deployment.control("GET", f"/crowd?app={APP}&name={NAME}")

    def incident(self, what):
        self._incidents.append({"time": now(), "what": what})

    def write(self):
        """Writes the judge's files that come neither from topics nor from the simulator's log."""
        for name, values in (
            ("commands", self.commands), ("members", self._members.values()), ("incidents", self._incidents), ("retired", self._retired)
        ):
            with open(self.deployment.path(f"{name}.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(value) + "\n" for value in values)
        with open(self.deployment.path("crowd.json"), "w", encoding="utf-8") as file:
            json.dump(self.report(), file)


class Outcomes(TopicReader):
    """Copies the topics of results and invalidations to files, and records which commands have a result over all
    members."""

    def __init__(self, deployment):
        results = [(RESULTS, number) for number in range(PARTITIONS)]
        super().__init__("outcomes", deployment, [*results, (INVALIDATIONS, 0)])
        self.last_at = now()
        self.final = {}
        """The last outcome over all members of each command, by command."""
        self._results = open(deployment.path("results.jsonl"), "wb")
        self._invalidations = open(deployment.path("invalidations.jsonl"), "w", encoding="utf-8")

    def take(self, message):
        self.last_at = now()
        value = json.loads(message.value())
        if message.topic() == INVALIDATIONS:
            line = {"activity": value["activity"], "time": message.timestamp()[1]}  # without the token, which is a secret
            self._invalidations.write(json.dumps(line) + "\n")
            return
        self._results.write(message.value() + b"\n")
        if "segments" not in value and "activity" not in value:
            self.final[value["command"]] = value["outcome"]

    def finish(self):
        super().finish()
        self._results.close()
        self._invalidations.close()

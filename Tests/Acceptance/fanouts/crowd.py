"""The audience: phones that the simulator stores in compact form, their registrations, and the commands to them. An
independent Kafka client writes the records. This module also writes the files that `check.py` reads."""

import json

from confluent_kafka import Consumer, TopicPartition

from fanouts.deployment import INVALIDATIONS, now_milliseconds
from fleet.deployment import APP, COMMANDS, GROUP, PARTITIONS, REGISTRATIONS, RESULTS
from fleet.load import digest
from fleet.topics import TopicReader, TopicWriter
from processes import Failure, wait_until

AUDIENCE = "final"
NAME_PREFIX = "fan-"
FREQUENT_EVERY_NTH_PHONE = 4
"""Every fourth phone permits frequent pushes."""
PAGE_SIZE = 20_000
COMMIT_SECONDS = 60
SHOWN_STATE_AGE_SECONDS = 3_600
"""The age in seconds of the state that the phones show at the beginning."""


class Crowd:
    """An audience with `member_count` members at the beginning and `joiner_count` phones that join later."""

    def __init__(self, deployment, member_count, joiner_count=0):
        self.deployment, self.member_count, self.phone_count = deployment, member_count, member_count + joiner_count
        self.commands = []
        self.tokens = []
        self._members = {}
        self._retired_tokens = []
        self._incidents = []
        self._writer = TopicWriter(deployment, {"linger.ms": 5})
        self._offset_consumer = Consumer({"bootstrap.servers": deployment.bootstrap_servers, "group.id": GROUP, "log_level": 0})
        crowd_settings = {
            "app": APP, "name": NAME_PREFIX, "count": self.phone_count, "audiences": [AUDIENCE], "environment": "sandbox",
            "frequentEvery": FREQUENT_EVERY_NTH_PHONE, "identifiers": "uuid",
            "timestamp": now_milliseconds() // 1_000 - SHOWN_STATE_AGE_SECONDS,
        }
        deployment.call_simulator("POST", "/crowds", crowd_settings)
        self._activities = [record["key"] for record in self._registrations(0, self.phone_count)]

    def close(self):
        self._offset_consumer.close()

    # Members

    def _registrations(self, first, count):
        """Returns the present registration records of `count` phones, from number `first` on."""
        records = []
        while len(records) < count:
            start, limit = first + len(records), min(PAGE_SIZE, count - len(records))
            page = self.deployment.call_simulator(
                "GET", f"/crowd/registrations?app={APP}&name={NAME_PREFIX}&from={start}&limit={limit}"
            )
            if not page["registrations"]:
                raise Failure(f"{len(records)} of {count} phones have a registration")
            records += page["registrations"]
        return records

    def register(self, first, count, audiences=(AUDIENCE,)):
        """Writes registrations of these phones, and waits until the group has committed them. Returns the time after
        that, in UNIX milliseconds."""
        for record in self._registrations(first, count):
            value = record["value"] | {"audiences": list(audiences)}
            self.tokens.append(value["token"])
            self._writer.write(REGISTRATIONS, record["key"], json.dumps(value))
        self._writer.flush()
        return self.await_commits()

    def join(self, first=0, count=None):
        count = self.member_count if count is None else count
        joined = self.register(first, count)
        for name in self._activities[first : first + count]:
            self._members[name] = {"activity": name} | ({"joined": joined} if self.commands else {})

    def leave(self, first, count):
        """Lets these phones leave: half by a registration without audiences, half by a tombstone."""
        for name in self._activities[first : first + count // 2]:
            self._writer.write(REGISTRATIONS, name, None)
        left = self.register(first + count // 2, count - count // 2, ())
        for name in self._activities[first : first + count]:
            self._members[name]["left"] = left

    def rotate_tokens(self, first, count):
        """Gives these phones other tokens, and registers them."""
        retired_digests = [digest(bytes.fromhex(record["value"]["token"])) for record in self._registrations(first, count)]
        for name in self._activities[first : first + count]:
            self._members[name]["renewed"] = now_milliseconds()
        self.deployment.call_simulator("POST", "/crowd/rotate", {"app": APP, "name": NAME_PREFIX, "from": first, "count": count})
        time = self.register(first, count)
        self._retired_tokens += [{"token": token, "time": time} for token in retired_digests]

    def dismiss(self, first, count):
        """Ends the activities on these phones, so that pushes to their tokens get 410."""
        self.deployment.call_simulator("POST", "/crowd/dismiss", {"app": APP, "name": NAME_PREFIX, "from": first, "count": count})
        for name in self._activities[first : first + count]:
            self._members[name]["dead"] = True

    def await_commits(self):
        """Waits until the group has committed all registrations. Returns the time after that, in UNIX milliseconds."""
        partitions = [TopicPartition(REGISTRATIONS, number) for number in range(PARTITIONS)]

        def is_settled():
            committed = self._offset_consumer.committed(partitions, 10)
            offsets = {(partition.topic, partition.partition): partition.offset for partition in committed}
            end_offsets = self._writer.end_offsets
            return all(offsets[key] >= end_offsets[key] for key in offsets.keys() & end_offsets.keys())

        wait_until(is_settled, COMMIT_SECONDS, "registrations are settled")
        return now_milliseconds()

    # Commands

    def send_command(self, alert=None, timestamp=None):
        number = len(self.commands) + 1
        last_timestamp = self.commands[-1]["timestamp"] if self.commands else 0
        timestamp = max(last_timestamp + 1, now_milliseconds() // 1_000) if timestamp is None else timestamp
        state = json.dumps({"home": number, "away": 0, "minute": number}, separators=(",", ":"))
        alert_json = "" if alert is None else f',"alert":{{"title":"{alert}","body":"2 to 1","sound":"default"}}'
        command = {
            "command": f"goal-{number}", "time": now_milliseconds(), "timestamp": timestamp, "alert": alert,
            "state": digest(state.encode()), "content": json.loads(state),
        }
        value = (
            f'{{"id":"goal-{number}","app":"{APP}","audience":"{AUDIENCE}","sequence":{number},"priority":10,"aps":'
            f'{{"event":"update","timestamp":{timestamp},"content-state":{state}{alert_json}}}}}'
        )
        self.commands.append(command)
        self._writer.write(COMMANDS, AUDIENCE, value)
        self._writer.flush()
        return command

    def count_showing(self, command):
        """Returns the number of phones that show this command's state."""
        return sum(one["phones"] for one in self.fetch_report()["shown"] if one["contentState"] == command["content"])

    def fetch_report(self):
        return self.deployment.call_simulator("GET", f"/crowd?app={APP}&name={NAME_PREFIX}")

    def record_incident(self, what):
        self._incidents.append({"time": now_milliseconds(), "what": what})

    def write_files(self):
        """Writes the files of `check.py` that come neither from topics nor from the simulator's log."""
        for name, values in (
            ("commands", self.commands), ("members", self._members.values()), ("incidents", self._incidents),
            ("retired", self._retired_tokens),
        ):
            with open(self.deployment.path(f"{name}.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(value) + "\n" for value in values)
        with open(self.deployment.path("crowd.json"), "w", encoding="utf-8") as file:
            json.dump(self.fetch_report(), file)


class OutcomeReader(TopicReader):
    """Copies the topics of results and invalidations to files, and records which commands have a result over all
    members."""

    def __init__(self, deployment):
        results = [(RESULTS, number) for number in range(PARTITIONS)]
        super().__init__("outcomes", deployment, [*results, (INVALIDATIONS, 0)])
        self.last_record_milliseconds = now_milliseconds()
        self.final_outcomes = {}
        """The last outcome over all members of each command, by command."""
        self._results_file = open(deployment.path("results.jsonl"), "wb")
        self._invalidations_file = open(deployment.path("invalidations.jsonl"), "w", encoding="utf-8")

    def handle(self, message):
        self.last_record_milliseconds = now_milliseconds()
        value = json.loads(message.value())
        if message.topic() == INVALIDATIONS:
            line = {"activity": value["activity"], "time": message.timestamp()[1]}  # without the token, which is a secret
            self._invalidations_file.write(json.dumps(line) + "\n")
            return
        self._results_file.write(message.value() + b"\n")
        if "segments" not in value and "activity" not in value:
            self.final_outcomes[value["command"]] = value["outcome"]

    def finish(self):
        super().finish()
        self._results_file.close()
        self._invalidations_file.close()

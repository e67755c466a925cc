#!/usr/bin/env python3
"""Registers a phone's activity and sends it a goal.

    goal.py --print               prints the records: topic, key and value in each line
    goal.py BOOTSTRAP_SERVERS     writes the records to Kafka (pip install confluent-kafka)
"""
import json
import sys
import time

APP = "com.example.match"
SECONDS_FROM_1970_TO_2001 = 978_307_200


def swift_date(unix_seconds):
    """A Date in Swift. The app's JSONDecoder reads it as seconds since 2001. Apple's own keys in `aps` are UNIX seconds."""
    return unix_seconds - SECONDS_FROM_1970_TO_2001


def registration(activity, token, now):
    """The record that the app's server writes when the app reports a token."""
    return {
        "app": APP,
        "activity": activity,
        "token": token,
        "environment": "production",
        "registeredAt": now * 1000,
        "frequentUpdates": True,
    }


def goal(activity, now, home, away):
    """The command with the new state and an alert."""
    return {
        "app": APP,
        "activity": activity,
        "id": f"goal-{home}-{away}",
        "aps": {
            "event": "update",
            "timestamp": now,
            "stale-date": now + 600,
            "content-state": {"home": home, "away": away, "kickOff": swift_date(now - 1020)},
            "alert": {"title": "Goal for Rovers", "body": f"{home}:{away}", "sound": "default"},
        },
    }


def value(record):
    """Returns the same bytes for equal records, so that Causeway notices an unchanged state."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def records(now):
    activity = "final-phone-21"
    yield "causeway.registrations", activity, value(registration(activity, "5c1e0a77b2d4f839", now))
    yield "causeway.commands", activity, value(goal(activity, now, 1, 0))


def main():
    if sys.argv[1:] == ["--print"]:
        for record in records(1790000000):
            print(*record, sep="\t")
        return
    from confluent_kafka import Producer

    failures = []
    # All producers of a topic need the same partitioner.
    producer = Producer(
        {"bootstrap.servers": sys.argv[1], "enable.idempotence": True, "partitioner": "murmur2_random"}
    )
    for topic, key, text in records(int(time.time())):
        producer.produce(topic, text, key, on_delivery=lambda error, _: error and failures.append(error))
    waiting = producer.flush(30)
    if failures or waiting:
        sys.exit(f"not written: {failures or waiting}")


main()

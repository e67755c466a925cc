"""Compares the committed schemas, which another library reads, with the program."""
import json
import random
import re
import unittest

import asyncapi3
import jsonschema
import yaml

from records import record_checks, repository

COMMAND_COUNT = 10_000
REGISTRATION_COUNT = 5_000

JSON_FRAGMENTS = [
    piece.encode()
    for piece in (
        "null", "true", "false", "0", "-0", "1", "-1", "5", "10", "01", "1.", "1.5", "1.0", "1e5", "1790000000", "1790000000.0",
        "18446744073709551615", "18446744073709551616", '""', '"a"', '"a b"', "{}", "[]", "{", "}", "[", "]", ",", ":", '"', "\\", " ",
        "\\u0000", "\\u0061", "\\ud800", "\\n", "é", "😀", "\x7f", "\x85", '"start"', '"update"', '"end"', '"device":"d",',
        '"activity":"a",', '"audience":"a",', '"alert":{"title":"t","body":"b"},', '"attributes":{},', '"attributes-type":"T",',
        '"content-state":{},', '"dismissal-date":0,', '"input-push-token":1,', '"channel":true,', '"channel":"AAAA",',
        '"shows":1790000000,',
        '"token":"00ff00ff",', '"environment":"sandbox",', '"loc-key":"k",', '"x":1,', '"sequence":7,', '"priority":5,',
        '"payload":{"aps":1},', '"audiences":["a"],', '"channels":true,', '"frequentUpdates":true,', '"attributesType":"T",',
    )
] + [b"\x80", b"\xc2", b"\xff"]

# Differences between schema and program that Documentation/records.md names. The first is recognized by the record's
# text, the others by the program's message.
UNUSUAL_INTEGER = re.compile(rb"[:\[,]\s*(-0|-?\d+\.\d+|-?\d+(\.\d+)?[eE][+-]?\d+)\s*[,\]}]")
DOCUMENTED_DIFFERENCES = re.compile(
    "half of a surrogate pair|seconds in the future|nested objects and arrays|unknown keys$|the request body has"
    "|the record has .* bytes|a string has .* bytes"
)


def mutated_records(seeds, count, seed):
    """Yields records, most of which differ a little from valid ones. Each is one line that begins with a brace."""
    random_source = random.Random(seed)
    while count:
        text = bytearray(random_source.choice(seeds))
        if random_source.random() < 0.5:
            text[:] = with_other_keys(text, seeds, random_source)
        for _ in range(random_source.randint(0, 2)):
            mutate_bytes(text, seeds, random_source)
        if text.startswith(b"{") and not re.search(rb"[\n\r]", text):
            count -= 1
            yield bytes(text)


def with_other_keys(text, seeds, random_source):
    """Returns the record without some keys of its objects, or with keys of other records' objects."""
    record, other_record = json.loads(text), json.loads(random_source.choice(seeds))
    for _ in range(random_source.randint(1, 3)):
        mine, theirs = record, other_record
        while mine.get("aps") and random_source.random() < 0.6:
            mine, theirs = mine["aps"], theirs.get("aps", theirs)
            if isinstance(mine.get("alert"), dict) and random_source.random() < 0.2:
                mine, theirs = mine["alert"], theirs.get("alert", theirs)
        key = random_source.choice(list({**mine, **theirs}) or ["x"])
        if random_source.random() < 0.4 or key not in theirs:
            mine.pop(key, None)
        else:
            mine[key] = theirs[key]
    return json.dumps(record).encode()


def mutate_bytes(text, seeds, random_source):
    start = random_source.randrange(len(text) + 1)
    end = min(len(text), start + random_source.randrange(13))
    kind = random_source.randrange(7)
    if kind == 0:
        del text[start:end]
    elif kind == 1:
        where = random_source.randrange(len(text) + 1)
        text[where:where] = text[start:end]
    elif kind == 2 and start < len(text):
        text[start] ^= 1 << random_source.randrange(8)
    elif kind == 3:
        text[start:] = random_source.choice(seeds)[start:]
    elif kind in (4, 5):
        values = [match.span(1) for match in re.finditer(rb":([^,}]*)", text)]
        if values:
            first, last = random_source.choice(values)
            text[first:last] = random_source.choice(JSON_FRAGMENTS)
    else:
        text[start:start] = random_source.choice(JSON_FRAGMENTS)


def parse_record(line):
    """Returns a record's value as a producer's parser reads it, and whether an object has a key twice."""
    objects_with_repeated_keys = []

    def members(pairs):
        value = dict(pairs)
        if len(value) < len(pairs):
            objects_with_repeated_keys.append(value)
        return value

    return json.loads(line.decode("utf-8"), parse_constant=reject_constant, object_pairs_hook=members), bool(objects_with_repeated_keys)


def reject_constant(constant):
    raise ValueError(constant)


class SchemaTests(unittest.TestCase):
    def compare(self, name, kind, seeds, count):
        validator = record_checks.validator(name)
        lines = list(mutated_records(seeds, count, seed=7))
        faults = record_checks.faults(kind, lines)
        accepted_count, named_difference_count = 0, 0
        for index, line in enumerate(lines):
            has_repeated_key = False
            try:
                value, has_repeated_key = parse_record(line)
                is_valid = validator.is_valid(value)
            except (ValueError, RecursionError) as error:
                # The line goes on after its JSON value. The program reads the rest as another record, so the two
                # verdicts cannot be compared.
                if "Extra data" in str(error):
                    continue
                is_valid = False
            fault = faults.get(index)
            accepted_count += fault is None
            if is_valid == (fault is None):
                continue
            is_explained = is_valid and (
                has_repeated_key
                or DOCUMENTED_DIFFERENCES.search(fault)
                or "must be" in fault and (UNUSUAL_INTEGER.search(line) or b"\\" in line)
                or "bytes" in fault and re.search(rb"[\x80-\xff]|\\u", line)
            )
            self.assertTrue(is_explained, f"the schema says {is_valid}, the program {fault}: {line}")
            named_difference_count += 1
        self.assertGreater(accepted_count, count // 20)
        print(f"{count} records, {accepted_count} accepted by the program, {named_difference_count} named differences", end=" ", flush=True)

    def seeds(self, name):
        files = sorted((repository.root / "Config/examples").glob(f"*/{name}.jsonl"))
        return [line for file in files for line in file.read_bytes().splitlines() if line.startswith(b"{")][:200]

    def test_schema_and_program_agree_on_mutated_commands(self):
        full = {
            "app": "com.example.match", "activity": "a", "id": "feed/7", "sequence": 42, "priority": 10, "expiration": 1790000900,
            "token": "00fc13adff785122", "environment": "sandbox", "policy": "slow-1", "payload": {"match": "m1", "live": True},
            "aps": {
                "timestamp": 1790000000, "event": "update", "content-state": {"home": 2}, "stale-date": 1790000600, "relevance-score": 80,
                "alert": {"title": {"loc-key": "GOAL", "loc-args": ["a"]}, "body": "2:1", "sound": "default"},
            },
        }
        own = {key: full[key] for key in ("app", "id", "environment", "aps")} | {"channel": "dHN0LXNyY2gtY2hubA=="}
        seeds = self.seeds("commands") + [json.dumps(record).encode() for record in (full, own)] * 20
        self.compare("command", "commands", seeds, COMMAND_COUNT)

    def test_schema_and_program_agree_on_mutated_registrations(self):
        full = {
            "app": "com.example.match", "environment": "production", "registeredAt": 1790000000123, "activity": "m1:7f",
            "token": "00fc13adff785122", "audiences": ["m1", "world-cup"], "frequentUpdates": True,
            "shows": {"timestamp": 1790000000, "sequence": 7},
        }
        device = {
            "app": "com.example.match", "environment": "sandbox", "registeredAt": 1790000000123, "device": "7f",
            "attributesType": "MatchAttributes", "token": "00fc13adff785122", "channels": True,
        }
        seeds = self.seeds("registrations") + [json.dumps(record).encode() for record in (full, device)] * 20
        self.compare("registration", "registrations", seeds, REGISTRATION_COUNT)

    def test_every_schema_is_valid(self):
        for name in ("command", "registration", "result", "invalidation", "channel"):
            record_checks.validator(name)

    def test_the_schemas_accept_the_example_records(self):
        for name in ("command", "registration"):
            validator = record_checks.validator(name)
            for line in self.seeds(name + "s"):
                validator.validate(json.loads(line))

    def test_the_asyncapi_document_is_valid_and_names_existing_schemas(self):
        document = yaml.safe_load((repository.root / "Config/asyncapi.yaml").read_text())
        asyncapi3.AsyncAPI3.model_validate(document)
        addresses = {channel["address"] for channel in document["channels"].values()}
        self.assertEqual(len(addresses), 6)
        for message in document["components"]["messages"].values():
            if "payload" in message:
                path = repository.root / "Config" / message["payload"]["schema"]["$ref"]
                jsonschema.Draft7Validator.check_schema(json.loads(path.read_text()))

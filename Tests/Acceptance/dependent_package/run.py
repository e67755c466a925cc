#!/usr/bin/env python3
"""Builds the package in this folder, which depends on this repository by a version, and checks the records that it
prints.

    run.py PROGRAMS      the folder of causeway
"""
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))


def check_shapes(row):
    topic, app, shapes = row
    types = [
        {
            "name": "MatchAttributes",
            "attributes": {"match": "string"},
            "contentState": {"away": "int", "home": "int", "kickOff": "date"},
        }
    ]
    if topic != "causeway.shapes" or json.loads(shapes) != {"app": app, "attributesTypes": types}:
        sys.exit(f"the library wrote other shapes: {shapes}")


def check_imports(root):
    """Checks that the libraries for servers and apps import only Foundation."""
    for library in ("CausewayRecords", "ActivityShapes"):
        files = sorted((root / "Sources" / library).glob("**/*.swift"))
        lines = [line for file in files for line in file.read_text().splitlines()]
        imported = {line.split()[-1] for line in lines if re.match(r"(@\S+ )*(\w+ )?import ", line)}
        if imported != {"Foundation"}:
            sys.exit(f"{library} imports {imported}")


def main():
    from records import record_checks, repository

    check_imports(repository.root)

    repository.programs = pathlib.Path(sys.argv[1]).resolve()
    command = [repository.root / "Tests/Acceptance/dependent_package/print-records"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    *rows, shapes_row = [line.split("\t") for line in output.splitlines()]
    check_shapes(shapes_row)
    for topic, key, value in rows:
        kind = topic.removeprefix("causeway.")
        record_checks.validator(kind.removesuffix("s")).validate(json.loads(value))
        faults = record_checks.faults(kind, [value.encode()])
        if faults:
            sys.exit(f"{topic} {key}: {faults}: {value}")
    python_lines = subprocess.run(
        [sys.executable, repository.root / "Examples/producers/python/goal.py", "--print"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for row, line in zip(rows[:2], python_lines):
        other = line.split("\t")
        if row[:2] != other[:2] or json.loads(row[2]) != json.loads(other[2]):
            sys.exit(f"the library and the example in Python differ: {row}, {other}")
    print(f"{len(rows) + 1} passed, 0 failed")


main()

"""The places of the repository's files, and the checks of records."""
import json
import pathlib
import subprocess
import tempfile

import jsonschema

root = pathlib.Path(__file__).resolve().parents[3]
# The folder with the built programs. run.py sets it.
programs = None


def schema(name):
    return json.loads((root / f"Config/schemas/{name}.schema.json").read_text())


def validator(name):
    jsonschema.Draft7Validator.check_schema(schema(name))
    return jsonschema.Draft7Validator(schema(name))


def faults(kind, lines):
    """What `causeway check` says about records, one for each line: a message for each line that is refused.

    - kind: "commands" or "registrations"
    """
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        run = subprocess.run([programs / "causeway", "check", f"--{kind}", file.name], capture_output=True)
        found = {}
        for line in run.stdout.decode(errors="replace").splitlines():
            if line.startswith(file.name + ":"):
                _, number, message = line.split(":", 2)
                found.setdefault(int(number) - 1, message.strip())
        if run.returncode not in (0, 1) or (run.returncode == 1) != bool(found):
            raise AssertionError(f"causeway check: {run.returncode}, {run.stderr.decode()}")
        return found

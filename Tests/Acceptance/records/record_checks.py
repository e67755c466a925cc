"""The checks of records: by the schemas, and by `causeway check`."""
import json
import subprocess
import tempfile

import jsonschema

from records import repository


def schema(name):
    return json.loads((repository.root / f"Config/schemas/{name}.schema.json").read_text())


def validator(name):
    jsonschema.Draft7Validator.check_schema(schema(name))
    return jsonschema.Draft7Validator(schema(name))


def faults(kind, lines):
    """Checks records with `causeway check`, one for each line. Returns the message for each refused line, by its index.

    - kind: "commands" or "registrations"
    """
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
        run = subprocess.run([repository.programs / "causeway", "check", f"--{kind}", file.name], capture_output=True)
        found = {}
        for line in run.stdout.decode(errors="replace").splitlines():
            if line.startswith(file.name + ":"):
                _, number, message = line.split(":", 2)
                found.setdefault(int(number) - 1, message.strip())
        if run.returncode not in (0, 1) or (run.returncode == 1) != bool(found):
            raise AssertionError(f"causeway check: {run.returncode}, {run.stderr.decode()}")
        return found

"""Reads files of recorded lines, each of which is a JSON object."""

import json


class UnreadableFileError(Exception):
    """A file is missing, or its content is wrong."""


def read_objects(path):
    """Yields the number and the object of each line. Raises UnreadableFileError if the file cannot be read, or a line is
    incomplete or no JSON object."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    raise UnreadableFileError(f"{path}:{number}: the line has no end")
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise UnreadableFileError(f"{path}:{number}: {error}") from None
                if not isinstance(value, dict):
                    raise UnreadableFileError(f"{path}:{number}: no JSON object")
                yield number, value
    except OSError as error:
        raise UnreadableFileError(str(error)) from None
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"{path}: {error}") from None

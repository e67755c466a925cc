"""Searches all output of a run for secrets: device tokens, provider tokens, keys. People who may read logs,
pages or results must not be able to send pushes."""

import base64
import pathlib
import re

OUTPUT_FILES = ("*.log", "*.page", "results.jsonl")
"""The files of a run that people, log collectors or dashboards read."""
HEXADECIMAL = re.compile(r"[0-9A-Fa-f]{32,}")
BASE64 = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
PROVIDER_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")
EXAMPLES_PER_FILE_MAX = 3


class Secrets:
    """The texts that no output may contain."""

    def __init__(self, tokens, key_files):
        """Takes tokens in hexadecimal, and key files in PEM."""
        self._tokens = {token.lower() for token in tokens}
        encoded = [base64.b64encode(bytes.fromhex(token)).decode() for token in self._tokens]
        self._texts = {text.rstrip("=").translate(str.maketrans("-_", "+/")) for text in encoded}
        for file in key_files:
            lines = pathlib.Path(file).read_text().splitlines()
            self._texts |= {line.rstrip("=") for line in lines if line and not line.startswith("-----")}

    def __len__(self):
        return len(self._tokens) + len(self._texts)

    def kinds_in(self, text):
        """Returns the kinds of secrets in a text, but never the secrets."""
        found = set()
        if any(match in self._tokens for match in map(str.lower, HEXADECIMAL.findall(text))):
            found.add("a device token")
        plain = (match.rstrip("=").translate(str.maketrans("-_", "+/")) for match in BASE64.findall(text))
        if any(match in self._texts for match in plain):
            found.add("a token or a key in Base64")
        if PROVIDER_TOKEN.search(text):
            found.add("a provider token")
        if "PRIVATE KEY" in text:
            found.add("a private key")
        return sorted(found)


def find_secrets(directory, secrets):
    """Returns the number of files of a run that were read, and the places of secrets, at most three for each file."""
    files = sorted({file for pattern in OUTPUT_FILES for file in pathlib.Path(directory).glob(pattern)})
    problems = []
    for file in files:
        finding_count = 0
        with open(file, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                found = secrets.kinds_in(line)
                if found and finding_count < EXAMPLES_PER_FILE_MAX:
                    problems.append(f"{file.name}:{number} holds {', '.join(found)}")
                finding_count += bool(found)
    return len(files), problems

"""The search for secrets finds each kind. A search that finds nothing would accept every run."""

import base64
import pathlib
import tempfile
import unittest

from fleet.leaks import Secrets, find_secrets

TOKEN = "00ff5a3c0e8f4b21d7c6a9908877665544332211ffeeddccbbaa998877665544"
KEY = "MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQgAbCdEfGhIjKlMnOp"
HARMLESS = '{"kind":"apns-connected","token":"sha256 87d2777e5f7d","trace":"4bf92f3577b34da6a3ce929d0e0e4736"}'


class Leaks(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        key = self.directory / "AuthKey_SIMULATION.p8"
        key.write_text(f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n")
        self.secrets = Secrets([TOKEN], [key])

    def test_each_kind_of_secret_is_found(self):
        encoded = base64.b64encode(bytes.fromhex(TOKEN)).decode()
        for text in (
            f'"token":"{TOKEN}"', TOKEN.upper(), encoded, base64.urlsafe_b64encode(bytes.fromhex(TOKEN)).decode().rstrip("="),
            f"key={KEY}", "bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0.c2ln", "-----BEGIN PRIVATE KEY-----",
        ):
            with self.subTest(text=text):
                self.assertEqual(len(self.secrets.kinds_in(text)), 1)
        self.assertEqual(self.secrets.kinds_in(HARMLESS), [])

    def test_all_output_files_are_searched(self):
        for name in ("worker-1.log", "worker-1-statusz.page", "results.jsonl"):
            (self.directory / name).write_text(f"{HARMLESS}\n{TOKEN}\n")
        read, problems = find_secrets(self.directory, self.secrets)
        self.assertEqual(read, 3)
        self.assertEqual([text.split(" ")[0] for text in problems], ["results.jsonl:2", "worker-1-statusz.page:2", "worker-1.log:2"])
        self.assertFalse(any(TOKEN in text for text in problems))

    def test_harmless_output_passes(self):
        (self.directory / "worker-1.log").write_text(HARMLESS * 10)
        self.assertEqual(find_secrets(self.directory, self.secrets), (1, []))

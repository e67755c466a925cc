"""Tests of a program that checks recorded runs: it must accept a sound run, and detect each law when it is broken once."""

import contextlib
import io
import os
import tempfile
import unittest


class DoctoredRun(unittest.TestCase):
    """`self.run_` is the run. Its `written()` returns the recorded files: texts by name."""

    main = None
    """The program: gets a directory and options, prints a report, and returns the exit code."""

    def judged(self, files, *options):
        """The exit code, the names of the broken laws, and the report."""
        with tempfile.TemporaryDirectory() as directory:
            for name, text in files.items():
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    file.write(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = self.main([directory, *options])
        report = output.getvalue()
        return code, [line[7:] for line in report.splitlines() if line.startswith("BROKEN")], report

    def breaks(self, law, *options, others=()):
        """Fails unless this law is broken. Except the others, no other law may be broken."""
        code, broken, report = self.judged(self.run_.written(), *options)
        self.assertEqual(code, 1, report)
        self.assertTrue(any(name.startswith(law) for name in broken), report)
        for name in broken:
            self.assertTrue(name.startswith((law, *others)), report)

    def holds(self, *options):
        """Fails if any law is broken. Returns the report."""
        code, broken, report = self.judged(self.run_.written(), *options)
        self.assertEqual((code, broken), (0, []), report)
        return report

    def refuses(self, *replaced):
        """Fails if evidence can be read in which one file has another text, or does not exist (None): pairs of name and text."""
        for name, text in replaced:
            files = {**self.run_.written(), name: text}
            if text is None:
                del files[name]
            with self.subTest(name=name, text=text):
                self.assertEqual(self.judged(files)[0], 2)

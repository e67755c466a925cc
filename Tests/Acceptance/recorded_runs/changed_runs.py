"""Tests of a program that checks recorded runs. The program must accept a correct run, and find each
invariant that a changed run violates."""

import contextlib
import io
import os
import tempfile
import unittest


class ChangedRunTestCase(unittest.TestCase):
    """Subclasses set `self.recorded_run`, a recorded run. Its `file_texts()` returns the recorded files: texts by
    name."""

    main = None
    """The program under test. It gets a directory and options, prints a report, and returns the exit code."""

    def run_checker(self, files, *options):
        """Returns the program's exit code, the names of the violated invariants, and the report."""
        with tempfile.TemporaryDirectory() as directory:
            for name, text in files.items():
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    file.write(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                code = self.main([directory, *options])
        report = output.getvalue()
        return code, [line[7:] for line in report.splitlines() if line.startswith("BROKEN")], report

    def assert_violated(self, invariant, *options, others=()):
        """Fails unless the run violates this invariant. Of the other invariants it may violate only `others`."""
        code, violated, report = self.run_checker(self.recorded_run.file_texts(), *options)
        self.assertEqual(code, 1, report)
        self.assertTrue(any(name.startswith(invariant) for name in violated), report)
        for name in violated:
            self.assertTrue(name.startswith((invariant, *others)), report)

    def assert_all_hold(self, *options):
        """Fails if the run violates any invariant. Returns the report."""
        code, violated, report = self.run_checker(self.recorded_run.file_texts(), *options)
        self.assertEqual((code, violated), (0, []), report)
        return report

    def assert_unreadable(self, *replaced):
        """Fails if the program accepts a run in which one file has another text or, for None, is missing.
        Takes pairs of name and text."""
        for name, text in replaced:
            files = {**self.recorded_run.file_texts(), name: text}
            if text is None:
                del files[name]
            with self.subTest(name=name, text=text):
                self.assertEqual(self.run_checker(files)[0], 2)

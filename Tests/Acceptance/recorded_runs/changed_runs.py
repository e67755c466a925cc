"""Tests of a program that checks recorded runs. The program must accept a correct run, and find each law that
a changed run breaks."""

import contextlib
import io
import os
import tempfile
import unittest


class ChangedRunTestCase(unittest.TestCase):
    """Subclasses set `self.run_`, a recorded run. Its `written()` returns the recorded files: texts by
    name."""

    main = None
    """The program under test. It gets a directory and options, prints a report, and returns the exit code."""

    def judged(self, files, *options):
        """Returns the program's exit code, the names of the broken laws, and the report."""
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
        """Fails unless the run breaks this law. Of the other laws it may break only `others`."""
        code, broken, report = self.judged(self.run_.written(), *options)
        self.assertEqual(code, 1, report)
        self.assertTrue(any(name.startswith(law) for name in broken), report)
        for name in broken:
            self.assertTrue(name.startswith((law, *others)), report)

    def holds(self, *options):
        """Fails if the run breaks any law. Returns the report."""
        code, broken, report = self.judged(self.run_.written(), *options)
        self.assertEqual((code, broken), (0, []), report)
        return report

    def refuses(self, *replaced):
        """Fails if the program accepts a run in which one file has another text or, for None, is missing.
        Takes pairs of name and text."""
        for name, text in replaced:
            files = {**self.run_.written(), name: text}
            if text is None:
                del files[name]
            with self.subTest(name=name, text=text):
                self.assertEqual(self.judged(files)[0], 2)

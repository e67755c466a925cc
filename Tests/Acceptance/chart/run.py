"""Runs every test here, prints what failed, and ends with one line: how many passed and failed.

    run.py             all tests
    run.py NAME…       those whose name contains one of these
    run.py --accept    stores what this version of the chart renders; later versions are compared with it
"""
import pathlib
import sys
import time
import unittest

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))
sys.dont_write_bytecode = True


def tests_in(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_in(test)
        else:
            yield test


class Result(unittest.TextTestResult):
    """Counts tests. A test with failed subtests counts as one failed test."""

    def startTestRun(self):
        self.broken = set()

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.broken.add(test.id())

    def addError(self, test, error):
        super().addError(test, error)
        self.broken.add(test.id())

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.broken.add(test.id())


def main(arguments):
    if arguments == ["--accept"]:
        import upgrades

        return upgrades.store_renderings()
    found = unittest.defaultTestLoader.discover(str(here), pattern="test_*.py", top_level_dir=str(here))
    chosen = [test for test in tests_in(found) if not arguments or any(name in test.id() for name in arguments)]
    start = time.monotonic()
    result = unittest.TextTestRunner(resultclass=Result, verbosity=1, stream=sys.stderr).run(unittest.TestSuite(chosen))
    failed, skipped = len(result.broken), len(result.skipped)
    passed = len(chosen) - failed - skipped
    for test, reason in result.skipped:
        print(f"skipped: {test.id()}: {reason}")
    print(f"the chart, in {time.monotonic() - start:.0f} s")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

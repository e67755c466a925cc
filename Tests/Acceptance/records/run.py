#!/usr/bin/env python3
"""Checks the committed schemas, the AsyncAPI document and the examples, with other programs than Causeway's own tests use.

    run.py PROGRAMS           the folder of causeway and causeway-lab
    run.py PROGRAMS --java    only the example with Apache's Kafka client

The schemas are read by the library jsonschema, and what they say about mutated records is compared with `causeway check`. The examples run,
their records are checked by both, and the examples with a Kafka client here write them to a broker.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    from records import place

    place.programs = programs
    if sys.argv[2:] == ["--java"]:
        from records import test_java

        modules = [test_java]
    else:
        from records import test_examples, test_schemas

        modules = [test_schemas, test_examples]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromModule, modules))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(bool(failed))


main()

#!/usr/bin/env python3
"""Checks the committed schemas, the AsyncAPI document and the examples, with programs that Causeway's own tests do not use.

    run.py PROGRAMS           the folder of causeway and causeway-lab
    run.py PROGRAMS --java    only the example with Apache's Kafka client

The library jsonschema reads the schemas. For mutated records, their verdicts are compared with those of
`causeway check`. The schemas and `causeway check` also judge the records that the examples print. The examples
whose Kafka client is installed here write their records to a broker.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    from records import repository

    repository.programs = programs
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

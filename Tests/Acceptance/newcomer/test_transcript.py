"""Reading a page's commands, and comparing their output with the page."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import run  # noqa: E402
import transcript  # noqa: E402

PAGE = """# A page

## First

```console
$ causeway one \\
      --two &
{"port":8443}
$ cat > file <<END
$ no command
END
$ two & TWO=$!
$ three
1 sent, 0.014 s
…
ok {"a":1,…
```

```sh
not a transcript
```

## Second

```console
$ four
```
"""


class TranscriptTests(unittest.TestCase):
    def commands(self):
        return transcript.commands(transcript.section(PAGE, "## First"))

    def test_commands_are_read_with_their_continuations_and_here_documents(self):
        self.assertEqual(
            [each.text for each in self.commands()],
            ["causeway one \\\n      --two &", "cat > file <<END\n$ no command\nEND", "two & TWO=$!", "three"],
        )
        self.assertEqual([each.is_background for each in self.commands()], [True, False, True, False])
        self.assertEqual(self.commands()[0].expected_lines, ['{"port":8443}'])

    def test_a_command_must_print_the_lines_on_the_page(self):
        expected_lines = self.commands()[3].expected_lines
        for printed in ['1 sent, 2.5 s\nok {"a":1,"b":2}\n', '1 sent, 0.014 s\nnot yet\nnot yet\nok {"a":1,\n"b":2}\n']:
            self.assertTrue(transcript.matches(expected_lines, printed), printed)
        for printed in ["", '2 sent, 0.014 s\nok {"a":1,"b":2}\n', "1 sent, 0.014 s\nok\n"]:
            self.assertFalse(transcript.matches(expected_lines, printed), printed)

    def test_a_command_without_lines_on_the_page_must_print_nothing(self):
        self.assertTrue(transcript.matches([], ""))
        self.assertFalse(transcript.matches([], "warning\n"))

    def test_warnings_errors_and_lines_of_the_kafka_client_are_alarming(self):
        time = "2026-11-25T07:01:02.123Z"
        good = [f"{time} INFO     causeway: worker started kind=worker-started", f'{time} NOTICE   causeway: a text="ERROR here"']
        bad = [
            f"{time} WARNING  causeway: the connection to Redis is lost kind=redis-lost",
            f"{time} ERROR    causeway: Kafka error=x kind=kafka-error",
            f"{time} CRITICAL causeway: the worker cannot continue",
            f"{time} INFO     causeway: librdkafka facility=CONFWARN kind=kafka-client text=x",
        ]
        self.assertEqual(transcript.alarming_lines("\n".join(good + bad) + "\n"), bad)
        self.assertEqual(transcript.alarming_lines("\n".join(good) + "\n"), [])

    def test_the_readme_has_commands(self):
        page = (pathlib.Path(__file__).resolve().parents[3] / "README.md").read_text()
        for title, count_min in zip(run.SECTIONS, (13, 6), strict=True):
            self.assertGreaterEqual(len(transcript.commands(transcript.section(page, title))), count_min, title)


if __name__ == "__main__":
    unittest.main()

"""Reads the commands on a page, and the output that the page shows for them."""

import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The end of a background command, which may store its process id in a variable.
BACKGROUND_END = re.compile(r"&( [A-Z]+=\$!)?$")
# A line of the worker's text log that is a warning or worse, or any line of librdkafka.
ALARMING_LINE = re.compile(r"^\S+ (?:WARNING|ERROR|CRITICAL) .*$|^.* kind=kafka-client(?: .*)?$", re.MULTILINE)
HERE_DOCUMENT = re.compile(r"<<'?(\w+)'?")


@dataclass
class Command:
    text: str
    expected_lines: list[str] = field(default_factory=list)

    @property
    def is_background(self):
        return BACKGROUND_END.search(self.text) is not None


def section(page, title):
    """Returns the text below a heading, up to the next heading of the same level."""
    level = re.escape(title.split(" ")[0])
    start = page.index(f"\n{title}\n") + len(title) + 2
    end = re.compile(rf"^{level} ", re.MULTILINE).search(page, start)
    return page[start : end.start() if end else len(page)]


def commands(text):
    """Returns every command of the fenced blocks. A command begins with `$ `. It continues after a backslash
    and to the end of a here-document."""
    found = []
    for block in FENCE.findall(text):
        lines = iter(block.splitlines())
        for line in lines:
            if not line.startswith("$ "):
                found[-1].expected_lines.append(line)
                continue
            command = [line[2:]]
            while command[-1].endswith("\\"):
                command.append(next(lines))
            document = HERE_DOCUMENT.search(command[-1])
            while document and command[-1] != document[1]:
                command.append(next(lines))
            found.append(Command("\n".join(command)))
    return found


def matches(expected_lines, printed):
    """Whether a command printed what the page shows. `…` matches any text, also of several lines; a duration may differ."""
    pattern = "".join(re.escape(line.rstrip()) + r"\n" for line in expected_lines)
    pattern = pattern.replace("…", ".*?").replace(r".*?\n", r".*?\n?")
    pattern = re.sub(r"\d+\\\.\d+\\ s\b", r"\\d+\\.\\d+\\ s", pattern)
    # A page cannot show that the last line lacks a newline, so one is added.
    printed_lines = printed if printed.endswith("\n") or not printed else printed + "\n"
    return re.fullmatch(pattern, printed_lines, re.DOTALL) is not None


def alarming_lines(log):
    """Returns the lines of a worker's log that would alarm a newcomer."""
    return ALARMING_LINE.findall(log)

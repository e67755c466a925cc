#!/usr/bin/env python3
"""Plays a short demo, and checks its live page in a headless Chromium: counts, buttons, the story, the keyboard, the console.

    Tests/Acceptance/page/run.py .build/debug/causeway-lab [--screenshots DIRECTORY]

Everything is compared with what the simulator and the processes say, not with what the page was told. One line for each check; the last
line counts them. The exit code is 1 if a check fails.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from page.browser import Browser, BrowserError  # noqa: E402

MATCHES, FOLLOWERS, SECONDS = 12, 25, 45
PHONES = MATCHES * FOLLOWERS
STORY = "document.getElementById('story')"
ACTIONS = ["kill-worker", "take-redis-away", "answer-503", "cut-connections", "black-hole"]


class Demo:
    """A demo with its page. Its notes are read as they come."""

    def __init__(self, program, directory):
        self.figures_file = os.path.join(directory, "figures.json")
        self._child = subprocess.Popen(
            [
                program, "demo", "--stay", "--matches", str(MATCHES), "--followers", str(FOLLOWERS), "--seconds", str(SECONDS),
                "--json", self.figures_file,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.notes, self.output = [], []
        for stream, lines in ((self._child.stderr, self.notes), (self._child.stdout, self.output)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def note(self, pattern, seconds):
        """The first group of the first note that fits."""
        deadline = time.monotonic() + seconds
        while True:
            for line in list(self.notes):
                if found := re.search(pattern, line):
                    return found[1]
            if time.monotonic() > deadline or self._child.poll() is not None:
                raise BrowserError(f"the demo does not say {pattern}: {self.notes[-5:]}")
            time.sleep(0.02)

    def figures(self, seconds):
        """What it has written at the season's end."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                with open(self.figures_file, encoding="utf-8") as file:
                    return json.load(file)
            except (OSError, ValueError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def processes(self, word):
        """The ids of its children whose command line has a word. A redis-server writes its own, with spaces."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as stat, open(f"/proc/{name}/cmdline", "rb") as line:
                    parent = int(stat.read().rsplit(")", 1)[1].split()[1])
                    if parent == self._child.pid and word in re.split(r"[\0 ]", line.read().decode(errors="replace")):
                        found.append(int(name))
            except OSError:
                continue
        return found

    def redis(self):
        return [one for path in ("/usr/bin/redis-server", "/usr/local/bin/redis-server") for one in self.processes(path)]

    def end(self, number=signal.SIGINT):
        if self._child.poll() is None:
            self._child.send_signal(number)
        return self._child.wait(timeout=30)

    def kill(self):
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()


class Checks:
    def __init__(self):
        self.failed = self.count = 0

    def that(self, holds, what):
        self.count += 1
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)

    def soon(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while not (holds := condition()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.that(bool(holds), what)


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def press(browser, action):
    browser.click_on(f'[data-action="{action}"]')


def is_on(browser, action):
    return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').getAttribute('aria-pressed')") == "true"


def check_buttons(browser, demo, simulator, checks):
    """Each button, judged by the processes and by the simulator."""
    def faults():
        return fetch(f"{simulator}/faults")

    def stats():
        return fetch(f"{simulator}/stats")

    press(browser, "answer-503")
    checks.soon(lambda: faults()["serviceUnavailableShare"] == 1, 5, "503: the simulator has the fault")
    checks.soon(lambda: stats()["refused"].get("503 ServiceUnavailable", 0) > 0, 10, "503: pushes are answered so")
    checks.soon(lambda: is_on(browser, "answer-503"), 5, "503: the button is down")
    press(browser, "answer-503")
    checks.soon(lambda: faults()["serviceUnavailableShare"] == 0, 5, "503: pressed again, it ends")

    cut = stats()["connectionsCut"]
    press(browser, "cut-connections")
    checks.soon(lambda: stats()["connectionsCut"] > cut, 5, "cut: the simulator has cut connections")

    [worker] = demo.processes("worker")
    press(browser, "kill-worker")
    checks.soon(lambda: demo.processes("worker") not in ([], [worker]), 20, "kill: another worker runs")

    [redis] = demo.redis()
    press(browser, "take-redis-away")
    checks.soon(lambda: not demo.redis(), 10, "Redis: it is away")
    checks.soon(lambda: demo.redis() not in ([], [redis]), 20, "Redis: it returns by itself")

    press(browser, "black-hole")
    checks.soon(lambda: faults().get("silentAfterRequests") == 0, 5, "black hole: the simulator reads nothing")
    checks.soon(lambda: stats()["connectionsSilenced"] > 0, 5, "black hole: connections are half open")
    press(browser, "black-hole")
    checks.soon(lambda: "silentAfterRequests" not in faults(), 5, "black hole: pressed again, it ends")


def check_keyboard(browser, checks):
    reached = set()
    browser.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    for _ in range(60):
        browser.press("Tab")
        reached.add(browser.evaluate("document.activeElement.dataset.action ?? document.activeElement.id"))
    checks.that(reached >= {*ACTIONS, "field"}, "Tab reaches the field and every button")
    browser.evaluate("document.getElementById('field').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.press(key)
    hint = browser.evaluate("document.getElementById('hint').textContent")
    checks.that(re.match(r"phone [\d,]+ of ", hint) is not None, f"arrow keys move over the phones: {hint}")
    number = int(re.search(r"[\d,]+", hint)[0].replace(",", "")) - 1
    browser.press("Enter")
    told = browser.until(f"{STORY}.open && {STORY}.dataset.told", 20, "the story is told")
    text = browser.evaluate("document.querySelector('.storyText').innerText")
    checks.that("started" in text and "pushes" in text, f"Enter tells the story of {told}")
    browser.until("document.querySelector('.stages') !== null", 20, "the story has stages")
    text = browser.evaluate("document.querySelector('.storyText').innerText")
    checks.that("What the worker knows" in text, "and what inspect says, with stages")
    browser.press("Escape")
    checks.that(not browser.evaluate("document.getElementById('story').open"), "Escape closes it")
    checks.that(browser.evaluate("document.activeElement.id") == "field", "and the focus returns")
    return number, told


def check_end(browser, demo, simulator, checks):
    """The counts at the end, on the page and at the simulator."""
    browser.until("['over', 'failed'].includes(document.body.dataset.phase)", 90, "the demo ends")
    summary, stats = fetch(f"{simulator}/summary"), fetch(f"{simulator}/stats")
    browser.until(f"document.querySelector('#pushes b').dataset.value == '{stats['accepted']}'", 10, "the page has the last push")
    shown = browser.evaluate("({...document.getElementById('hint').dataset})")
    for name in ("active", "ended", "gone"):
        checks.that(int(shown[name]) == summary["activities"][name], f"{name}: {shown[name]}, as at the simulator")
    checks.that(int(shown["phones"]) == summary["phones"] == PHONES, f"phones: {shown['phones']}")
    figures = demo.figures(10)
    value = "Number(document.querySelector('{} b').textContent.replaceAll(',', ''))"
    checks.soon(lambda: browser.evaluate(value.format("#commands")) == figures["commands"], 5, f"commands: {figures['commands']}")
    checks.soon(lambda: browser.evaluate(value.format("#pushes")) == stats["accepted"], 5, f"pushes: {stats['accepted']}")
    zeros = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.zero')].map((node) => [node.id, node.dataset.value]))"
    )
    effects = summary["effects"]
    wanted = {
        "lost": PHONES - figures["phonesWithFinalScore"], "backInTime": effects.get("ignoredOld", 0),
        "startedTwice": summary["duplicateStarts"], "rangTwice": 0,
    }
    checks.that(zeros == {name: str(count) for name, count in wanted.items()}, f"zeros as at the simulator: {zeros}")
    in_doubt = browser.evaluate("Number(document.getElementById('rangTwice').dataset.doubt)")
    checks.that(in_doubt == summary["repeatedAlerts"], f"alerts that rang again: {in_doubt}, all after their answer was lost")
    checks.that(wanted["lost"] == wanted["backInTime"] == wanted["startedTwice"] == 0, "nothing lost, old or started twice")
    views = browser.evaluate(
        "[...document.querySelectorAll('#wall .phone')].map((node) => [Number(node.dataset.phone), node.dataset.shows])"
    )
    for number, shows in views:
        record = fetch(f"{simulator}/phone?number={number}")
        checks.that(json.loads(shows) == record["activities"][-1]["contentState"], f"phone {number} on the wall shows what it shows")
    phase = browser.evaluate("document.getElementById('phase').textContent")
    checks.that(phase.startswith(f"{PHONES} of {PHONES} phones show"), "the verdict is on the page")


def check_looks(browser, checks, directory):
    looks = (("light", 1440, 900, 1, False), ("dark", 1440, 900, 1, True), ("narrow", 390, 844, 2, True))
    for name, width, height, scale, dark in looks:
        browser.resize(width, height, scale)
        browser.prefer(dark)
        browser.evaluate("new Promise((done) => setTimeout(done, 400))")
        wide = browser.evaluate("document.documentElement.scrollWidth")
        checks.that(wide <= width, f"{name}: {width} pixels are wide enough")
        if directory:
            browser.screenshot(os.path.join(directory, f"page-{name}.png"))


def run(program, screenshots, checks):
    with tempfile.TemporaryDirectory(prefix="causeway-page-") as directory:
        demo = Demo(program, directory)
        try:
            page = demo.note(r"Watch the phones at (\S+)", 20)
            checks.that("Watch the phones" in demo.notes[0], "the page's address is printed first")
            with Browser() as browser:
                browser.open(page)
                simulator = demo.note(r"counts are at (\S+)/summary", 60)
                browser.until("document.body.dataset.phase === 'playing'", 60, "the season begins")
                drawn = browser.evaluate("framesDrawn()")
                browser.evaluate("new Promise((done) => setTimeout(done, 3000))")
                print(f"     {(browser.evaluate('framesDrawn()') - drawn) / 3:.0f} frames a second", flush=True)
                check_keyboard(browser, checks)
                check_buttons(browser, demo, simulator, checks)
                check_looks(browser, checks, screenshots)
                browser.resize(1440, 900)
                check_end(browser, demo, simulator, checks)
                checks.that(browser.errors == [], f"no error on the console: {browser.errors}")
            checks.that(demo.end() == 0, "Ctrl-C ends a good demo with exit code 0")
        finally:
            demo.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--screenshots", metavar="DIRECTORY")
    options = parser.parse_args()
    checks = Checks()
    began = time.monotonic()
    try:
        run(options.program, options.screenshots, checks)
    except (BrowserError, OSError, ValueError, KeyError) as error:
        checks.that(False, f"{type(error).__name__}: {error}")
    print(f"page: {checks.count - checks.failed} of {checks.count} checks passed in {time.monotonic() - began:.0f} s")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks the live page in a headless Chromium: that of a simulator beside a worker, and that of a short demo.

It checks counts, buttons, the story, the keyboard and the console.

    Tests/Acceptance/page/run.py .build/debug/causeway-lab [--screenshots DIRECTORY]

It compares the page with the simulator's interface and with the processes, not with the data that the page got.
It prints one line for each check; the last line counts them. The exit code is 1 if a check fails.
"""

import argparse
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from page.browser import Browser, BrowserError  # noqa: E402
from processes import Failure, wait_until  # noqa: E402

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
MATCHES, FOLLOWERS, SECONDS = 12, 25, 45
PHONES = MATCHES * FOLLOWERS
STORY = "document.getElementById('story')"
NUMBER = "Number(document.querySelector('{} b').textContent.replaceAll(',', ''))"
ACTIONS = ["kill-worker", "take-redis-away", "answer-503", "cut-connections", "black-hole"]


class Demo:
    """A demo with its page. Threads read the notes and the output that the demo prints."""

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
        self._noted, self._has_ended = threading.Condition(), False
        for stream, lines in ((self._child.stderr, self.notes), (self._child.stdout, self.output)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    def _read(self, stream, lines):
        for line in stream:
            with self._noted:
                lines.append(line.rstrip("\n"))
                self._noted.notify_all()
        with self._noted:
            self._has_ended = self._has_ended or lines is self.notes
            self._noted.notify_all()

    def note(self, pattern, seconds):
        """Returns the first group of the first note that matches the pattern."""
        deadline = time.monotonic() + seconds
        seen = 0
        with self._noted:
            while True:
                for line in self.notes[seen:]:
                    if found := re.search(pattern, line):
                        return found[1]
                seen = len(self.notes)
                if self._has_ended or not self._noted.wait(deadline - time.monotonic()):
                    raise BrowserError(f"the demo does not say {pattern}: {self.notes[-5:]}")

    def figures(self, seconds):
        """Returns the figures that the demo writes at the end of the season."""
        found = []

        def is_written():
            try:
                with open(self.figures_file, encoding="utf-8") as file:
                    found.append(json.load(file))
            except (OSError, ValueError):
                pass
            return found

        wait_until(is_written, seconds, "the demo has written its figures")
        return found[0]

    def processes(self, word):
        """Returns the ids of the demo's child processes whose command line contains a word. Spaces separate words too,
        because a redis-server writes its own command line with spaces."""
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
        try:
            wait_until(condition, seconds, what)
        except Failure:
            return self.that(False, what)
        self.that(True, what)


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def press(browser, action):
    browser.click_on(f'[data-action="{action}"]')


def is_on(browser, action):
    return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').getAttribute('aria-pressed')") == "true"


def check_buttons(browser, demo, simulator, checks):
    """Clicks each button, and checks the effect on the processes and at the simulator."""
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
    """Compares the final counts on the page with those of the simulator and of the demo."""
    browser.until("['over', 'failed'].includes(document.body.dataset.phase)", 90, "the demo ends")
    summary, stats = fetch(f"{simulator}/summary"), fetch(f"{simulator}/stats")
    browser.until(f"document.querySelector('#pushes b').dataset.value == '{stats['accepted']}'", 10, "the page has the last push")
    shown = browser.evaluate("({...document.getElementById('hint').dataset})")
    for name in ("active", "ended", "gone"):
        checks.that(int(shown[name]) == summary["activities"][name], f"{name}: {shown[name]}, as at the simulator")
    checks.that(int(shown["phones"]) == summary["phones"] == PHONES, f"phones: {shown['phones']}")
    figures = demo.figures(10)
    checks.soon(lambda: browser.evaluate(NUMBER.format("#commands")) == figures["commands"], 5, f"commands: {figures['commands']}")
    checks.soon(lambda: browser.evaluate(NUMBER.format("#pushes")) == stats["accepted"], 5, f"pushes: {stats['accepted']}")
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


class Quick:
    """The first commands of README.md: a broker, a Redis, a simulator with its page, a worker. The simulator
    has started none of the others."""

    def __init__(self, program, directory):
        self.directory, self._program = directory, program
        self._children, self._places = [], {}
        self.worker = None

    def _start(self, name, command):
        with open(os.path.join(self.directory, name + ".log"), "a", encoding="utf-8") as log:
            child = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self._children.append(child)
        return child

    def start(self):
        self.kafka = self._start("broker", [self._program, "broker"]).stdout.readline().strip()
        self.kafka = re.search(r"127[0-9.:]*", self.kafka)[0]
        redis, apns, http = free_ports(3)
        self._start("redis", ["redis-server", "--port", str(redis), "--save", ""])
        with open(os.path.join(self.directory, "first.yaml"), "w", encoding="utf-8") as file:
            file.write(
                f"kafka: {{bootstrapServers: '{self.kafka}'}}\nredis: {{url: 'redis://127.0.0.1:{redis}'}}\nhttp: {{port: {http}}}\n"
                f"apns: {{sandbox: {{host: localhost, port: {apns}}}, caFile: apns/ca.pem}}\n"
                "apps:\n  ride: {bundleId: com.example.ride, teamId: SIMULATION, keyId: SIMULATION, "
                "keyFile: apns/AuthKey_SIMULATION.p8, environments: [sandbox]}\n"
            )
        simulator = self._start(
            "simulator",
            [
                self._program, "simulator", "--port", str(apns), "--directory", "apns", "--bootstrap-servers", self.kafka, "--shapes",
                os.path.join(REPOSITORY, "Config/examples/ride/shapes.json"), "--page", "--config", "first.yaml",
                "--worker-pid", "worker.pid",
            ],
        )
        line = simulator.stdout.readline()
        if not line:
            raise BrowserError("the simulator does not start: " + self.log("simulator"))
        place = json.loads(line)
        self.page, self.simulator = place["page"], f"http://127.0.0.1:{place['controlPort']}"

    def start_worker(self):
        self.worker = self._start("worker", [os.path.join(os.path.dirname(self._program), "causeway"), "worker", "--config", "first.yaml"])
        with open(os.path.join(self.directory, "worker.pid"), "w", encoding="utf-8") as file:
            file.write(f"{self.worker.pid}\n")

    def send(self, command):
        path = os.path.join(self.directory, "command.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(command, file)
        program = os.path.join(os.path.dirname(self._program), "causeway")
        subprocess.run([program, "send", "--bootstrap-servers", self.kafka, "--now", path], check=True, capture_output=True, timeout=60)

    def log(self, name):
        with open(os.path.join(self.directory, name + ".log"), encoding="utf-8") as file:
            return file.read()[-2_000:]

    def kill(self):
        for child in reversed(self._children):
            child.kill()
            child.wait()


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


RIDE = {
    "driverName": "Tomasz", "driverPhoto": "person.crop.circle", "vehicleDescription": "White Prius", "eta": [811693400, 811693520],
    "status": "driverAssigned", "distanceRemaining": 3.1,
}


SEQUENCE = itertools.count(1)


def command(event, distance, **more):
    activity = "phone-7-RideAttributes-0"
    aps = {"event": event, "timestamp": int(time.time()), "content-state": {**RIDE, "distanceRemaining": distance}, **more.pop("aps", {})}
    # Two commands of one second need different sequences, otherwise the second one is a duplicate.
    return {"app": "com.example.ride", "activity": activity, "sequence": next(SEQUENCE), "aps": aps, **more}


def play_by_hand(quick, browser, checks):
    """Sends a start and four updates, one of which changes nothing."""
    start = command("start", 3.1, device="phone-7", aps={
        "attributes-type": "RideAttributes", "alert": {"title": "Your driver is assigned", "body": "Tomasz comes"},
        "attributes": {"riderName": "Ana", "pickupLocation": "Museum Gate", "dropoffLocation": "North Station"},
    })
    body = json.dumps({"app": "com.example.ride", "devices": ["phone-7"]}).encode()
    urllib.request.urlopen(f"{quick.simulator}/phones", data=body, timeout=10).read()
    browser.until("document.getElementById('hint').textContent === '1 phone · 1 empty'", 20, "one phone is one phone")
    quick.send(start)
    browser.until("document.getElementById('hint').dataset.active === '1'", 15, "the activity is on the phone")
    for distance in (2.5, 2.5, 1.5, 0):
        before = browser.evaluate("Number(document.querySelector('#commands b').dataset.value)")
        quick.send(command("update", distance))
        browser.until(f"Number(document.querySelector('#commands b').dataset.value) > {before}", 30, "the result is counted")


def check_by_hand(quick, browser, checks):
    play_by_hand(quick, browser, checks)
    checks.soon(lambda: browser.evaluate(NUMBER.format("#commands")) == 5, 20, "commands with a result: 5")
    # Read the count of pushes only now: before the last result, the simulator may still get a push.
    accepted = fetch(f"{quick.simulator}/stats")["accepted"]
    # There are four pushes, or three if the token was still unknown: then updates were held, and a later one replaced
    # them.
    checks.soon(lambda: browser.evaluate(NUMBER.format("#pushes")) == accepted in (3, 4), 5, f"pushes: {accepted}")
    text = browser.evaluate("document.getElementById('saved').innerText")
    checks.that(f"{(5 - accepted) * 20}.0 %" in text, f"the share that was saved: {text!r}")
    fresh = browser.evaluate("['p50', 'p99'].map((name) => document.getElementById(name).textContent)")
    checks.that(all(re.fullmatch(r"[\d.]+ m?s", one) for one in fresh), f"freshness: {fresh}")
    checks.that(browser.evaluate("document.getElementById('freshness').offsetHeight") > 0, "and its card is there")
    colours = browser.evaluate("['#lost b', '#backInTime b'].map((one) => getComputedStyle(document.querySelector(one)).color)")
    checks.that(browser.evaluate("document.querySelector('#lost b').textContent") == "–", "lost: the simulator cannot know")
    checks.that(colours[0] != colours[1], "and what is not known is not green")
    heights = browser.evaluate("['rate', 'stage'].map((one) => document.getElementById(one).offsetHeight)")
    checks.that(heights[0] < heights[1] / 2, f"the rate's card has no more than half of the height: {heights}")
    gap = browser.evaluate(
        "(() => { const [title, text] = document.querySelector('#rings h2').childNodes; const range = document.createRange();"
        " range.selectNodeContents(title); return text.getBoundingClientRect().left - range.getBoundingClientRect().right; })()"
    )
    checks.that(gap >= 8, f"the heading of the budgets is apart from its text: {gap:.0f} pixels")
    browser.click_on("#wall .phone")
    browser.until("document.querySelector('.stages') !== null", 20, "the story has stages")
    text = browser.evaluate("document.querySelector('.storyText').innerText")
    checks.that("What the worker knows" in text and "The stages of its last push" in text, "a click tells what inspect says, with stages")
    browser.press("Escape")


def check_what_is_not_ours(quick, browser, checks):
    """The page disables the button for Redis, which the simulator has not started. The button for the worker works
    while its process runs."""
    def title(action):
        return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').title")

    def is_grey(action):
        return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').disabled")

    checks.that(is_grey("take-redis-away") and "has not started your Redis" in title("take-redis-away"), "Redis is greyed, and says why")
    checks.that(not is_grey("kill-worker") and str(quick.worker.pid) in title("kill-worker"), "the worker's button names its process")
    press(browser, "kill-worker")
    checks.that(quick.worker.wait(timeout=10) == -signal.SIGKILL, "kill: the worker is killed")
    checks.soon(lambda: is_grey("kill-worker") and "there is no process" in title("kill-worker"), 5, "then it is greyed, and says why")
    quick.start_worker()
    checks.soon(lambda: not is_grey("kill-worker"), 5, "the next worker can be killed too")


def run_by_hand(program, screenshots, checks):
    with tempfile.TemporaryDirectory(prefix="causeway-page-") as directory:
        quick = Quick(os.path.abspath(program), directory)
        try:
            quick.start()
            quick.start_worker()
            with Browser() as browser:
                browser.open(quick.page)
                check_by_hand(quick, browser, checks)
                if screenshots:
                    browser.screenshot(os.path.join(screenshots, "page-simulator.png"))
                check_what_is_not_ours(quick, browser, checks)
                checks.that(browser.errors == [], f"no error on the console: {browser.errors}")
        except BaseException:
            print("".join(f"{name}:\n{quick.log(name)}" for name in ("simulator", "worker")))
            raise
        finally:
            quick.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--screenshots", metavar="DIRECTORY")
    options = parser.parse_args()
    checks = Checks()
    began = time.monotonic()
    for scene in (run_by_hand, run):
        try:
            scene(options.program, options.screenshots, checks)
        except (BrowserError, Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            checks.that(False, f"{type(error).__name__}: {error}")
    print(f"page: {checks.count - checks.failed} of {checks.count} checks passed in {time.monotonic() - began:.0f} s")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()

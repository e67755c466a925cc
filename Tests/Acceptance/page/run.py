#!/usr/bin/env python3
"""Checks the live page in a headless Chromium: that of a simulator beside a worker, and that of a short demo.

It checks counts, buttons, the history of a phone, the keyboard and the console.

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
MATCH_COUNT, FOLLOWER_COUNT, SECONDS = 12, 25, 45
PHONE_COUNT = MATCH_COUNT * FOLLOWER_COUNT
HISTORY = "document.getElementById('history')"
NUMBER = "Number(document.querySelector('{} b').textContent.replaceAll(',', ''))"
ACTIONS = ["kill-worker", "take-redis-away", "respond-503", "cut-connections", "black-hole"]


class Demo:
    """A demo with its page. Threads read its standard error, as `notes`, and its standard output."""

    def __init__(self, program, directory):
        self.figures_file = os.path.join(directory, "figures.json")
        self._child = subprocess.Popen(
            [
                program, "demo", "--stay", "--matches", str(MATCH_COUNT), "--followers", str(FOLLOWER_COUNT), "--seconds", str(SECONDS),
                "--json", self.figures_file,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.notes, self.output = [], []
        self._condition, self._has_ended = threading.Condition(), False
        for stream, lines in ((self._child.stderr, self.notes), (self._child.stdout, self.output)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    def _read(self, stream, lines):
        for line in stream:
            with self._condition:
                lines.append(line.rstrip("\n"))
                self._condition.notify_all()
        with self._condition:
            self._has_ended = self._has_ended or lines is self.notes
            self._condition.notify_all()

    def wait_for_note(self, pattern, seconds):
        """Returns the first group of the first note that matches the pattern."""
        deadline = time.monotonic() + seconds
        seen_count = 0
        with self._condition:
            while True:
                for line in self.notes[seen_count:]:
                    if found := re.search(pattern, line):
                        return found[1]
                seen_count = len(self.notes)
                if self._has_ended or not self._condition.wait(deadline - time.monotonic()):
                    raise BrowserError(f"the demo does not say {pattern}: {self.notes[-5:]}")

    def wait_for_figures(self, seconds):
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

    def process_ids(self, word):
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

    def redis_process_ids(self):
        return [one for path in ("/usr/bin/redis-server", "/usr/local/bin/redis-server") for one in self.process_ids(path)]

    def stop(self, number=signal.SIGINT):
        if self._child.poll() is None:
            self._child.send_signal(number)
        return self._child.wait(timeout=30)

    def kill(self):
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()


class Checks:
    def __init__(self):
        self.failed_count = self.count = 0

    def expect(self, holds, what):
        self.count += 1
        self.failed_count += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)

    def expect_soon(self, condition, seconds, what):
        try:
            wait_until(condition, seconds, what)
        except Failure:
            return self.expect(False, what)
        self.expect(True, what)


def fetch_json(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def press_button(browser, action):
    browser.click_on(f'[data-action="{action}"]')


def is_button_pressed(browser, action):
    return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').getAttribute('aria-pressed')") == "true"


def check_buttons(browser, demo, simulator, checks):
    """Clicks each button, and checks the effect on the processes and at the simulator."""
    def faults():
        return fetch_json(f"{simulator}/faults")

    def stats():
        return fetch_json(f"{simulator}/stats")

    press_button(browser, "respond-503")
    checks.expect_soon(lambda: faults()["serviceUnavailableShare"] == 1, 5, "503: the simulator has the fault")
    checks.expect_soon(lambda: stats()["refused"].get("503 ServiceUnavailable", 0) > 0, 10, "503: pushes get this response")
    checks.expect_soon(lambda: is_button_pressed(browser, "respond-503"), 5, "503: the button is down")
    press_button(browser, "respond-503")
    checks.expect_soon(lambda: faults()["serviceUnavailableShare"] == 0, 5, "503: pressed again, it ends")

    cut_count = stats()["connectionsCut"]
    press_button(browser, "cut-connections")
    checks.expect_soon(lambda: stats()["connectionsCut"] > cut_count, 5, "cut: the simulator has cut connections")

    [worker] = demo.process_ids("worker")
    press_button(browser, "kill-worker")
    checks.expect_soon(lambda: demo.process_ids("worker") not in ([], [worker]), 20, "kill: another worker runs")

    [redis] = demo.redis_process_ids()
    press_button(browser, "take-redis-away")
    checks.expect_soon(lambda: not demo.redis_process_ids(), 10, "Redis: it is away")
    checks.expect_soon(lambda: demo.redis_process_ids() not in ([], [redis]), 20, "Redis: it returns by itself")

    press_button(browser, "black-hole")
    checks.expect_soon(lambda: faults().get("silentAfterRequests") == 0, 5, "black hole: the simulator reads nothing")
    checks.expect_soon(lambda: stats()["connectionsSilenced"] > 0, 5, "black hole: connections are half open")
    press_button(browser, "black-hole")
    checks.expect_soon(lambda: "silentAfterRequests" not in faults(), 5, "black hole: pressed again, it ends")


def check_keyboard(browser, checks):
    reached = set()
    browser.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    for _ in range(60):
        browser.press("Tab")
        reached.add(browser.evaluate("document.activeElement.dataset.action ?? document.activeElement.id"))
    checks.expect(reached >= {*ACTIONS, "phoneGrid"}, "Tab reaches the grid and every button")
    browser.evaluate("document.getElementById('phoneGrid').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.press(key)
    hint = browser.evaluate("document.getElementById('hint').textContent")
    checks.expect(re.match(r"phone [\d,]+ of ", hint) is not None, f"arrow keys move over the phones: {hint}")
    number = int(re.search(r"[\d,]+", hint)[0].replace(",", "")) - 1
    browser.press("Enter")
    activity = browser.wait_until(f"{HISTORY}.open && {HISTORY}.dataset.activity", 20, "the history is shown")
    text = browser.evaluate("document.querySelector('.historyText').innerText")
    checks.expect("started" in text and "pushes" in text, f"Enter shows the history of {activity}")
    browser.wait_until("document.querySelector('.stages') !== null", 20, "the history has stages")
    text = browser.evaluate("document.querySelector('.historyText').innerText")
    checks.expect("What Causeway knows" in text, "and what inspect says, with stages")
    enter = "new KeyboardEvent('keydown', {key: 'Enter', bubbles: true})"
    browser.evaluate(f"{HISTORY}.close(), document.getElementById('phoneGrid').dispatchEvent({enter})")
    browser.wait_until("document.querySelector('.stages') !== null", 20, "a history that is opened right after it closed has stages")
    browser.press("Escape")
    checks.expect(not browser.evaluate(f"{HISTORY}.open"), "Escape closes it")
    checks.expect(browser.evaluate("document.activeElement.id") == "phoneGrid", "and the focus returns")
    return number, activity


def check_end(browser, demo, simulator, checks):
    """Compares the final counts on the page with those of the simulator and of the demo."""
    browser.wait_until("['over', 'failed'].includes(document.body.dataset.phase)", 90, "the demo ends")
    summary, stats = fetch_json(f"{simulator}/summary"), fetch_json(f"{simulator}/stats")
    browser.wait_until(f"document.querySelector('#pushes b').dataset.value == '{stats['accepted']}'", 10, "the page has the last push")
    shown = browser.evaluate("({...document.getElementById('hint').dataset})")
    for name in ("active", "ended", "gone"):
        checks.expect(int(shown[name]) == summary["activities"][name], f"{name}: {shown[name]}, as at the simulator")
    checks.expect(int(shown["phones"]) == summary["phones"] == PHONE_COUNT, f"phones: {shown['phones']}")
    figures = demo.wait_for_figures(10)
    checks.expect_soon(lambda: browser.evaluate(NUMBER.format("#commands")) == figures["commands"], 5, f"commands: {figures['commands']}")
    checks.expect_soon(lambda: browser.evaluate(NUMBER.format("#pushes")) == stats["accepted"], 5, f"pushes: {stats['accepted']}")
    fault_counts = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.zero')].map((node) => [node.id, node.dataset.value]))"
    )
    effects = summary["effects"]
    expected_counts = {
        "lost": PHONE_COUNT - figures["phonesWithFinalScore"], "backInTime": effects.get("ignoredOld", 0),
        "startedTwice": summary["duplicateStarts"], "rangTwice": 0,
    }
    expected_texts = {name: str(count) for name, count in expected_counts.items()}
    checks.expect(fault_counts == expected_texts, f"counts as at the simulator: {fault_counts}")
    in_doubt_count = browser.evaluate("Number(document.getElementById('rangTwice').dataset.doubt)")
    checks.expect(
        in_doubt_count == summary["repeatedAlerts"], f"alerts that rang again: {in_doubt_count}, all after their response was lost"
    )
    checks.expect(set(expected_counts.values()) == {0}, "nothing lost, old or started twice")
    views = browser.evaluate(
        "[...document.querySelectorAll('#largePhones .phone')].map((node) => [Number(node.dataset.phone), node.dataset.shows])"
    )
    for number, shows in views:
        record = fetch_json(f"{simulator}/phone?number={number}")
        checks.expect(json.loads(shows) == record["activities"][-1]["contentState"], f"large phone {number} shows what the phone has")
    phase = browser.evaluate("document.getElementById('phase').textContent")
    checks.expect(phase.startswith(f"{PHONE_COUNT} of {PHONE_COUNT} phones show"), "the verdict is on the page")


def check_layouts(browser, checks, directory):
    layouts = (("light", 1440, 900, 1, False), ("dark", 1440, 900, 1, True), ("narrow", 390, 844, 2, True))
    for name, width, height, scale, is_dark in layouts:
        browser.resize(width, height, scale)
        browser.set_color_scheme(is_dark)
        browser.evaluate("new Promise((done) => setTimeout(done, 400))")
        page_width = browser.evaluate("document.documentElement.scrollWidth")
        checks.expect(page_width <= width, f"{name}: {width} pixels are wide enough")
        if directory:
            browser.screenshot(os.path.join(directory, f"page-{name}.png"))


def check_demo(program, screenshots, checks):
    with tempfile.TemporaryDirectory(prefix="causeway-page-") as directory:
        demo = Demo(program, directory)
        try:
            page = demo.wait_for_note(r"Watch the phones at (\S+)", 20)
            checks.expect("Watch the phones" in demo.notes[0], "the page's address is printed first")
            with Browser() as browser:
                browser.open(page)
                simulator = demo.wait_for_note(r"counts are at (\S+)/summary", 60)
                browser.wait_until("document.body.dataset.phase === 'playing'", 60, "the season begins")
                drawn = browser.evaluate("framesDrawn()")
                browser.evaluate("new Promise((done) => setTimeout(done, 3000))")
                print(f"     {(browser.evaluate('framesDrawn()') - drawn) / 3:.0f} frames a second", flush=True)
                check_keyboard(browser, checks)
                check_buttons(browser, demo, simulator, checks)
                check_layouts(browser, checks, screenshots)
                browser.resize(1440, 900)
                check_end(browser, demo, simulator, checks)
                checks.expect(browser.errors == [], f"no error on the console: {browser.errors}")
            checks.expect(demo.stop() == 0, "Ctrl-C ends a good demo with exit code 0")
        finally:
            demo.kill()


class ManualRun:
    """The first commands of README.md: a broker, a Redis, a simulator with its page, a worker. The simulator
    has started none of the others."""

    def __init__(self, program, directory):
        self.directory, self._program = directory, program
        self._children = []
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


RIDE_STATE = {
    "driverName": "Tomasz", "driverPhoto": "person.crop.circle", "vehicleDescription": "White Prius", "eta": [811693400, 811693520],
    "status": "driverAssigned", "distanceRemaining": 3.1,
}


SEQUENCE = itertools.count(1)


def make_command(event, distance, **more):
    activity = "phone-7-RideAttributes-0"
    state = {**RIDE_STATE, "distanceRemaining": distance}
    aps = {"event": event, "timestamp": int(time.time()), "content-state": state, **more.pop("aps", {})}
    # Two commands of one second need different sequences, otherwise the second one is a duplicate.
    return {"app": "com.example.ride", "activity": activity, "sequence": next(SEQUENCE), "aps": aps, **more}


def send_manual_commands(manual_run, browser, checks):
    """Sends a start and four updates, one of which changes nothing."""
    start = make_command("start", 3.1, device="phone-7", aps={
        "attributes-type": "RideAttributes", "alert": {"title": "Your driver is assigned", "body": "Tomasz comes"},
        "attributes": {"riderName": "Ana", "pickupLocation": "Museum Gate", "dropoffLocation": "North Station"},
    })
    body = json.dumps({"app": "com.example.ride", "devices": ["phone-7"]}).encode()
    urllib.request.urlopen(f"{manual_run.simulator}/phones", data=body, timeout=10).read()
    browser.wait_until("document.getElementById('hint').textContent === '1 phone · 1 empty'", 20, "one phone is one phone")
    manual_run.send(start)
    browser.wait_until("document.getElementById('hint').dataset.active === '1'", 15, "the activity is on the phone")
    for distance in (2.5, 2.5, 1.5, 0):
        before = browser.evaluate("Number(document.querySelector('#commands b').dataset.value)")
        manual_run.send(make_command("update", distance))
        browser.wait_until(f"Number(document.querySelector('#commands b').dataset.value) > {before}", 30, "the result is counted")


def check_page_of_manual_run(manual_run, browser, checks):
    send_manual_commands(manual_run, browser, checks)
    checks.expect_soon(lambda: browser.evaluate(NUMBER.format("#commands")) == 5, 20, "commands with a result: 5")
    # Read the count of pushes only now: before the last result, the simulator may still get a push.
    accepted = fetch_json(f"{manual_run.simulator}/stats")["accepted"]
    # There are four pushes, or three if the token was still unknown: then updates were held, and a later one replaced
    # them.
    checks.expect_soon(lambda: browser.evaluate(NUMBER.format("#pushes")) == accepted in (3, 4), 5, f"pushes: {accepted}")
    text = browser.evaluate("document.getElementById('saved').innerText")
    checks.expect(f"{(5 - accepted) * 20}.0 %" in text, f"the share that was saved: {text!r}")
    freshness = browser.evaluate("['p50', 'p99'].map((name) => document.getElementById(name).textContent)")
    checks.expect(all(re.fullmatch(r"[\d.]+ m?s", one) for one in freshness), f"freshness: {freshness}")
    checks.expect(browser.evaluate("document.getElementById('freshness').offsetHeight") > 0, "and its card is there")
    colours = browser.evaluate("['#lost b', '#backInTime b'].map((one) => getComputedStyle(document.querySelector(one)).color)")
    checks.expect(browser.evaluate("document.querySelector('#lost b').textContent") == "–", "lost: the simulator cannot know")
    checks.expect(colours[0] != colours[1], "and what is not known is not green")
    heights = browser.evaluate("['rate', 'stage'].map((one) => document.getElementById(one).offsetHeight)")
    checks.expect(heights[0] < heights[1] / 2, f"the rate's card has no more than half of the height: {heights}")
    gap = browser.evaluate(
        "(() => { const [title, text] = document.querySelector('#rings h2').childNodes; const range = document.createRange();"
        " range.selectNodeContents(title); return text.getBoundingClientRect().left - range.getBoundingClientRect().right; })()"
    )
    checks.expect(gap >= 8, f"the heading of the budgets is apart from its text: {gap:.0f} pixels")
    browser.click_on("#largePhones .phone")
    browser.wait_until("document.querySelector('.stages') !== null", 20, "the history has stages")
    text = browser.evaluate("document.querySelector('.historyText').innerText")
    checks.expect("What Causeway knows" in text and "The stages of its last push" in text, "a click tells what inspect says, with stages")
    browser.press("Escape")


def check_processes_of_others(manual_run, browser, checks):
    """The page disables the button for Redis, which the simulator has not started. The button for the worker works
    while its process runs."""
    def button_title(action):
        return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').title")

    def is_grey(action):
        return browser.evaluate(f"document.querySelector('[data-action=\"{action}\"]').disabled")

    is_explained = "did not start your Redis" in button_title("take-redis-away")
    checks.expect(is_grey("take-redis-away") and is_explained, "Redis is greyed, and says why")
    is_named = str(manual_run.worker.pid) in button_title("kill-worker")
    checks.expect(not is_grey("kill-worker") and is_named, "the worker's button names its process")
    press_button(browser, "kill-worker")
    checks.expect(manual_run.worker.wait(timeout=10) == -signal.SIGKILL, "kill: the worker is killed")
    checks.expect_soon(
        lambda: is_grey("kill-worker") and "there is no process" in button_title("kill-worker"), 5, "then it is greyed, and says why"
    )
    manual_run.start_worker()
    checks.expect_soon(lambda: not is_grey("kill-worker"), 5, "the next worker can be killed too")


def check_manual_run(program, screenshots, checks):
    with tempfile.TemporaryDirectory(prefix="causeway-page-") as directory:
        manual_run = ManualRun(os.path.abspath(program), directory)
        try:
            manual_run.start()
            manual_run.start_worker()
            with Browser() as browser:
                browser.open(manual_run.page)
                check_page_of_manual_run(manual_run, browser, checks)
                if screenshots:
                    browser.screenshot(os.path.join(screenshots, "page-simulator.png"))
                check_processes_of_others(manual_run, browser, checks)
                checks.expect(browser.errors == [], f"no error on the console: {browser.errors}")
        except BaseException:
            print("".join(f"{name}:\n{manual_run.log(name)}" for name in ("simulator", "worker")))
            raise
        finally:
            manual_run.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--screenshots", metavar="DIRECTORY")
    options = parser.parse_args()
    checks = Checks()
    began = time.monotonic()
    for check in (check_manual_run, check_demo):
        try:
            check(options.program, options.screenshots, checks)
        except (BrowserError, Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            checks.expect(False, f"{type(error).__name__}: {error}")
    print(f"page: {checks.count - checks.failed_count} of {checks.count} checks passed in {time.monotonic() - began:.0f} s")
    sys.exit(1 if checks.failed_count else 0)


if __name__ == "__main__":
    main()

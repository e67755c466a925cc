#!/usr/bin/env python3
"""Plays the first commands of README.md literally, as a newcomer types them, and compares what they print with the page. The worker's log
must have no warning and no error.

    run.py PROGRAMS

PROGRAMS is the directory of `causeway` and `causeway-lab`. The commands run in a new directory, which stands for the repository's, and in a
network of their own if the system allows it, so that the page's ports are free. The exit code is 1 if anything differs.
"""

import ctypes
import fcntl
import os
import pathlib
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import transcript

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
# The sections of README.md, in order. The commands of the second section use the programs that those of the first one start.
SECTIONS = ["## A first command, sent by hand", "## One command for all followers"]
# The first command of these sections. It is skipped, because the programs are already built.
SKIPPED = "make build"
# The pause before each command in seconds, because a person types no faster.
TYPING_SECONDS = 1
LIMIT_SECONDS = 60
END_MARK = "--newcomer--"
# From <sched.h>, <linux/sockios.h> and <net/if.h>: Python 3.11 has no names for them.
CLONE_NEWNET, CLONE_NEWUSER, SIOCSIFFLAGS, IFF_UP = 0x4000_0000, 0x1000_0000, 0x8914, 1


def enter_own_network():
    """Moves this process to a separate network. Returns whether the system allowed it."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return True


class Shell:
    """One shell for all commands, so that jobs and variables of one command exist for the next."""

    def __init__(self, directory):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CAUSEWAY_")}
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=directory, env=environment, text=True, bufsize=1, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read_output, daemon=True).start()
        # Like a person's shell, this shell has job control, and another job already runs in it.
        self.process.stdin.write("set -m\n")
        self.run(transcript.Command(f"sleep {LIMIT_SECONDS * 60} &"))
        self.earlier_jobs = self.running_jobs()

    def read_output(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def run(self, command):
        """Returns the command's output and exit code; without an exit code in time, None. A background command counts
        as done when it has printed what the page shows."""
        self.process.stdin.write(f"{command.text}\necho {END_MARK} $?\n")
        deadline_seconds = time.monotonic() + LIMIT_SECONDS
        printed, code = "", None
        while time.monotonic() < deadline_seconds:
            if code is not None and (not command.is_background or transcript.matches(command.expected_lines, printed)):
                break
            try:
                line = self.lines.get(timeout=0.1)
            except queue.Empty:
                continue
            if line is None:
                break
            if END_MARK in line:
                before, _, number = line.partition(END_MARK)
                printed += before
                code = int(number)
            else:
                printed += line
        return printed, code

    def running_jobs(self):
        """Returns the process ids of the running jobs."""
        printed, _ = self.run(transcript.Command("jobs -rp"))
        # The shell may also print that a job has ended, so only lines with a number count.
        return [int(line) for line in printed.splitlines() if line.isdigit()]

    def close(self):
        for job in self.running_jobs():
            try:
                os.killpg(job, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.stdin.close()
        self.process.wait(timeout=LIMIT_SECONDS)


def find_difference(command, printed, code):
    """Returns how the output differs from the page; an empty text if it does not."""
    if code is None:
        return f"no end within {LIMIT_SECONDS} s"
    if code != 0:
        return f"exit code {code}"
    if not transcript.matches(command.expected_lines, printed):
        return "the page shows\n" + "".join(f"  | {line}\n" for line in command.expected_lines).rstrip("\n")
    return ""


def run_commands(directory):
    page = (REPOSITORY / "README.md").read_text()
    found = [each for title in SECTIONS for each in transcript.commands(transcript.section(page, title))]
    commands = [each for each in found if each.text != SKIPPED]
    shell = Shell(directory)
    try:
        for command in commands:
            print("$ " + command.text.splitlines()[0], flush=True)
            printed, code = shell.run(command)
            difference = find_difference(command, printed, code)
            if difference:
                print("".join(f"  > {line}\n" for line in printed.splitlines()) + difference)
                log = directory / "worker.log"
                if log.exists():
                    print("the worker's log:\n" + log.read_text()[-4_000:])
                return False
            time.sleep(TYPING_SECONDS)
        end = time.monotonic() + LIMIT_SECONDS
        while (running := shell.running_jobs()) != shell.earlier_jobs:
            if not set(shell.earlier_jobs) <= set(running):
                print("the page has stopped a program that it did not start")
                return False
            if time.monotonic() > end:
                print("programs still run although the page has stopped them")
                return False
            time.sleep(0.2)
    finally:
        shell.close()
    log = (directory / "worker.log").read_text()
    if "worker-stopped" not in log:
        print("the worker's log does not end with its stop:\n" + log[-4_000:])
        return False
    if lines := transcript.alarming_lines(log):
        print("the worker's log has lines that should not meet a newcomer:\n" + "\n".join(lines))
        return False
    print(f"newcomer: {len(commands)} commands print what README.md shows")
    return True


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    if not enter_own_network():
        print("the system allows no network of our own; the page's ports must be free")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="causeway-newcomer-"))
    try:
        (directory / "Config").symlink_to(REPOSITORY / "Config")
        (directory / ".build").mkdir()
        (directory / ".build" / "release").symlink_to(programs)
        return 0 if run_commands(directory) else 1
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())

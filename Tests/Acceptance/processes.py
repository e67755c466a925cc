"""Processes on this machine, each with its own loopback ports. The code that starts a process also ends it."""

import json
import os
import select
import signal
import socket
import subprocess
import time


class Failure(Exception):
    """A condition of the test does not hold."""


def free_ports(count):
    """Returns ports that are unused now. All are opened before the first is closed, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for a_socket in sockets:
            a_socket.bind(("127.0.0.1", 0))
        return [a_socket.getsockname()[1] for a_socket in sockets]
    finally:
        for a_socket in sockets:
            a_socket.close()


def wait_until(condition, seconds, what, poll_seconds=0.05):
    """Waits until the condition holds. Returns the seconds that it took. Raises Failure if `seconds` were not
    enough."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise Failure(f"{what}: not so after {seconds} s")
        time.sleep(poll_seconds)
    return time.monotonic() - began


class Process:
    """A child process. Its output is appended to the log, so a log continues when its process is replaced."""

    def __init__(self, name, command, log, environment=None, pipes_output=False):
        self.name = name
        self.log = log
        with open(log, "ab") as file:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes_output else file,
                stderr=file,
                env={**os.environ, **(environment or {})},
            )

    def is_running(self):
        return self._child.poll() is None

    def signal(self, number):
        if self.is_running():
            self._child.send_signal(number)

    def read_first_json_line(self, seconds):
        """Reads the first line of the process's output as JSON."""
        ready, _, _ = select.select([self._child.stdout], [], [], seconds)
        line = self._child.stdout.readline() if ready else b""
        if not line.endswith(b"\n"):
            raise Failure(f"{self.name} says nothing; see {self.log}")
        return json.loads(line)

    def wait(self, seconds):
        """Waits until a process that got SIGTERM has ended. Returns the exit code and the seconds that it
        took."""
        began = time.monotonic()
        try:
            code = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} has not ended {seconds} s after SIGTERM; see {self.log}") from None
        return code, time.monotonic() - began

    def kill(self):
        self.signal(signal.SIGKILL)
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

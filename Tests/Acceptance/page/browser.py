"""Controls a headless Chromium over the DevTools protocol, with Python's standard library only."""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    """The browser has not carried out a command."""


class WebSocket:
    """The client's side of a WebSocket (RFC 6455), for texts only."""

    def __init__(self, url, seconds):
        parts = urllib.parse.urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=seconds)
        self._buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise BrowserError(f"no WebSocket: {head!r}")

    def close(self):
        self._socket.close()

    def send(self, text):
        data = text.encode()
        mask = os.urandom(4)
        if len(data) < 126:
            head = struct.pack("!BB", 0x81, 0x80 | len(data))
        elif len(data) < 65_536:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, len(data))
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, len(data))
        # The mask has four bytes and is repeated over the data.
        repeated = (mask * (len(data) // 4 + 1))[: len(data)]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(data), "big")
        self._socket.sendall(head + mask + masked)

    def receive(self, seconds):
        """Returns the next message. Raises TimeoutError if none comes in time."""
        deadline = time.monotonic() + seconds
        message = b""
        while True:
            first, second = self._take(2, deadline)
            length = second & 0x7F
            if length == 126:
                length = struct.unpack("!H", self._take(2, deadline))[0]
            elif length == 127:
                length = struct.unpack("!Q", self._take(8, deadline))[0]
            data = self._take(length, deadline)
            if first & 0x0F == 8:
                raise BrowserError("the browser has closed the connection")
            if first & 0x0F in (0, 1):
                message += data
                if first & 0x80:
                    return message.decode()

    def _take(self, count, deadline):
        while len(self._buffer) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            self._receive()
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _receive(self):
        data = self._socket.recv(1 << 20)
        if not data:
            raise BrowserError("the browser has gone")
        self._buffer += data


class Browser:
    """One browser tab. `errors` has what the page writes to its console as errors, and the exceptions that it
    throws."""

    def __init__(self, width=1440, height=900, scale=1, dark=False, reduced_motion=False):
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            raise BrowserError("no Chromium is installed")
        self._directory = tempfile.mkdtemp(prefix="causeway-page-")
        self._process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-port=0",
                f"--user-data-dir={self._directory}", f"--window-size={width},{height}", "about:blank",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.errors = []
        self._command_id = 0
        self._socket = None
        try:
            self._socket = WebSocket(self._tab_address(30), 10)
            self.call("Page.enable")
            self.call("Runtime.enable")
            self.call("Log.enable")
            self.resize(width, height, scale)
            self.set_color_scheme(dark, reduced_motion)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._socket:
            self._socket.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _tab_address(self, seconds):
        """Returns the WebSocket address of the first tab when the browser listens."""
        file = os.path.join(self._directory, "DevToolsActivePort")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                with open(file, encoding="utf-8") as opened:
                    port = int(opened.readline())
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=5) as response:
                    tabs = [tab for tab in json.load(response) if tab["type"] == "page"]
                if tabs:
                    return tabs[0]["webSocketDebuggerUrl"]
            except (OSError, ValueError):
                pass
            if self._process.poll() is not None:
                raise BrowserError(f"Chromium ended with code {self._process.returncode}")
            time.sleep(0.05)
        raise BrowserError("Chromium does not listen")

    def call(self, method, seconds=30, **parameters):
        self._command_id += 1
        self._socket.send(json.dumps({"id": self._command_id, "method": method, "params": parameters}))
        deadline = time.monotonic() + seconds
        while True:
            message = json.loads(self._socket.receive(max(0.01, deadline - time.monotonic())))
            if message.get("id") == self._command_id:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']}")
                return message["result"]
            self._record_error(message)

    def _record_error(self, message):
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if parameters["type"] == "error":
                self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                entry = parameters["entry"]
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def evaluate(self, expression, seconds=30):
        """Returns the value of an expression on the page. Awaits a promise."""
        result = self.call(
            "Runtime.evaluate", seconds=seconds, expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_until("document.readyState === 'complete'", 20, "the page is loaded")

    def wait_until(self, expression, seconds, what):
        """Waits until an expression is true, and returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                raise BrowserError(f"not so after {seconds} s: {what}")
            time.sleep(0.05)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 500)

    def set_color_scheme(self, dark, reduced_motion=False):
        self.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"},
            ],
        )

    def press(self, key):
        """Presses a key by its name, such as Tab or ArrowRight."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "End": 35}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_on(self, selector):
        """Clicks in the middle of an element."""
        x, y = self.evaluate(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.scrollIntoView({{block: 'center'}});"
            " const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.click(x, y)

    def screenshot(self, file, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(file, "wb") as opened:
            opened.write(base64.b64decode(data))

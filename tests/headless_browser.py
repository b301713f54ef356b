"""A headless Chromium for tests of pages, driven through pipes by its DevTools protocol, without another package.

`find_browser` says where it is. `SEGPASTE_CHROMIUM` names one that is elsewhere.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PATIENCE_S = 60.0


def find_browser() -> str | None:
    """Return the path of a Chromium of this machine, or None."""
    named = os.environ.get("SEGPASTE_CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


class BrowserError(Exception):
    """The page threw an error, or did not get where it was expected in time."""


class Browser:
    """One page of a headless browser.

    Attributes:
        errors: what the page wrote to its console as an error, and what it threw.
    """

    def __init__(self, path: str, width: int = 1280, height: int = 900) -> None:
        self.errors: list[str] = []
        self._numbers, self._rest = itertools.count(1), b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (read_here, write_there), (read_there, self._write) = os.pipe(), os.pipe()
        self._read = read_here
        words = [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        words += ["--remote-debugging-pipe", f"--user-data-dir={self._profile.name}", "--no-first-run", "about:blank"]
        script = f'exec "$@" 3<&{read_there} 4>&{write_there}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, is_dark: bool) -> None:
        """Prefer dark pages, or light ones."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def js(self, code: str) -> Any:
        """Return the value of an expression, once it is settled."""
        found = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise BrowserError(f"{code}: {found['exceptionDetails']['exception'].get('description')}")
        return found["result"].get("value")

    def until(self, code: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            if value := self.js(code):
                return value
            time.sleep(0.02)
        raise BrowserError(f"waited {_PATIENCE_S:g} s for {code}; errors: {self.errors}")

    def press(self, key: str, code: int, is_down: bool) -> None:
        """Press or release a key."""
        kind = "keyDown" if is_down else "keyUp"
        self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> None:
        """Write what the window shows to a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], _PATIENCE_S)[0]:
                raise BrowserError(f"no answer of the browser for {_PATIENCE_S:g} s")
            if not (found := os.read(self._read, 1 << 20)):
                raise BrowserError("the browser has ended")
            self._rest += found
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(values["exceptionDetails"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.errors.append(values["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] == "error":
            self.errors.append(str(values["args"]))

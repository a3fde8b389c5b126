"""A real browser, without a screen: pages are opened, clicked and looked at through Chromium's pipe for debuggers."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip

PATIENCE_S = 30 * float(os.environ.get("TRACER_TEST_PATIENCE", "1"))


def program() -> str | None:
    """The browser of this machine, None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Tab:
    """A page of a browser. `asked` are the addresses that it loaded, `faults` what its console says is wrong."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.asked: list[str] = []
        self.faults: list[str] = []
        self.dialogs: list[str] = []
        """What the next prompts are answered."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command of the DevTools protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number = self._number
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], max(end - time.monotonic(), 0))[0], "the browser says nothing"
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser has ended"
            self._buffer += piece
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.faults.append(str(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.faults.append(params["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self._number += 1
                answer = {"accept": bool(self.dialogs), "promptText": self.dialogs.pop(0) if self.dialogs else ""}
                reply = {"id": self._number, "method": "Page.handleJavaScriptDialog", "params": answer}
                os.write(self._write, json.dumps({**reply, "sessionId": self._session}).encode() + b"\0")
        return message

    def open(self, path: Path, width: int = 1280, height: int = 800) -> None:
        """A file, until all of it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self.call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + PATIENCE_S
        while self.value("document.readyState") != "complete" or self.value("location.href") != path.as_uri():
            assert time.monotonic() < end, "the page does not come"
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """The value of an expression of the page's language."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def point(self, expression: str) -> None:
        """The pointer goes to the middle of an element."""
        self._pointer(expression, "mouseMoved")

    def click(self, expression: str) -> None:
        """It clicks there, too."""
        self._pointer(expression, "mouseMoved", "mousePressed", "mouseReleased")

    def _pointer(self, expression: str, *kinds: str) -> None:
        self.value(f"({expression}).scrollIntoView({{block: 'center'}})")
        box = self.value(f"(() => {{ const r = ({expression}).getBoundingClientRect();"
                         " return [r.x + r.width / 2, r.y + r.height / 2]; })()")  # fmt: skip
        for kind in kinds:
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """A key goes down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, path: Path) -> None:
        """Writes what is to be seen, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A browser with a profile of its own in `folder`, which is empty."""
    path = program()
    assert path is not None
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    # It wants its two ends as descriptors 3 and 4, which may be taken here: the shell puts them there.
    moved = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    process = subprocess.Popen(
        ["bash", "-c", moved, path, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Tab(write, read)
    finally:
        # Its processes hang on the pipe and end with it; those that write into the profile must not be left behind.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(write)
        os.close(read)

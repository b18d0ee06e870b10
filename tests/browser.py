"""Headless Chromium for tests, driven by its DevTools protocol over two pipes: needs no package and no open port.

Every request that a page makes and every error that its console shows is kept; `Page.check` holds them against what the
page may do.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import io
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

NAMES = ("chromium", "chromium-headless-shell", "google-chrome", "chrome")
VARIABLE = "VSR_CHROMIUM"
MISSING = (
    f"no browser: install chromium or chromium-headless-shell (Debian), or let {VARIABLE} name a Chromium to start; "
    f"looked for {', '.join(NAMES)}"
)
PATIENCE = 60.0
"""How long an answer may take on a busy machine before the test fails [s]; nothing waits that long when all is well."""
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--mute-audio",
    "--force-color-profile=srgb",
    # WebGL without a graphics card; all else is quicker without it
    "--disable-accelerated-2d-canvas",
    "--disable-gpu-compositing",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    # whatever a page asks for, nothing gets out
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def find_browser() -> str | None:
    """The command to start; None where no browser is installed."""
    if given := os.environ.get(VARIABLE):
        found = shutil.which(given)
        assert found is not None, f"{VARIABLE}={given}: there is no such command"
        return found
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextlib.contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in this folder; skips the test where none is installed."""
    command = find_browser()
    if command is None:
        pytest.skip(MISSING)
    browser = Browser(command, folder)
    try:
        yield browser
    finally:
        browser.close()


class Browser:
    """One process of Chromium and the talk with it: JSON, each message ended by a zero byte."""

    def __init__(self, command: str, folder: Path):
        hears, self._out = _pipe()
        self._in, says = _pipe()
        flags = [*FLAGS, f"--user-data-dir={folder}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            flags.append("--no-sandbox")  # Chromium refuses to start as root with one
        # A shell puts the pipes where Chromium expects them, without code between fork and exec that JAX warns of.
        line = f'exec "$@" 3<&{hears} 4>&{says} {hears}<&- {says}>&-'
        self._log = (folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", command, *flags, "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(hears, says),
            start_new_session=True,
        )
        os.close(hears)
        os.close(says)
        self._heard, self._number = b"", 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}
        """by session: a page's own, and those of its frames that run in other processes"""

    def open(self, address: str, *, width: int = 640, height: int = 520, scheme: str = "light") -> Page:
        """A page in a window of its own; scheme: the system's colors, light or dark."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session, address)
        self._pages[session] = page
        self.prepare(session)
        page.resize(width, height)
        page.prefer(scheme)
        page.call("Page.enable")
        page.call("Page.navigate", url=address)
        page.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        return page

    def prepare(self, session: str) -> None:
        """Hear of all that happens in a page or a frame, and of further frames."""
        for domain in ("Runtime", "Log", "Network"):
            self.send(f"{domain}.enable", session)
        self.send("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        self.send("Runtime.runIfWaitingForDebugger", session)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Ask and wait for the answer."""
        number, until = self.send(method, session, **parameters), time.monotonic() + PATIENCE
        while number not in self._answers:
            assert time.monotonic() < until, f"the browser does not answer to {method}"
            self._listen(until)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def send(self, method: str, session: str | None = None, **parameters: Any) -> int:
        """Ask without waiting; returns the question's number."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        return self._number

    def close(self) -> None:
        """End the browser and all its processes; asked politely, it would take seconds to put its profile in order."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._log.close()

    def _listen(self, until: float) -> None:
        """Take in what the browser says, at the latest until a time."""
        ready, _, _ = select.select([self._in], [], [], max(until - time.monotonic(), 0))
        if not ready:
            return
        piece = os.read(self._in, 1 << 20)
        assert piece, f"the browser has ended: {Path(self._log.name).read_text(errors='replace')[-2000:]}"
        *whole, self._heard = (self._heard + piece).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif page := self._pages.get(message.get("sessionId", "")):
                self._note(page, message["method"], message["params"])

    def _note(self, page: Page, event: str, reported: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            page.requests.append(reported["request"]["url"])
        elif event == "Network.webSocketCreated":
            page.requests.append(reported["url"])
        elif event == "Runtime.exceptionThrown":
            details = reported["exceptionDetails"]
            page.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and reported["type"] in ("error", "assert"):
            page.errors.append(" ".join(str(part.get("value", part.get("description"))) for part in reported["args"]))
        elif event == "Log.entryAdded" and reported["entry"]["level"] == "error":
            page.errors.append(reported["entry"]["text"])
        elif event == "Target.attachedToTarget":
            self._pages[reported["sessionId"]] = page
            self.prepare(reported["sessionId"])


class Page:
    """One window: what a user can do with it, and what can be seen of it."""

    def __init__(self, browser: Browser, target: str, session: str, address: str):
        self.browser, self.target, self.session, self.address = browser, target, session, address
        self.requests: list[str] = []
        """addresses of all that was asked for, by the page and its frames"""
        self.errors: list[str] = []
        """of the console, and exceptions that nobody caught"""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        reported = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reported, f"{script}: {reported['exceptionDetails']}"
        return reported["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """The value of an expression as soon as it is true."""
        until = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < until, f"this never came true: {script}; errors: {self.errors}"
            time.sleep(0.02)
        return value

    def resize(self, width: int, height: int) -> None:
        """Of the window [pixels]."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """The system's colors: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self) -> np.ndarray:
        """What the window shows, (height, width, 3), 0 to 255."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)

    def middle_of(self, selector: str) -> tuple[float, float]:
        """Of the element, after scrolling to it [pixels]."""
        box = self.run(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)});"
            " element.scrollIntoView({ block: 'nearest' }); const box = element.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return box[0], box[1]

    def click(self, selector: str, times: int = 1) -> None:
        """With the mouse, where the element is."""
        self.click_at(*self.middle_of(selector), times)

    def click_at(self, x: float, y: float, times: int = 1) -> None:
        """With the mouse, at a place of the window [pixels]."""
        for count in range(1, times + 1):
            self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)
            self._mouse("mouseReleased", x, y, button="left", clickCount=count)

    def drag(self, selector: str, by: tuple[float, float], steps: int = 4) -> None:
        """From the middle of an element [pixels]."""
        x, y = self.middle_of(selector)
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for step in range(1, steps + 1):
            self._mouse("mouseMoved", x + by[0] * step / steps, y + by[1] * step / steps, button="left", buttons=1)
        self._mouse("mouseReleased", x + by[0], y + by[1], button="left", clickCount=1)

    def wheel(self, selector: str, down: float) -> None:
        """Over the middle of an element [pixels]."""
        x, y = self.middle_of(selector)
        self._mouse("mouseWheel", x, y, deltaX=0, deltaY=down)

    def press(self, key: str, *, code: int, shift: bool = False) -> None:
        """A key by its name and its number in the DOM."""
        text = {"text": key} if len(key) == 1 else {}
        reported = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **reported, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **reported)

    def choose(self, selector: str, value: str) -> None:
        """An option of a list, as if by hand."""
        self.run(
            f"(() => {{ const list = document.querySelector({json.dumps(selector)}); list.value = {json.dumps(value)};"
            " list.dispatchEvent(new Event('change', { bubbles: true })); })()"
        )

    def check(self, allowed: Callable[[str], bool] = lambda address: False) -> None:
        """No error, and no request but for the page itself, what it carries along, and what is allowed besides."""
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")  # what is still on its way
        assert not self.errors, self.errors
        own = (self.address, "data:", "blob:", "about:")
        strangers = [address for address in self.requests if not address.startswith(own) and not allowed(address)]
        assert not strangers, f"the page asked for {strangers}"

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def _pipe() -> tuple[int, int]:
    """To read from and to write to, with numbers above those that Chromium gets."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]


def changed(before: np.ndarray, after: np.ndarray) -> float:
    """Share of the pixels that differ."""
    return float((before != after).any(-1).mean())


def colors(picture: np.ndarray) -> int:
    """How many different ones a picture has."""
    return len(np.unique(picture @ [65536, 256, 1]))

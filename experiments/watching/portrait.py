"""The best robot so far as a page that plays, made anew in the background when a better one is on disk.

Simulated in this process, which has only the CPU and little of it: after each robot comes a rest of several times as
long as it took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from experiments.config import UserError, load_scene
from experiments.viewing.lives import Life, live
from experiments.viewing.page import page
from experiments.viewing.sources import Source
from experiments.watching.following import Follower
from vsr.drawing.painter import Look

LOOK_AGAIN = 1.0
"""How often the folder is looked at [s]."""
REST = 4.0
"""So many times as long as a robot took is the rest after it: at most a fifth of a core is used."""

UNWATCHED = 20.0
"""A page that asks for nothing for so long is closed [s]."""


class Portrait:
    """A page of the best robot so far."""

    def __init__(self, follower: Follower, seconds: float, simulate: Callable[[Source, float], Life] = live):
        """seconds: how long the robot lives [s]."""
        self.follower, self.seconds, self._simulate = follower, seconds, simulate
        self.version, self.text = 0, ""
        """how many pages were made, and the last one"""
        self.caption = ""
        self.trouble = ""
        """why the last robot could not be shown"""
        self.busy = False
        self._wanted = -UNWATCHED
        self._shown: tuple[Path, int, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Make no more; one that is being made is not waited for."""
        self._ended.set()

    def want(self) -> None:
        """Someone is watching."""
        self._wanted = time.monotonic()

    def look(self) -> bool:
        """Make a page if there is a robot that was not shown yet and someone is watching; whether one was tried."""
        if time.monotonic() - self._wanted > UNWATCHED:
            return False
        found = self._next()
        if found is None:
            return False
        seed, stamp = found
        self.busy, self._shown = True, stamp
        try:
            self._make(stamp[0], seed)
            self.trouble = ""
        except (UserError, ValueError, RuntimeError, OSError) as error:
            self.trouble = (str(error).splitlines() or [type(error).__name__])[0]
        finally:
            self.busy = False
        return True

    @property
    def is_coming(self) -> bool:
        """Whether there is a robot whose page is still to be begun."""
        return self._next() is not None

    def _next(self) -> tuple[int, tuple[Path, int, int]] | None:
        """Seed and file, with time and size, of a best robot that was not shown yet."""
        seed = self.follower.leader()
        if seed is None:
            return None
        file = self.follower.path / "best" / f"seed-{seed}.yaml"
        try:
            stat = file.stat()
        except OSError:
            return None  # the first checkpoint brings the first robot
        stamp = file, stat.st_mtime_ns, stat.st_size
        return None if stamp == self._shown else (seed, stamp)

    def _make(self, file: Path, seed: int) -> None:
        title = file.read_text(encoding="utf-8").partition("\n")[0]
        scene = load_scene(file)
        if scene.physics.implementation == "fused":  # there is no GPU here, on purpose
            scene = scene.model_copy(update={"physics": scene.physics.model_copy(update={"implementation": "auto"})})
        life = self._simulate(Source(f"{self.follower.path.resolve().name}, seed {seed}", scene), self.seconds)
        text = page([life], Look(), repeat=True)
        self.caption = title.removeprefix("#").strip().replace("_", " ") if title.startswith("#") else f"seed {seed}"
        self.text = text
        self.version += 1  # last, as it says that there is something new

    def _work(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            tried = self.look()
            self._ended.wait(max(LOOK_AGAIN, REST * (time.monotonic() - began) if tried else 0.0))

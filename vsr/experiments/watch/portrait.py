"""The best robot so far as a page that plays, made again in the background when a better one is on disk.

Simulated in this process, which has only the CPU and little of it: after each robot comes a rest of several times the
processor time it took. The first one, for which most is compiled and which everyone waits for, has the priority of any
other process; those after it come second to what evolves.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vsr.drawing.painter import Look
from vsr.experiments.config import UserError
from vsr.experiments.formatting import UNITS, number
from vsr.experiments.play.page import page
from vsr.experiments.play.recordings import RecordedRobot, Source, record_robot
from vsr.experiments.storage.robots import load_robot
from vsr.experiments.watch.following import BestRobot, Follower

LOOK_AGAIN, LOOK_SOON = 1.0, 0.2
"""How often the folder is looked at, and how often before the first robot [s]."""
REST = 4.0
"""The rest after a robot over the processor time that it took: at most a fifth of a core is used."""
POLITENESS = 10
"""How much lower than other processes' the priority is after the first robot: what evolves comes first."""
LOWEST = 19
THREADS = Path("/proc/self/task")
UNWATCHED = 20.0
"""A page that asks for nothing in this time is closed [s]."""


class Portrait:
    """A page of the best robot so far."""

    def __init__(
        self, follower: Follower, seconds: float, simulate: Callable[[Source, float], RecordedRobot] = record_robot
    ):
        """seconds: how long the episode is [s]."""
        self.follower, self.seconds, self._simulate = follower, seconds, simulate
        self.version, self.text = 0, ""
        """how many pages were made, and the last one"""
        self.caption = ""
        self.trouble = ""
        """why the last robot could not be shown"""
        self._began: float | None = None
        self._requested = -UNWATCHED
        self._shown: BestRobot | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Make no more; one that is being made is not waited for."""
        self._ended.set()

    def request(self) -> None:
        """Note that someone is watching."""
        self._requested = time.monotonic()

    def look(self) -> bool:
        """Make a page if there is a robot that was not shown yet and someone is watching; whether one was tried."""
        if time.monotonic() - self._requested > UNWATCHED:
            return False
        found = self._next()
        if found is None:
            return False
        self._began, self._shown = time.monotonic(), found
        try:
            self._make(found)
            self.trouble = ""
        except (UserError, ValueError, RuntimeError, OSError) as error:
            self.trouble = (str(error).splitlines() or [type(error).__name__])[0]
        finally:
            self._began = None
        return True

    @property
    def busy_seconds(self) -> float | None:
        """For how long a robot is being simulated [s]; None if none is."""
        began = self._began
        return None if began is None else time.monotonic() - began

    @property
    def is_coming(self) -> bool:
        """Whether there is a robot whose page is still to be begun."""
        return self._next() is not None

    def _next(self) -> BestRobot | None:
        """The best robot, if it was not shown yet."""
        found = self.follower.leader()
        return None if found == self._shown else found

    def _make(self, kept: BestRobot) -> None:
        scene = load_robot(kept.file)
        if scene.physics.implementation == "fused":  # there is no GPU here, on purpose
            scene = scene.model_copy(update={"physics": scene.physics.model_copy(update={"implementation": "auto"})})
        robot = self._simulate(Source(f"{self.follower.path.resolve().name}, seed {kept.seed}", scene), self.seconds)
        text = page([robot], Look(), repeat=True)
        self.caption = _caption(kept)
        self.text = text
        self.version += 1  # last, as it announces the change

    def _work(self) -> None:
        polite = False
        while not self._ended.is_set():
            before = time.process_time()
            tried = self.look()
            if tried and not polite:
                _be_polite()
                polite = True
            spent = time.process_time() - before if tried else 0.0
            self._ended.wait(max(LOOK_AGAIN if polite else LOOK_SOON, REST * spent))


def _caption(kept: BestRobot) -> str:
    if kept.title is None:
        return f"seed {kept.seed}"
    measure = kept.title.measure
    reached = f"{measure.replace('_', ' ')} {number(kept.title.value)} {UNITS.get(measure, '')}".rstrip()
    return f"best of seed {kept.seed}: individual {kept.title.individual}, {reached}"


def _be_polite() -> None:
    """Lower the priority of this process: on Linux that is one per thread, and XLA has started its own."""
    threads = [int(task.name) for task in THREADS.iterdir()] if THREADS.is_dir() else [0]
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended
            lower = os.getpriority(os.PRIO_PROCESS, thread) + POLITENESS
            os.setpriority(os.PRIO_PROCESS, thread, min(lower, LOWEST))

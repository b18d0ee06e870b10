"""Every command that reads a run folder, and what it answers, in a form that can be compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsr.experiments.torture.ends import read_end
from vsr.experiments.torture.ground import RUN, Ground
from vsr.experiments.torture.here import Ended

SECONDS = "0.2"
"""How long robots are shown [s]."""
AN_HOUR = 3600.0
PICTURE, STRIP, PAGE, NUMBERS = "curves.png", "strip.png", "page.html", "numbers.json"


@dataclass(frozen=True)
class Reader:
    """A command about the run folder `run` of the current folder."""

    name: str
    arguments: tuple[str, ...]
    answer: Callable[[Ended, Path], Any]
    """from what it printed and the folder it ran in"""


def _printed(ended: Ended, _: Path) -> Any:
    """The first JSON object in what was printed."""
    return json.JSONDecoder().raw_decode(ended.output, ended.output.find("{"))[0]


def _bytes(name: str) -> Callable[[Ended, Path], Any]:
    return lambda _, folder: (folder / name).read_bytes()


def _page(_: Ended, folder: Path) -> Any:
    """Without the time at which it was written."""
    return re.sub(r"Written by vsr report, [^.]* UTC", "", (folder / PAGE).read_text(encoding="utf-8"))


def _end(_: Ended, folder: Path) -> Any:
    return read_end(folder / RUN)


def readers(ground: Ground, seed: int, only: Sequence[str] = ()) -> list[Reader]:
    """All of them, or those of some names; seed: whose best robot is simulated."""
    every = [
        Reader("compare", ("compare", RUN, "--json"), _printed),
        Reader("plot", ("plot", RUN, "--out", PICTURE), _bytes(PICTURE)),
        Reader("play", ("play", RUN, "--out", STRIP, "--seconds", SECONDS), _bytes(STRIP)),
        Reader("report", ("report", RUN, "--out", PAGE), _page),
        Reader("simulate", ("simulate", f"{RUN}/best/seed-{seed}.yaml", "--json"), _printed),
        Reader("refine", ("refine", RUN, "--factors", "1", "--starts", "1", "--json", NUMBERS), _bytes(NUMBERS)),
        Reader("verify", ("verify", RUN, "--json"), _printed),
        Reader("evaluate", ("evaluate", RUN, "--on", "transfer", "--json", NUMBERS), _bytes(NUMBERS)),
        Reader("watch", ("watch", RUN), _printed),
        Reader("resume", ground.evolve(Path(RUN), "--no-report"), _end),
    ]
    return [reader for reader in every if not only or reader.name in only]


def read(
    ground: Ground, reader: Reader, source: Path, folder: Path, change: Callable[[Path], None] = lambda run: None
) -> tuple[Ended, Any]:
    """Run it in a new folder on a copy of a run; its answer, None if it ended otherwise than with code 0.

    change: what is done to the copy before.
    The copy is of an hour ago: what was just written could be a run that goes on, on another computer.
    """
    folder.mkdir(exist_ok=True)
    shutil.copytree(source, folder / RUN)
    change(folder / RUN)
    then = time.time() - AN_HOUR
    for file in (folder / RUN).rglob("*"):
        os.utime(file, (then, then), follow_symlinks=False)
    if reader.name == "watch":
        ended = ground.worker.watch(RUN, folder)
    else:
        ended, _ = ground.worker.run(reader.arguments, folder)
    return ended, reader.answer(ended, folder) if ended.code == 0 and not ended.traceback else None

"""Files of a run folder with a bit flipped, cut short or gone: no command may crash, or believe them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from vsr.experiments.runs.checkpoints import newest_generation
from vsr.experiments.runs.lineage import LINEAGE
from vsr.experiments.runs.locks import LOCK
from vsr.experiments.torture.ends import End, different
from vsr.experiments.torture.ground import Ground, last_line
from vsr.experiments.torture.here import Ended
from vsr.experiments.torture.readers import Reader, read, readers

WHAT = "one file of a run with a flipped bit, cut short or removed; every command on it"
WAYS = ("flip", "truncate", "remove", "flip", "flip", "truncate")
"""How files are damaged, one after the other."""


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """Damage one file of a finished or a stopped run, then ask every command about it."""
    places = [(source, file) for source in (ground.half, ground.whole) for file in files_of(source)]
    source, name = places[number % len(places)]
    way = WAYS[number // len(places) % len(WAYS)]
    if way == "remove" and _is_ahead(source, name):
        way = "truncate"
    return try_damage(ground, source, name, way, f"damage:{number}", random)


def _is_ahead(run: Path, name: str) -> bool:
    """Whether a file is lineage that no checkpoint counts on yet: a run that goes on may not have written it."""
    file = Path(name)
    return file.parent.name == LINEAGE and int(file.stem) >= newest_generation(run)


def try_damage(
    ground: Ground, source: Path, name: str, way: str, trial: str, random: Random, only: Sequence[str] = ()
) -> list[str]:
    """Damage a file of a copy of a run, by its name in the folder; only: the readers that are asked, if not all."""
    folder = ground.trial_folder(trial)
    shutil.copytree(source, folder / "damaged")
    done = damage(folder / "damaged" / name, way, random)
    seed = int(Path(name).stem.removeprefix("seed-")) if name.startswith("best/") else ground.end.statistics[0]["seed"]
    found = []
    for reader in readers(ground, seed, only):
        right = right_answer(ground, source, reader, seed)
        ended, answer = read(ground, reader, folder / "damaged", folder / reader.name)
        fault = judge(ended, answer, right, name)
        if fault:
            found.append(f"{source.parent.name} run, {name} {done}: vsr {reader.name}: {fault}")
    return found


def files_of(run: Path) -> list[str]:
    """All files of a run folder, but for its lock."""
    found = sorted(file.relative_to(run) for file in run.rglob("*") if file.is_file())
    return [str(file) for file in found if file.name != LOCK]


def damage(file: Path, way: str, random: Random) -> str:
    """Damage a file; returns how, in words."""
    data = bytearray(file.read_bytes())
    if way == "remove" or not data:
        file.unlink()
        return "removed"
    if way == "truncate":
        length = random.choice((0, len(data) // 2, len(data) - 1, random.randrange(len(data))))
        file.write_bytes(data[:length])
        return f"cut to {length} of {len(data)} bytes"
    bit = random.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    return f"with bit {bit} flipped"


def right_answer(ground: Ground, source: Path, reader: Reader, seed: int) -> Any:
    """What a command answers about a run that is as it was."""
    key = source.parent.name, f"{reader.name} {seed}"
    if key not in ground.answers:
        folder = ground.trial_folder(f"right-{key[0]}-{reader.name}-{seed}")
        ended, answer = read(ground, reader, source, folder)
        if answer is None:
            raise RuntimeError(f"vsr {reader.name} fails with an undamaged run: {last_line(ended)}")
        ground.answers[key] = answer
    return ground.answers[key]


def judge(ended: Ended, answer: Any, right: Any, name: str) -> str | None:
    """What is wrong with an answer about a run of which one file is damaged; None if nothing is."""
    if ended.traceback:
        return ended.traceback
    if ended.code not in (0, 2):
        return f"code {ended.code}: {last_line(ended)}"
    named = is_named(name, ended.output)
    if ended.code == 2:
        return None if named else f"refused without naming the file: {last_line(ended)}"
    if isinstance(answer, End):
        return _judge_end(answer, right, named)
    return None if answer == right or named else "another answer, without a word about the file"


def _judge_end(end: End, right: End, named: bool) -> str | None:
    """Whatever is damaged, a run that goes on must search as it would have; what it tells may lack what is named."""
    unlike = different(end, right)
    of_search = [what for what in unlike if what.startswith(("checkpoint", str(end.generations)))]
    if of_search or (unlike and not named):
        return f"it goes on, and {'; '.join(of_search or unlike)}"
    return None


def is_named(name: str, output: str) -> bool:
    """Whether a message names a file, or the folder of the run it is in."""
    file = Path(name)
    return file.name in output or (file.parent.name != "" and file.parent.name in output)

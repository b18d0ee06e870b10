"""Run folders as older versions left them: they are read, and they go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np

from vsr.experiments.runs.rows import STATISTICS
from vsr.experiments.runs.settings import META
from vsr.experiments.torture.ends import different, read_end
from vsr.experiments.torture.ground import RUN, Ground, last_line
from vsr.experiments.torture.readers import read, readers

WHAT = "a run folder as an older version left it; every command on it"
LATER_COLUMNS = ("failures", "spread", "bodies", "crc32")
"""Which statistics of the first versions did not have."""
ALL = "all"
KEPT_IN_META = ("seeds", "plugins", "starts")
LATER_IN_STARTS = ("processes", "code_generator", "compile_seconds")


def trial(ground: Ground, number: int, random: Random) -> list[str]:
    """One way of being old after the other, then all together."""
    chosen = [*WAYS, ALL][number % (len(WAYS) + 1)]
    return try_age(ground, random.choice((ground.half, ground.whole)), chosen, f"age:{number}")


def try_age(ground: Ground, source: Path, chosen: str, trial: str, only: Sequence[str] = ()) -> list[str]:
    """Make a copy of a run older in a way; only: the readers that are asked, if not all."""
    folder = ground.trial_folder(trial)
    shutil.copytree(source, folder / "old")
    for name, make_older in WAYS.items():
        if chosen in (name, ALL):
            make_older(folder / "old")
    found = []
    for reader in readers(ground, ground.end.statistics[0]["seed"], only):
        own = folder / reader.name
        ended, _ = read(ground, reader, folder / "old", own)
        if ended.traceback or ended.code != 0:
            found.append(f"{chosen}: vsr {reader.name}: {last_line(ended)}")
        elif reader.name == "resume":
            found += [f"{chosen}: after resuming, {what}" for what in _different(ground, own / RUN)]
    return found


def _different(ground: Ground, run: Path) -> list[str]:
    """From the undisturbed end, but for what older versions did not write down."""
    end = read_end(run)
    for row, right in zip(end.statistics, ground.end.statistics, strict=False):
        row.update({name: right[name] for name in LATER_COLUMNS if name in right and name not in row})
    return different(end, ground.end)


def _fewer_columns(run: Path) -> None:
    file = run / STATISTICS
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    kept = [{name: value for name, value in row.items() if name not in LATER_COLUMNS} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


def _shorter_meta(run: Path) -> None:
    file = run / META
    meta = json.loads(file.read_text(encoding="utf-8"))
    starts = [{name: value for name, value in start.items() if name not in LATER_IN_STARTS} for start in meta["starts"]]
    older = {name: meta[name] for name in KEPT_IN_META if name in meta}
    file.write_text(json.dumps({**older, "starts": starts}), encoding="utf-8")


def _plain_arrays(run: Path) -> None:
    """npz files as numpy writes them, without anything that vouches for them."""
    for file in [*(run / "checkpoints").glob("*.npz"), *(run / "lineage").glob("*.npz")]:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]


def _only_what_matters(run: Path) -> None:
    """Without pictures and pages, and with one checkpoint, as a copy to another place may be."""
    for name in ("fitness.png", "report.html", "lock"):
        (run / name).unlink(missing_ok=True)
    for old in sorted((run / "checkpoints").glob("*.npz"))[:-1]:
        old.unlink()


WAYS: dict[str, Callable[[Path], None]] = {
    "statistics with fewer columns": _fewer_columns,
    "meta.json that says less": _shorter_meta,
    "arrays that nothing vouches for": _plain_arrays,
    "only what matters": _only_what_matters,
}

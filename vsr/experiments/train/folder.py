"""The folder of a training: its settings, its curve and the state of its learner, from which it goes on.

settings.json   what it was begun with
curve.json      a row for every round
search.npz      the learner after the last round, with that row
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vsr.arrays import CorruptFileError, read_arrays
from vsr.experiments.config.problems import UserError
from vsr.experiments.stopping import EXIT_CODE
from vsr.experiments.storage.files import write_arrays, write_json

SETTINGS, CURVE, SEARCH = "settings.json", "curve.json", "search.npz"
MOST_NAMED = 5
"""Differences that a message names."""
Row = dict[str, Any]


class Stopped(UserError):
    """The user has stopped a training; all of it is saved."""

    exit_code = EXIT_CODE


@dataclass(frozen=True)
class TrainingFolder:
    """A training on disk."""

    path: Path
    curve: list[Row]
    """rows of all rounds so far"""

    def standing(self, rounds: str) -> str:
        """For whoever stops a training; rounds: their name."""
        done = len(self.curve)
        return f"stopped after {done} {rounds}, all saved in {self.path}; to go on, add --resume to the same command"

    def store(self, learner: Any, row: Row) -> None:
        """Add a round: the learner first, with its row: a curve that is a row short is fixed, one too long would not
        be."""
        self.curve.append(row)
        arrays = {name: np.asarray(leaf) for name, leaf in _named(learner).items()}
        write_arrays(self.path / SEARCH, arrays, {"rows": len(self.curve), "row": row})
        write_json(self.path / CURVE, self.curve)

    def restore(self, like: Any) -> Any:
        """The learner as it was left, or `like` if nothing was; the curve gets its last row if that was not written."""
        file = self.path / SEARCH
        if not file.exists():
            return like
        try:
            found = read_arrays(file)
        except CorruptFileError as error:
            raise UserError(f"{error}; begin again with another --out") from None
        shapes = {name: leaf.shape for name, leaf in _named(like).items()}
        done = found.label.get("rows")
        if {name: array.shape for name, array in found.arrays.items()} != shapes or not isinstance(done, int):
            raise UserError(f"{file}: it is not of this training; begin again with another --out")
        if done == len(self.curve) + 1 and "row" in found.label:
            self.curve.append(found.label["row"])
        if done != len(self.curve):
            raise UserError(
                f"{self.path / CURVE}: it has {len(self.curve)} rows, but {SEARCH} is of {done}; put back the one that "
                "belongs to the other, or begin again with another --out"
            )
        leaves, structure = jax.tree.flatten(like)
        stored = [found.arrays[name] for name in _named(like)]
        return structure.unflatten(jax.numpy.asarray(one, leaf.dtype) for one, leaf in zip(stored, leaves, strict=True))


def _named(tree: Any) -> dict[str, Any]:
    """Leaves by their number, in the order of the tree."""
    return {f"{number:04d}": leaf for number, leaf in enumerate(jax.tree.leaves(tree))}


def open_folder(out: str, resume: bool, lasting: Mapping[str, Any]) -> TrainingFolder:
    """A new training, or one that goes on; lasting: by the names of options, what may not change then.

    Raises UserError if there is another one, or none.
    """
    folder = Path(out)
    settings = folder / SETTINGS
    if not resume:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"--out {folder}: it is there already; give another, or go on with --resume")
        folder.mkdir(parents=True, exist_ok=True)
        return TrainingFolder(folder, [])
    if not settings.is_file():
        raise UserError(f"--out {folder}: there is no {SETTINGS}, so there is no run to go on with")
    before = _read(settings, dict)
    old, new = _leaves({name: before.get(name) for name in lasting}), _leaves(json.loads(json.dumps(lasting)))
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if changed:
        given = ", ".join(f"--{name} {old.get(name)}" for name in changed[:MOST_NAMED])
        raise UserError(f"--out {folder}: the run was begun with {given}; give the same")
    curve = folder / CURVE
    return TrainingFolder(folder, _read(curve, list) if curve.is_file() else [])


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Values inside a mapping by their dotted paths."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    found: dict[str, Any] = {}
    for name, part in value.items():
        found.update(_leaves(part, f"{path}.{name}" if path else name))
    return found


def _read(file: Path, kind: type) -> Any:
    """Contents of a JSON file, if it is of a kind."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file}: corrupted ({error}); begin again with another --out") from None
    if not isinstance(found, kind):
        raise UserError(f"{file}: corrupted (it holds {type(found).__name__}); begin again with another --out")
    return found

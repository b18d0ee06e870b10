"""Checkpoints: all that a search needs to go on, in one npz file each, with a leading axis (seeds,) on every array.

A search's state is any pytree of arrays; its leaves are named by their paths. Two checkpoints are kept, so that one
that turns out to be corrupted costs time but not the run. Each carries a check sum (vsr.arrays).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vsr.arrays import CorruptFileError, read_arrays, read_label
from vsr.experiments.config.problems import UserError
from vsr.experiments.storage.files import numbered_files, write_arrays

KEPT = 2
GENERATORS = "threefry2x32", "rbg", "unsafe_rbg"
"""Of random keys, as JAX names them."""


@dataclass(frozen=True)
class Checkpoint:
    """From where a run can go on."""

    generations: int = 0
    """done so far"""
    searches: tuple[Any, ...] | None = None
    """None for the beginning"""
    label: dict[str, Any] = field(default_factory=dict)
    """state when it was written: `generation`, `experiment` (fingerprint of the settings), `plugins` (their
    digests), `lineage` (check sum of the newest piece)"""
    skipped: tuple[str, ...] = ()
    """newer ones that could not be used, with the reason"""


def save_checkpoint(folder: Path, generations: int, searches: tuple[Any, ...], label: dict[str, Any]) -> None:
    """Write a checkpoint named after the number of generations done, then remove the oldest."""
    save_arrays(folder / f"{generations:08d}.npz", searches, {"generation": generations, **label})
    for old in checkpoint_files(folder)[:-KEPT]:
        old.unlink(missing_ok=True)


def save_arrays(file: Path, of_seeds: Sequence[Any], label: dict[str, Any] | None = None) -> None:
    """Write equal pytrees, one a seed, as arrays named by their paths.

    They are not compressed: genes are nearly random, and archives of 20 seeds would take seconds instead of tenths.
    """
    every = [_named_leaves(tree) for tree in jax.device_get([_plain(tree) for tree in of_seeds])]
    arrays = {name: np.stack([leaves[name] for leaves in every]) for name in every[0]}
    write_arrays(file, arrays, label, compressed=False)


def checkpoint_files(folder: Path) -> list[Path]:
    """All checkpoints, the oldest first."""
    return numbered_files(folder)


def newest_generation(run: Path) -> int:
    """How many generations the newest checkpoint of a run folder has by its name; 0 if there is none."""
    files = checkpoint_files(run / "checkpoints")
    return int(files[-1].stem) if files else 0


def whole_generations(folder: Path) -> int:
    """How many generations the newest whole checkpoint has; 0 if there is none."""
    for path in reversed(checkpoint_files(folder)):
        try:
            label, _ = read_label(path)
        except CorruptFileError:
            continue
        if label.get("generation") == int(path.stem):
            return int(path.stem)
    return 0


def load_checkpoint(folder: Path, like: Any, seeds: int, experiment: str | None = None) -> Checkpoint:
    """The newest whole checkpoint of a run.

    like: the shapes of one seed's search; experiment: the fingerprint of the run's settings, where it is known. Raises
    UserError for a checkpoint that holds another search.
    """
    skipped: list[str] = []
    for path in reversed(checkpoint_files(folder)):
        try:
            stored = read_arrays(path)
            _check_label(path, stored.label, experiment)
        except CorruptFileError as error:
            skipped.append(f"{error}; skipped")
        else:
            return Checkpoint(int(path.stem), _searches(path, stored.arrays, like, seeds), stored.label, tuple(skipped))
    return Checkpoint(skipped=tuple(skipped))


def _check_label(path: Path, label: dict[str, Any], experiment: str | None) -> None:
    """Raise CorruptFileError for a checkpoint that stands in another's place."""
    generation, made_with = label.get("generation"), label.get("experiment")
    if generation != int(path.stem):
        raise CorruptFileError(path, f"it is the checkpoint of generation {generation}, copied or renamed")
    if experiment is not None and experiment != made_with:
        raise CorruptFileError(path, "it was made by a run with other settings")


def _searches(path: Path, arrays: dict[str, np.ndarray], like: Any, seeds: int) -> tuple[Any, ...]:
    plain = jax.eval_shape(_plain, like)
    needed_leaves = _named_leaves(plain)
    for name, leaf in needed_leaves.items():
        given, needed = arrays.get(name), (seeds, *leaf.shape)
        if given is None or given.shape != needed or given.dtype != leaf.dtype:
            found = "missing" if given is None else f"{given.dtype}{given.shape}"
            raise UserError(f"{path}: made by another experiment: {name} is {found}, not {leaf.dtype}{needed}")
    structure = jax.tree.structure(plain)

    def of_seed(index: int) -> Any:
        leaves = [jax.numpy.asarray(arrays[name][index]) for name in needed_leaves]
        return jax.tree.map(_as_before, like, structure.unflatten(leaves))

    return tuple(map(of_seed, range(seeds)))


def _named_leaves(search: Any) -> dict[str, Any]:
    """Every array of a search by its path, for example `population.genes.body`, or its full path where need be.

    numpy keeps the name `file` for itself, and mappings may have keys with dots.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(search)
    short = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    plain = {name for name in short if short.count(name) == 1 and name not in ("", "file")}
    return {
        name if name in plain else f"leaf{jax.tree_util.keystr(path)}": leaf
        for name, (path, leaf) in zip(short, leaves, strict=True)
    }


def _plain(search: Any) -> Any:
    """The same as files can hold it: random keys, and numbers that numpy does not know, as whole numbers."""

    def plain(leaf: Any) -> Any:
        if _is_key(leaf):
            return jax.random.key_data(leaf)
        unknown = np.dtype(leaf.dtype).kind == "V"
        return jax.lax.bitcast_convert_type(leaf, f"uint{8 * leaf.dtype.itemsize}") if unknown else leaf

    return jax.tree.map(plain, search)


def _as_before(like: Any, leaf: Any) -> Any:
    if _is_key(like):
        return jax.random.wrap_key_data(leaf, impl=_generator(like))
    return leaf if leaf.dtype == like.dtype else jax.lax.bitcast_convert_type(leaf, like.dtype)


def _generator(key: Any) -> str:
    """The name of a random key's generator, from its shape alone."""
    return next(name for name in GENERATORS if jax.eval_shape(partial(jax.random.key, 0, impl=name)).dtype == key.dtype)


def _is_key(leaf: Any) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)

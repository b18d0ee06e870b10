"""Checkpoints: all that a search needs to go on, in one npz file each.

Two are kept, so that one that turns out to be damaged costs time but not the run. npz files carry check sums.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from evo import Search
from experiments.runs.files import write_arrays

KEPT = 2


def save_checkpoint(folder: Path, search: Search) -> None:
    """Write a checkpoint named after the number of generations told, then remove the oldest."""
    arrays = {name: np.asarray(leaf) for name, leaf in _named_leaves(search).items()}
    count = int(arrays["generation"].flat[0])
    write_arrays(folder / f"{count:08d}.npz", arrays)
    for old in sorted(folder.glob("*.npz"))[:-KEPT]:
        old.unlink(missing_ok=True)


def load_checkpoint(folder: Path, like: Search) -> tuple[int, Search | None, list[str]]:
    """The newest whole checkpoint: generations told, search, and what had to be skipped with the reason.

    like: a search of the same experiment, for its structure (arrays or shapes).
    """
    skipped = []
    for path in sorted(folder.glob("*.npz"), reverse=True):
        try:
            return int(path.stem), _read(path, like), skipped
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            skipped.append(f"{path}: not a whole checkpoint ({type(error).__name__}: {error}); skipped")
    return 0, None, skipped


def _read(path: Path, like: Search) -> Search:
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    wanted = _named_leaves(like)
    for name, leaf in wanted.items():
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            given, needed = arrays[name], leaf
            raise ValueError(f"{name} is {given.dtype}{given.shape}, not {needed.dtype}{needed.shape}")
    leaves = [jax.numpy.asarray(arrays[name]) for name in wanted]
    plain = jax.tree.unflatten(jax.tree.structure(_with_plain_key(like)), leaves)
    return Search(jax.random.wrap_key_data(plain.key), plain.generation, plain.population)


def _named_leaves(search: Search) -> dict[str, Any]:
    """Every array of a search by its path, for example `population.genes.body`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(_with_plain_key(search))
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _with_plain_key(search: Search) -> Search:
    if isinstance(search.key, jax.ShapeDtypeStruct):
        key = jax.eval_shape(jax.random.key_data, search.key)
    else:
        key = jax.random.key_data(search.key)
    return Search(key, search.generation, search.population)

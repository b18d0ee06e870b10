"""Robots of EvoGym: npz files with an array of kinds, row 0 on top, and pairs of voxels that are welded together."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsr.experiments.config import UserError
from vsr.robot import KINDS, Body, Material
from vsr.robot.engine_kinds import ENGINE_KINDS
from vsr.robot.kinds import SYMBOLS

FIXED = 5
"""EvoGym's kind of voxels that do not move."""
MOST_CELLS = 10_000


class ConvertedRobot(NamedTuple):
    """A robot from a file of another simulator."""

    scene: dict[str, Any]
    """as a file of this project holds it"""
    lost: list[str]
    """parts of the file that are not carried over, for people"""


def read_npz(path: Path, engine: str, task: str) -> ConvertedRobot:
    """A robot in such masses (evogym or points), for a task; raises UserError."""
    structure, connections = _arrays(path)
    kinds = set(np.unique(structure).tolist())
    if FIXED in kinds:
        raise UserError(f"{path}: the robot has voxels of kind {FIXED} (fixed), which robots cannot have here")
    unknown = sorted(kinds - set(range(len(SYMBOLS) + 1)))
    if unknown:
        known = "0 empty, 1 rigid, 2 soft, 3 horizontal, 4 vertical"
        raise UserError(f"{path}: kind {unknown[0]} is not known; there are {known}")
    if not structure.any():
        raise UserError(f"{path}: the robot has no voxel")
    return ConvertedRobot({"robot": {"body": body_of(structure, engine)}, "task": task}, _loose(structure, connections))


def body_of(structure: np.ndarray, engine: str) -> dict[str, Any]:
    """EvoGym's array as a body in such masses (evogym or points), as a file holds it."""
    body: dict[str, Any] = {
        "shape": ["".join((".", *SYMBOLS)[kind] for kind in row) for row in structure],
        "engine": engine,
    }
    chosen = KINDS[engine]  # pyright: ignore[reportArgumentType]
    if chosen != ENGINE_KINDS[engine].materials:
        used = sorted(set(np.unique(structure).tolist()) - {0})
        body["materials"] = {SYMBOLS[kind - 1]: given(chosen[SYMBOLS[kind - 1]]) for kind in used}
    return body


def given(material: Material) -> dict[str, Any]:
    """Fields of a material that are not the defaults, as a file holds them."""
    return material.model_dump(mode="json", exclude_defaults=True)


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """The structure, and the connections if there are any."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in file.files]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not an npz file of arrays: {error}") from None
    if not arrays or arrays[0].ndim != 2 or not 0 < arrays[0].size <= MOST_CELLS:
        raise UserError(f"{path}: the first array should be the robot's structure, rows and columns of kinds")
    structure = arrays[0]
    if not (np.isfinite(structure).all() and (structure == structure.round()).all()):
        raise UserError(f"{path}: kinds of voxels are whole numbers from 0 to 4")
    if len(arrays) > 1 and (arrays[1].ndim != 2 or arrays[1].shape[0] != 2):
        raise UserError(f"{path}: the second array should be pairs of connected voxels, (2, pairs)")
    return structure.astype(int), arrays[1].astype(int) if len(arrays) > 1 else None


def _loose(structure: np.ndarray, connections: np.ndarray | None) -> list[str]:
    """Neighbors that the file does not weld together; here all neighbors are."""
    if connections is None:
        return []
    given = {tuple(sorted(pair)) for pair in connections.T.tolist()}
    loose = [pair for pair in map(tuple, all_connections(structure).T.tolist()) if pair not in given]
    if not loose:
        return []
    return [f"{len(loose)} pairs of neighbors are not connected in the file; here all neighbors are"]


def all_connections(structure: np.ndarray) -> np.ndarray:
    """Every pair of neighboring voxels by their numbers, read row by row from the top, (2, pairs)."""
    number = np.arange(structure.size).reshape(structure.shape)
    there = structure != 0
    beside = there[:, :-1] & there[:, 1:]
    below = there[:-1] & there[1:]
    pairs = [(number[:, :-1][beside], number[:, 1:][beside]), (number[:-1][below], number[1:][below])]
    found = np.concatenate([np.stack(pair) for pair in pairs], 1)
    return found[:, np.lexsort((found[1], found[0]))]


def structure_of(body: Body, where: str) -> np.ndarray:
    """A described body as EvoGym's array; raises UserError for materials that are none of its kinds."""
    if body.dimension != 2:
        raise UserError(f"{where}: the robot is in 3-D, and EvoGym's are in 2-D")
    table = KINDS.get(body.engine, {})
    kinds = {symbol: number + 1 for number, symbol in enumerate(SYMBOLS)}
    number = []
    for symbol, material in body.materials.items():
        same = [kinds[known] for known, one in table.items() if one == material]
        if not same and (body.cells == len(number)).any():
            raise UserError(
                f"{where}: robot.body.materials.{symbol} is none of EvoGym's kinds; use engine: evogym with the "
                f"symbols r, s, h, v (rigid, soft, horizontal, vertical), or its kinds of points "
                f"(docs/reference/tasks.md)"
            )
        number.append(same[0] if same else 0)
    return np.array([*number, 0])[body.cells][::-1]

"""Every connected body that fits a small grid, each once wherever it lies in the grid.

A body has a number: its cells read as digits, the first cell (lowest row, first column) the lowest digit, 0 for an
empty cell, else one more than the material's place. Bodies are moved to the first corner before. A mirror image is
another body: what walks to the right is not what walks to the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from vsr.experiments.config.problems import UserError
from vsr.robot.shape import EMPTY_SYMBOLS, drawing

MOST_GRIDS = 30_000_000
"""Ways to fill a grid that are looked through."""
BETWEEN_ROWS = "/"


def grids(kinds: int, cells: int) -> int:
    """Ways to fill a grid; kinds: of voxels, an empty cell not counted."""
    return (kinds + 1) ** cells


def every_body(shape: tuple[int, int], active: Sequence[bool], least_active: int) -> np.ndarray:
    """Numbers of all bodies in order, (bodies,); active: of each material; least_active: voxels that are."""
    kinds = len(active)
    worth = (kinds + 1) ** np.arange(shape[0] * shape[1], dtype=np.int64)
    found = [
        _filled(np.flatnonzero(present.ravel()), worth, np.asarray(active), least_active)
        for present in outlines(shape)
        if present.sum() >= least_active
    ]
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def outlines(shape: tuple[int, int]) -> list[np.ndarray]:
    """Where voxels may be: connected sets of cells in the first corner, each (rows, columns)."""
    found = (np.array(cells, bool).reshape(shape) for cells in product((False, True), repeat=shape[0] * shape[1]))
    return [present for present in found if present[0].any() and present[:, 0].any() and is_connected(present)]


def is_connected(present: np.ndarray) -> bool:
    """Whether all cells hang together by sides, and there are any."""
    left = set(map(tuple, np.argwhere(present)))
    reached = [left.pop()] if left else []
    for row, column in reached:
        near = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)} & left
        left -= near
        reached += near
    return bool(reached) and not left


def _filled(places: np.ndarray, worth: np.ndarray, active: np.ndarray, least_active: int) -> np.ndarray:
    """Numbers of all bodies of one outline, in any order."""
    numbers, driven = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for place in places:
        numbers = (numbers[:, None] + worth[place] * np.arange(1, len(active) + 1)).ravel()
        driven = (driven[:, None] + active).ravel()
    return numbers[driven >= least_active]


def cells_of(numbers: np.ndarray, shape: tuple[int, int], kinds: int) -> np.ndarray:
    """Materials of bodies, -1 for an empty cell, (bodies, rows, columns), the lowest row first."""
    digits = numbers[:, None] // (kinds + 1) ** np.arange(shape[0] * shape[1], dtype=np.int64) % (kinds + 1)
    return (digits - 1).astype(np.int32).reshape(-1, *shape)


def number_of(cells: np.ndarray, kinds: int) -> int:
    """The number of a body, wherever it lies in its grid; cells: (rows, columns), -1 for an empty one."""
    rows, columns = np.nonzero(cells >= 0)
    moved = np.roll(cells, (-rows.min(), -columns.min()), (0, 1))
    return int(((moved.ravel() + 1) * (kinds + 1) ** np.arange(moved.size, dtype=np.int64)).sum())


def code_of(cells: np.ndarray, symbols: Sequence[str]) -> str:
    """A body as people write it, the top row first: `.a./aaa/a.a`."""
    return BETWEEN_ROWS.join(drawing(cells, list(symbols)))


def read_code(code: str, shape: tuple[int, int], symbols: Sequence[str]) -> np.ndarray:
    """Cells of a body, (rows, columns); raises UserError for what is no body of this grid."""
    rows = code.strip().split(BETWEEN_ROWS)
    known = {symbol: place for place, symbol in enumerate(symbols)} | dict.fromkeys(EMPTY_SYMBOLS, -1)
    sizes = f"{shape[0]} rows of {shape[1]}"
    if len(rows) > shape[0] or max(map(len, rows)) > shape[1]:
        raise UserError(f"body '{code}': at most {sizes} cells, the top row first, such as {_example(shape, symbols)}")
    if strange := [letter for row in rows for letter in row if letter not in known]:
        names = ", ".join(symbols)
        raise UserError(
            f"body '{code}': there is no material '{strange[0]}'; the materials are {names}, and . is empty"
        )
    cells = np.full(shape, -1, np.int32)
    for place, row in enumerate(reversed(rows)):
        cells[place, : len(row)] = [known[letter] for letter in row]
    if not is_connected(cells >= 0):
        raise UserError(f"body '{code}': its voxels do not hang together by their sides")
    return cells


def _example(shape: tuple[int, int], symbols: Sequence[str]) -> str:
    return BETWEEN_ROWS.join([symbols[-1] * shape[1]] * shape[0])

"""The body as a researcher draws it.

Rows of symbols, top row first, one material per symbol; in 3-D, level by level.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from vsr.display import Displayed
from vsr.robot.engine_kinds import ENGINE_KINDS, EngineName, default_masses, impossible
from vsr.robot.material import Material
from vsr.spec import Real, Spec, validation_error

EMPTY_SYMBOLS = ". "
Symbols = dict[Annotated[str, Field(min_length=1, max_length=1)], Material]


def issues(
    materials: dict[str, Material], engine: EngineName, dimension: int
) -> list[tuple[tuple[str, str, str], str]]:
    """Where and why materials cannot be those of voxels with such masses."""
    found = {symbol: complaint for symbol in materials if (complaint := materials[symbol].issue(engine, dimension))}
    if any(field == "fluid" for field, _ in found.values()):  # which needs other masses: what suits those is no fault
        found = {
            symbol: complaint
            for symbol, complaint in found.items()
            if complaint[0] == "fluid" or materials[symbol].issue("points", dimension)
        }
    wrong = [(("materials", symbol, field), reason) for symbol, (field, reason) in found.items()]
    fluids = {symbol: material.fluid for symbol, material in materials.items() if material.fluid is not None}
    depths = {fluid.depth for fluid in fluids.values()}
    if dimension == 2 and len(depths) > 1:
        text = f"a body has one depth; given are {', '.join(f'{depth:g} m' for depth in sorted(depths))}"
        wrong += [(("materials", symbol, "fluid"), text) for symbol in list(fluids)[1:]]
    return wrong


def wrong_side(engine: EngineName, voxel_side: float) -> list[tuple[tuple[str, ...], str]]:
    """Where and why voxels with such masses cannot have a side [m]."""
    kind = ENGINE_KINDS[engine]
    if not kind.only_side or voxel_side == kind.default_side:
        return []
    return [
        (("voxel_side",), f"{voxel_side:g} given; {engine} masses are in units of their own: {kind.default_side:g}")
    ]


def defaults_of(engine: Any) -> dict[str, Any]:
    """What a body with such masses has unless it says otherwise; nothing for masses that do not exist."""
    if not isinstance(engine, str) or engine not in ENGINE_KINDS:
        return {}
    return {"voxel_side": ENGINE_KINDS[engine].default_side, "materials": dict(ENGINE_KINDS[engine].materials)}


class Body(Displayed, Spec):
    """A grid of voxels in 2-D or 3-D.

    shape: rows of symbols, the top row first, as they look; '.' is an empty cell. In 3-D: the levels, the top one
    first, each drawn as seen from above, x to the right and y upwards; in a text an empty line lies between two
    levels.
    """

    shape: tuple[str, ...] | tuple[tuple[str, ...], ...]
    """rows of material symbols, top row first; in 3-D levels of rows, top level first; '.' is empty"""
    materials: Symbols = Field(default_factory=lambda: {"a": Material()})
    """the material behind each symbol"""
    voxel_side: Annotated[Real, Field(gt=0)] = 3.0
    """side length of every voxel at rest [m]; 0.1, and nothing else, for evogym"""
    engine: EngineName = "squares"
    """squares that turn, points, or evogym (EvoGym's points, in its units); if absent, squares in 2-D, points in 3-D"""

    @model_validator(mode="before")
    @classmethod
    def _default_masses(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        engine = data.get("engine", default_masses(3) if _has_levels(data.get("shape")) else default_masses(2))
        return {**defaults_of(engine), **data, "engine": engine}

    @field_validator("shape", mode="before", json_schema_input_type=tuple[str, ...] | tuple[tuple[str, ...], ...] | str)
    @classmethod
    def _read_drawing(cls, value: Any) -> Any:
        if isinstance(value, str):
            levels = [level.strip("\n").split("\n") for level in _levels_of_text(value)]
            value = levels if len(levels) > 1 else levels[0]
        if not isinstance(value, list | tuple) or not value:
            return value
        levels = [
            row.strip("\n").split("\n") if isinstance(row, str) and "\n" in row.strip("\n") else row for row in value
        ]
        if all(isinstance(row, str) for row in levels):
            return _evened([levels])[0]
        levels = [[level] if isinstance(level, str) else level for level in levels]
        if not all(
            isinstance(level, list | tuple) and level and all(isinstance(row, str) for row in level) for level in levels
        ):
            return value
        if len({len(level) for level in levels}) > 1:
            raise ValueError(f"all levels need as many rows; the largest has {max(map(len, levels))}")
        return _evened(levels)

    @model_validator(mode="after")
    def _sound(self) -> Body:
        if set(self.materials) & set(EMPTY_SYMBOLS):
            raise ValueError("'.' and ' ' mean an empty cell and cannot stand for a material")
        used = sorted({symbol for row in self._rows() for symbol in row} - set(EMPTY_SYMBOLS))
        if not used:
            raise ValueError("the shape has no voxel")
        unknown = [symbol for symbol in used if symbol not in self.materials]
        if unknown:
            raise ValueError(
                f"the shape uses {', '.join(map(repr, unknown))} but the materials are "
                f"{', '.join(map(repr, self.materials))}"
            )
        if text := impossible(self.engine, self.dimension):
            raise ValueError(text)
        wrong = [*issues(self.materials, self.engine, self.dimension), *wrong_side(self.engine, self.voxel_side)]
        if wrong:
            raise validation_error(wrong)
        return self

    def _rows(self) -> list[str]:
        return [row for level in self.shape for row in ([level] if isinstance(level, str) else level)]

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return 2 if isinstance(self.shape[0], str) else 3

    @property
    def cells(self) -> np.ndarray:
        """Material index of every cell, -1 where empty, (rows, columns) or (levels, rows, columns), the LOWEST first.

        In 3-D rows go along y, the row of the smallest y first.
        """
        place = {symbol: index for index, symbol in enumerate(self.materials)}

        def indices(row: str) -> list[int]:
            return [place.get(symbol, -1) for symbol in row]

        levels: Any = [self.shape] if self.dimension == 2 else self.shape[::-1]
        cells = np.array([[indices(row) for row in reversed(level)] for level in levels], dtype=np.int32)
        return cells[0] if self.dimension == 2 else cells

    @property
    def present(self) -> np.ndarray:
        """True where there is a voxel, in the order of `cells`."""
        return self.cells >= 0


def leaks(body: Body) -> str | None:
    """Why fluid would run out of a body, if so, with the voxels at which it would."""
    cells, materials = body.cells, list(body.materials.values())
    bare = [index for index, one in enumerate(materials) if one.fluid is not None and one.fluid.membrane == "none"]
    solid = [index for index, one in enumerate(materials) if one.fluid is None]
    padded = np.pad(cells, 1, constant_values=-1)
    closed = np.zeros(cells.shape, int)
    for axis in range(cells.ndim):
        for step in (0, 2):
            window = tuple(
                slice(step if other == axis else 1, (step if other == axis else 1) + size)
                for other, size in enumerate(cells.shape)
            )
            closed += np.isin(padded[window], solid) | (padded[window] == cells)
    leaking = np.argwhere(np.isin(cells, bare) & (closed < 2 * cells.ndim))
    if not len(leaking):
        return None
    names = ", ".join(_place(place, cells.shape) for place in leaking[:_NAMED])
    more = f" and {len(leaking) - _NAMED} more" if len(leaking) > _NAMED else ""
    return (
        f"fluid without a membrane reaches the outside at {names}{more}: close the chamber with other voxels, or leave "
        "out `membrane: none`"
    )


_NAMED = 5
"""At most this many voxels are named in a message."""


def _place(place: np.ndarray, cells: tuple[int, ...]) -> str:
    """Where a voxel is in the drawing, counted from its top left."""
    *above, row, column = place.tolist()
    level = f"level {cells[0] - above[0]}, " if above else ""
    return f"{level}row {cells[-2] - row}, column {column + 1}"


def drawing(cells: np.ndarray, symbols: list[str]) -> tuple:
    """Cells as a shape: what `Body.cells` undoes; cells: index of a symbol, -1 for an empty cell."""
    if cells.ndim == 3:
        return tuple(drawing(level, symbols) for level in cells[::-1])
    names = [*symbols, EMPTY_SYMBOLS[0]]
    return tuple("".join(names[index] for index in row) for row in cells[::-1].clip(-1))


def _evened(levels: list[Any]) -> tuple[tuple[str, ...], ...]:
    """Rows of one width, spaces as dots."""
    width = max(len(row) for level in levels for row in level)
    return tuple(tuple(row.ljust(width).replace(" ", ".") for row in level) for level in levels)


def _has_levels(shape: Any) -> bool:
    """Whether a drawing, as it was written, is one in 3-D."""
    if isinstance(shape, str):
        return len(_levels_of_text(shape)) > 1
    if not isinstance(shape, list | tuple):
        return False
    return any(isinstance(row, list | tuple) or (isinstance(row, str) and "\n" in row.strip("\n")) for row in shape)


def _levels_of_text(text: str) -> list[str]:
    """Parts of a text between empty lines."""
    levels: list[list[str]] = [[]]
    for line in text.strip("\n").split("\n"):
        if line.strip():
            levels[-1].append(line)
        elif levels[-1]:
            levels.append([])
    return ["\n".join(level) for level in levels if level] or [""]

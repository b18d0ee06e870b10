"""The engine that moves a body: one for every kind of masses. The only place that knows them all."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.contract import Engine
from vsr.physics.evogym.engine import EvogymEngine
from vsr.physics.evogym.model import EvogymModel, EvogymState
from vsr.physics.points.engine import PointEngine
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.squares.engine import SquareEngine
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.robot import Body, EngineName, Material

AnyModel = SquareModel | PointModel | EvogymModel
AnyState = SquareState | PointState | EvogymState

ENGINES: dict[EngineName, Engine] = {"squares": SquareEngine(), "points": PointEngine(), "evogym": EvogymEngine()}
"""Every engine by the masses it moves."""


def engine_of(model: Any) -> Engine:
    """The engine that moves a model."""
    return ENGINES[model.engine]


def stability_bound(
    masses: EngineName, materials: Iterable[Material], voxel_side: float, dimension: int, integrator: str | None
) -> float:
    """The longest substep that is stable for all of some materials [s]; 0 if none is."""
    return ENGINES[masses].longest_substep(list(materials), voxel_side, dimension, integrator)


def assemble_body(
    body: Body,
    *,
    dtype: jnp.dtype | type = jnp.float32,
    integrator: str | None = None,
    anchored: np.ndarray | None = None,
    layers: int | None = None,
) -> Any:
    """The model of one described body; anchored: see `Engine.assemble`.

    layers: as many as its shape needs, or more, so that all bodies of a grid have arrays of the same shapes.
    """
    engine = ENGINES[body.engine]
    return _assemble(
        jnp.asarray(body.cells),
        engine.table(list(body.materials.values()), body.voxel_side, body.dimension, dtype, body.cells),
        body.voxel_side,
        anchored,
        name=body.engine,
        layers=layers or engine.layers_needed(body.present),
        integrator=integrator,
    )


# Compiled, because described bodies are assembled outside of any other program.
@partial(jax.jit, static_argnames=("name", "layers", "integrator"))
def _assemble(
    cells: Array,
    table: Any,
    voxel_side: Array | float,
    anchored: Array | None,
    *,
    name: EngineName,
    layers: int,
    integrator: str | None,
) -> Any:
    engine = ENGINES[name]
    return engine.assemble(cells, table, voxel_side, layers=layers, integrator=integrator, anchored=anchored)

"""Walk over ground that is resampled: for every generation of a search, with a set of its own for those who are held
back from it.

A search that sees one ground finds robots for that ground. Here every generation has another one, the same for all of
its individuals; grounds of the held-out set, numbered from 0, are never among them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, model_validator

from vsr.environment import Environment
from vsr.robot import EngineName
from vsr.spec import Count, Real
from vsr.tasks.base import Overrides
from vsr.tasks.locomotion import Locomotion
from vsr.terrain import Polyline

HELD_OUT, SEARCHED = 0, 1
"""Streams of random numbers."""


class FreshGround(Locomotion):
    """Locomotion over hills resampled for every generation; single scenes have a ground of the held-out set."""

    type: Literal["fresh_ground"] = "fresh_ground"  # pyright: ignore[reportIncompatibleVariableOverride]
    roughness: Annotated[Real, Field(ge=0)] = 1.0
    """standard deviation of heights [m]"""
    spacing: Annotated[Real, Field(gt=0)] = 6.0
    """between two points of the ground [m]"""
    length: Annotated[Real, Field(gt=0)] = 600.0
    """of the ground, beyond which it is level [m]"""
    level: Annotated[Real, Field(ge=0)] = 24.0
    """at the beginning, where robots start [m]"""
    ground: Annotated[Count, Field(ge=0, lt=1_000_000)] = 0
    """number of the held-out ground of a single scene"""

    @model_validator(mode="after")
    def _long_enough(self) -> FreshGround:
        if self.length < self.level + 2 * self.spacing:
            raise ValueError(f"length, {self.length:g} m, leaves no hills beyond {self.level:g} m of level ground")
        return self

    def overrides(self, engine: EngineName, voxel_side: float, dimension: int) -> Overrides:
        x = self._places()
        heights = self._heights(jax.random.fold_in(jax.random.key(HELD_OUT), self.ground), x)
        line = Polyline(x=tuple(x.tolist()), y=tuple(np.asarray(heights, float).round(6).tolist()))
        return Overrides(world={"terrain": line})

    def drawn(self, key: Array, environment: Environment) -> Environment:
        line = environment.terrain and environment.terrain.line
        assert line is not None
        heights = self._heights(jax.random.fold_in(key, SEARCHED), self._places()).astype(line.vertex_y.dtype)
        slope = jnp.diff(heights) / jnp.diff(line.vertex_x)
        size = jnp.sqrt(1 + slope**2)
        drawn = replace(line, vertex_y=heights, slope=slope, normal_x=-slope / size, normal_y=1 / size)
        return replace(environment, terrain=drawn)

    def _places(self) -> np.ndarray:
        """Points of the ground along x [m]."""
        return np.arange(0, self.length + 0.5 * self.spacing, self.spacing)

    def _heights(self, key: Array, x: np.ndarray) -> Array:
        """Of the ground's points [m]."""
        hilly = jnp.asarray((x > self.level) & (x < x[-1] - self.spacing), jnp.float32)
        return self.roughness * hilly * jax.random.normal(key, x.shape)

"""Sand on hard ground: what a researcher says about it. Grains themselves are physics (vsr.physics.granular)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from vsr.spec import Count, Real
from vsr.terrain.shapes import Flat, Load, Positive, Seed

MOST_GRAINS = 2_000_000
"""More in one world are a mistake."""
FILLED = {2: 0.82, 3: 0.58}
"""Share of the room that grains take up when they lie, about."""
TOGETHER = 32
"""Grains that a GPU reads at once, if their number is a multiple of this."""
LONGEST_STEP = 0.018
"""Of a step of grains, in units of the root of radius over gravity (measured: docs/do/sand.md) ..."""
LAYERS = 8
"""... up to so many layers; what deeper ones do must travel farther within a step."""


ROLLING = 0.1
"""Coefficient of rolling resistance with which slopes of discs are as steep as those of dry sand (docs/do/sand.md)."""


class Sand(Flat):
    """Grains on level ground, their surface at y = 0. It repeats along x (and y), with the tracks of robots in it."""

    type: Literal["sand"] = "sand"  # pyright: ignore[reportIncompatibleVariableOverride]
    is_loose: ClassVar[bool] = True
    friction: Annotated[Real, Field(ge=0)] = 0.5
    """friction coefficient of grains, and of the hard ground below"""
    restitution: Annotated[Real, Field(ge=0, le=1)] = 0.0
    """restitution coefficient of the hard ground below; grains do not bounce"""
    depth: Positive = 3.0
    """of the sand [m]; hard ground lies below"""
    radius: Positive = 0.25
    """of grains in the mean [m]"""
    spread: Annotated[Real, Field(ge=0, le=0.33)] = 0.15
    """radii are uniform within this share of the mean; equal discs would lie like a crystal"""
    density: Positive | None = None
    """of grains [kg/m³], in 2-D [kg/m²]; if absent, 2.5 times that of a default voxel: 1.1 in 2-D, 0.74 in 3-D"""
    rolling: Annotated[Real, Field(ge=0, le=1)] | None = ROLLING
    """coefficient of rolling resistance; null: grains do not turn, and angular momentum is not conserved"""
    period: Positive = 30.0
    """after which sand repeats itself along x, and in 3-D along y [m]"""
    seed: Seed = 1
    """of the grains and of how they are thrown in"""
    bed: Seed = 0
    """other numbers are other beds of the same grains"""
    settle: Annotated[Real, Field(gt=0, le=60)] = 4.0
    """how long they come to rest before a robot is put on them [s]"""
    neighbors: Annotated[Count, Field(ge=4, le=64)] | None = None
    """grains that can touch one; if absent, enough for this spread"""
    candidates: Annotated[Count, Field(ge=4, le=128)] | None = None
    """grains among which these are looked for, in each column of three cells; if absent, enough for this spread"""
    contacts: Annotated[Count, Field(ge=8, le=100_000)] | None = None
    """grains that can be listed near one robot; if absent, enough for one that fills its grid and is buried"""

    def profile(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self._between_walls()), np.full(2, -self.depth)

    @model_validator(mode="after")
    def _some_grains(self) -> Sand:
        if self.depth < 2 * self.largest:
            raise ValueError(f"a depth of {self.depth:g} m is less than a grain of {self.largest:g} m radius")
        if self.period < 8 * self.largest:
            raise ValueError(f"a period of {self.period:g} m is too short for grains of {self.largest:g} m radius")
        return self

    @property
    def largest(self) -> float:
        """Largest radius [m]."""
        return self.radius * (1 + self.spread)

    def grain_density(self, dimension: int) -> float:
        """[kg/m³], in 2-D [kg/m²]."""
        default = 2.5 * 2**dimension / 3**dimension
        return default if self.density is None else self.density

    def count(self, dimension: int) -> int:
        """How many grains fill the depth, about: a multiple of what GPUs read at once, which is quickest."""
        size = math.pi * self.radius**2 if dimension == 2 else 4 / 3 * math.pi * self.radius**3
        wanted = FILLED[dimension] * self.depth * self.period ** (dimension - 1) / size
        return max(1, round(wanted / TOGETHER) * TOGETHER if wanted > 8 * TOGETHER else round(wanted))

    def longest_step(self, gravity: float) -> float:
        """In which grains can be moved at once [s]: so that a bed comes to rest, and lies still."""
        return longest_step(self.radius, self.depth, gravity)

    def checks(self, voxels: Any, size: float, gravity: float) -> list[tuple[tuple[str, ...], str]]:
        if gravity == 0:
            return [((), "sand does not lie without gravity")]
        issues, grains = [], self.count(voxels.dimension)
        needed = 1.5 * size + 4 * self.largest
        if needed > self.period:
            text = f"{self.period:g} m given; robots of {size:g} m would touch their own copies: at least {needed:.4g}"
            issues.append((("period",), text))
        if grains > MOST_GRAINS:
            text = f"{grains:.3g} grains; at most {MOST_GRAINS:.3g}: larger ones, or less deep"
            issues.append((("radius",), text))
        if self.radius > voxels.voxel_side:
            text = f"{self.radius:g} m given; at most a voxel's side, {voxels.voxel_side:g} m"
            issues.append((("radius",), text))
        return issues

    def systems(self, voxels: Any, gravity: float, substep: float, dtype: jnp.dtype | type) -> dict[str, Any]:
        from vsr.physics.granular.bed import sand_bed

        bed = sand_bed(self, voxels.dimension, gravity, voxels.voxel_side, dtype)
        # Smaller time steps are smaller for grains too: as many substeps as by default are in one of theirs.
        return {"sand": replace(bed, stride=max(1, int(self.longest_step(gravity) / substep + 1e-6)))}

    def load(self, voxels: Any, cells: tuple[int, ...], gravity: float, dtype: jnp.dtype | type) -> Load:
        from vsr.physics.granular.bed import load_of_sand

        return load_of_sand(self, voxels, cells, gravity, dtype)


def longest_step(radius: float, depth: float, gravity: float) -> float:
    """Of beds of grains [s]; radius, depth: [m]."""
    if not gravity:
        return math.inf
    layers = depth / (2 * radius)
    return LONGEST_STEP * math.sqrt(radius / gravity) * min(1.0, LAYERS / layers)

"""Helical gears with involute teeth, as distances on a grid (as GranularGym has all its bodies)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from vsr.sdf import Sampled

PRESSURE_ANGLE = math.radians(20)
"""Between the push of two teeth and the common tangent: that of nearly all gears."""


@dataclass(frozen=True)
class Gear:
    """A gear about the vertical axis, its middle at the origin."""

    teeth: int = 12
    outer: float = 0.3
    """radius at the tips [m]"""
    width: float = 0.2
    """along the axis [m]"""
    helix: float = math.radians(30)
    """between teeth and axis at the pitch circle [rad]; negative: the other way round"""

    def __post_init__(self) -> None:
        if self.teeth < 4 or not (self.outer > 0 and self.width > 0 and abs(self.helix) < 1.5):
            raise ValueError(f"a gear needs 4 teeth or more, a radius and a width above 0; got {self}")

    @property
    def module(self) -> float:
        """Size of a tooth: diameter of the pitch circle over the number of teeth [m]."""
        return 2 * self.outer / (self.teeth + 2)

    @property
    def pitch(self) -> float:
        """Radius of the pitch circle [m]."""
        return self.outer - self.module

    @property
    def root(self) -> float:
        """Radius between the teeth [m]."""
        return self.pitch - 1.25 * self.module

    @property
    def twist(self) -> float:
        """Of the cross-section along the axis [rad/m]."""
        return math.tan(self.helix) / self.pitch

    def half_tooth(self, radius: np.ndarray) -> np.ndarray:
        """Half the angle that a tooth takes at a radius [rad]: its flanks are involutes of the base circle."""
        base = self.pitch * math.cos(PRESSURE_ANGLE)
        angle = np.arccos(np.minimum(base / np.maximum(radius, base), 1))  # straight below the base circle
        at_pitch = 0.5 * math.pi / self.teeth + math.tan(PRESSURE_ANGLE) - PRESSURE_ANGLE
        return np.maximum(at_pitch - (np.tan(angle) - angle), 0)

    def holds(self, point: np.ndarray) -> np.ndarray:
        """Whether points are inside; (..., 3) [m]."""
        radius = np.hypot(point[..., 0], point[..., 1])
        turn = np.arctan2(point[..., 1], point[..., 0]) - self.twist * point[..., 2]
        period = 2 * math.pi / self.teeth
        from_tooth = np.abs((turn + 0.5 * period) % period - 0.5 * period)
        flat = (radius < self.root) | ((radius < self.outer) & (from_tooth < self.half_tooth(radius)))
        return flat & (np.abs(point[..., 2]) < 0.5 * self.width)

    def surface(self, spacing: float) -> np.ndarray:
        """Points all over the surface, no farther apart than about a spacing [m], (points, 3)."""
        heights = np.linspace(-0.5, 0.5, math.ceil(self.width / spacing) + 1) * self.width
        radius, turn = self._outline(spacing)
        turns = turn + self.twist * heights[:, None]
        up = np.broadcast_to(heights[:, None], turns.shape)
        sides = np.stack([radius * np.cos(turns), radius * np.sin(turns), up], -1).reshape(-1, 3)
        across = np.arange(-self.outer, self.outer + spacing, spacing)
        x, y = (part.reshape(-1) for part in np.meshgrid(across, across))
        caps = [np.stack([x, y, np.full_like(x, end)], -1) for end in (0.5 * self.width, -0.5 * self.width)]
        within = [cap[self.holds(cap * [1, 1, 1 - 1e-9])] for cap in caps]
        return np.concatenate([sides, *within])

    def sampled(self, spacing: float, margin: float) -> Sampled:
        """Its distances on a grid up to a margin beyond its bounds [m]; exact to a fraction of the spacing."""
        from scipy.spatial import KDTree

        half = np.array([self.outer, self.outer, 0.5 * self.width]) + margin
        counts = np.ceil(half / spacing).astype(int)
        axes = [spacing * np.arange(-count, count + 1) for count in counts]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
        away = KDTree(self.surface(0.4 * spacing)).query(points.reshape(-1, 3))[0].reshape(points.shape[:-1])
        value = np.where(self.holds(points), -away, away)
        low = -spacing * counts
        return Sampled(jnp.asarray(value, jnp.float32), jnp.asarray(low, jnp.float32), jnp.float32(spacing))

    def _outline(self, spacing: float) -> tuple[np.ndarray, np.ndarray]:
        """Radius and angle of points around the cross-section [m], [rad]."""
        flank = np.linspace(self.root, self.outer, math.ceil((self.outer - self.root) / spacing) + 1)
        half = self.half_tooth(flank)
        tip = np.linspace(-half[-1], half[-1], math.ceil(2 * half[-1] * self.outer / spacing) + 1)
        gap = 2 * math.pi / self.teeth - half[0]
        valley = np.linspace(half[0], gap, math.ceil((gap - half[0]) * self.root / spacing) + 1)
        radius = np.concatenate([flank, flank, np.full_like(tip, self.outer), np.full_like(valley, self.root)])
        turn = np.concatenate([half, -half, tip, valley])
        teeth = np.arange(self.teeth) * 2 * math.pi / self.teeth
        return np.tile(radius, self.teeth), (teeth[:, None] + turn).reshape(-1)

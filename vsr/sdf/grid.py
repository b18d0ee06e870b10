"""A shape sampled on a grid: distances at its points, linear along each axis between them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector

if TYPE_CHECKING:
    import trimesh


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sampled:
    """Distances on a regular grid. Beyond it the nearest value counts, and the way to it is added."""

    value: Array
    """[m], one axis for each of the space's, x first"""
    low: Array
    """the first point [m], (dimension,)"""
    spacing: Array
    """[m], ()"""

    @staticmethod
    def of(shape: Any, low: np.ndarray, high: np.ndarray, spacing: float) -> Sampled:
        """Sample any shape between two corners [m]."""
        axes = _axes(low, high, spacing)
        points = tuple(jnp.asarray(part) for part in np.meshgrid(*axes, indexing="ij"))
        return Sampled(shape.distance(points), jnp.asarray([axis[0] for axis in axes]), jnp.asarray(spacing))

    @staticmethod
    def of_mesh(mesh: trimesh.Trimesh, spacing: float, margin: float) -> Sampled:
        """Sample a closed mesh [m]; margin: beyond its bounds [m].

        Raises ValueError for an open one, ImportError without the extra.
        """
        try:
            import rtree  # noqa: F401  # pyright: ignore[reportMissingImports]  # trimesh finds triangles with it
            from trimesh.proximity import signed_distance
        except ImportError as error:
            needed = "trimesh and rtree: pip install 'voxel-soft-robots[mesh]'"
            raise ImportError(f"distances to meshes need {needed}") from error
        if not mesh.is_watertight:
            raise ValueError("the mesh is not closed, so it has no inside: close its holes first")
        axes = _axes(mesh.bounds[0] - margin, mesh.bounds[1] + margin, spacing)
        points = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
        inward = np.concatenate([signed_distance(mesh, part) for part in np.array_split(points.reshape(-1, 3), 64)])
        value = jnp.asarray(-inward.reshape(points.shape[:-1]), jnp.float32)
        return Sampled(value, jnp.asarray([axis[0] for axis in axes], jnp.float32), jnp.float32(spacing))

    def distance(self, point: Vector) -> Array:
        cells, shares, beyond = [], [], []
        for part, low, points in zip(point, self.low, self.value.shape, strict=True):
            place = (part - low) / self.spacing
            held = jnp.clip(jnp.where(jnp.isfinite(place), place, 0), 0, points - 1)
            cell = jnp.minimum(jax.lax.stop_gradient(held).astype(jnp.int32), points - 2)
            cells.append(cell)
            shares.append(held - cell)
            beyond.append((place - held) * self.spacing)
        total = jnp.zeros_like(point[0])
        for corner in itertools.product((0, 1), repeat=len(point)):
            weight = jnp.ones_like(point[0])
            for step, share in zip(corner, shares, strict=True):
                weight = weight * (share if step else 1 - share)
            total = total + weight * self.value[tuple(cell + step for cell, step in zip(cells, corner, strict=True))]
        squared = sum(part * part for part in beyond)
        outside = squared > 0
        return total + jnp.where(outside, jnp.sqrt(jnp.where(outside, squared, 1)), 0)


def _axes(low: np.ndarray, high: np.ndarray, spacing: float) -> list[np.ndarray]:
    counts = np.ceil((np.asarray(high) - np.asarray(low)) / spacing).astype(int) + 1
    return [start + spacing * np.arange(max(count, 2)) for start, count in zip(np.asarray(low), counts, strict=True)]

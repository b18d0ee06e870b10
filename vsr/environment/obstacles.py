"""Planes and balls that nodes cannot enter, from plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from vsr.environment.model import Plane, Sphere
from vsr.terrain.field import check_restitution


def plane(
    point: Sequence[float], normal: Sequence[float], *, friction: ArrayLike = 0.0, restitution: ArrayLike = 0.0
) -> Plane:
    """The half-space behind a point [m], (dimension,), on its surface.

    normal: out of the body, of any length, (dimension,); friction: Coulomb's coefficient; restitution: share of the
    speed with which a node leaves again, 0 to 1.
    """
    check_restitution(restitution)
    size = float(np.linalg.norm(normal))
    if len(point) != len(normal) or size == 0:
        raise ValueError(f"a plane's normal has as many parts as its point, not all 0; got {normal} at {point}")
    return Plane(
        point=jnp.asarray(point, float),
        normal=jnp.asarray(normal, float) / size,
        friction=jnp.asarray(friction, float),
        restitution=jnp.asarray(restitution, float),
    )


def floor(dimension: int, height: float = 0.0, *, friction: ArrayLike = 0.0, restitution: ArrayLike = 0.0) -> Plane:
    """Level ground at a height [m]; friction and restitution as for a plane."""
    up = [0.0] * (dimension - 1) + [1.0]
    return plane([height * part for part in up], up, friction=friction, restitution=restitution)


def slope(dimension: int, angle: float, *, friction: ArrayLike = 0.0, restitution: ArrayLike = 0.0) -> Plane:
    """Ground through the origin that falls towards +x by an angle [rad]; friction and restitution as for a plane."""
    normal = [float(np.sin(angle))] + [0.0] * (dimension - 2) + [float(np.cos(angle))]
    return plane([0.0] * dimension, normal, friction=friction, restitution=restitution)


def ball(center: Sequence[float], radius: float, *, friction: ArrayLike = 0.0, restitution: ArrayLike = 0.0) -> Sphere:
    """A ball, in 2-D a disc; center [m], (dimension,); radius [m]; friction and restitution as for a plane."""
    check_restitution(restitution)
    if radius <= 0:
        raise ValueError(f"a ball's radius must be above 0; got {radius} m")
    return Sphere(
        center=jnp.asarray(center, float),
        radius=jnp.asarray(radius, float),
        friction=jnp.asarray(friction, float),
        restitution=jnp.asarray(restitution, float),
    )

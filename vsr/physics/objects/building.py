"""From descriptions of rigid things (vsr.objects) to arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from vsr.objects import Object, Shape
from vsr.physics.collision.convex import FAR, Shapes
from vsr.physics.objects.solids import Solids

USUAL_DENSITY = {2: 4 / 9, 3: 8 / 27}
"""Of a voxel of 3 m with masses of 1 kg in its corners [kg/m², kg/m³]."""
USUAL_FRICTION = 0.5


def build_solids(objects: Sequence[Object], dimension: int, dtype: jnp.dtype | type = jnp.float32) -> Solids | None:
    """Rigid things as arrays; None if there are none."""
    rigid = [one for one in objects if one.shape is not None]
    if not rigid:
        return None
    forms = [form_of(one.shape, dimension) for one in rigid if one.shape is not None]
    masses = [_mass(one, form, dimension) for one, form in zip(rigid, forms, strict=True)]
    turns = np.stack([rotation_of(one, dimension) @ form.axes for one, form in zip(rigid, forms, strict=True)])

    def number(name: str, usual: float) -> jnp.ndarray:
        return jnp.asarray([usual if getattr(one, name) is None else getattr(one, name) for one in rigid], dtype)

    return Solids(
        shapes=_shapes(forms, dtype),
        position=jnp.asarray([one.position for one in rigid], dtype),
        rotation=jnp.asarray(turns, dtype),
        velocity=jnp.asarray([one.velocity or (0.0,) * dimension for one in rigid], dtype),
        mass=jnp.asarray(masses, dtype),
        inertia=jnp.asarray([mass * form.gyration for mass, form in zip(masses, forms, strict=True)], dtype),
        friction=number("friction", USUAL_FRICTION),
        restitution=number("restitution", 0.0),
        names=tuple(one.name for one in rigid),
        fixed=tuple(one.fixed for one in rigid),
    )


class Form(NamedTuple):
    """A shape about its centre of mass, along its principal axes."""

    corner: np.ndarray
    """[m], in 2-D counter-clockwise, (corners, dimension)"""
    volume: float
    """[m³], in 2-D [m²]"""
    gyration: np.ndarray
    """moments of inertia over mass [m²], (1,) or (3,)"""
    axes: np.ndarray
    """from these axes to those in which it was described, (dimension, dimension)"""
    radius: float
    """of what is round, 0 for others [m]"""


def form_of(shape: Shape, dimension: int) -> Form:
    """A described shape."""
    same, radius = np.eye(dimension), shape.rounding
    if radius:
        if dimension == 2:
            return Form(np.zeros((1, 2)), math.pi * radius**2, np.array([0.5 * radius**2]), same, radius)
        return Form(np.zeros((1, 3)), 4 / 3 * math.pi * radius**3, np.full(3, 0.4 * radius**2), same, radius)
    corner = shape.corners(dimension)
    return _polygon(corner)


def _polygon(corner: np.ndarray) -> Form:
    away = corner - corner.mean(0)
    corner = corner[np.argsort(np.arctan2(away[:, 1], away[:, 0]))]
    following = np.roll(corner, -1, 0)
    cross = corner[:, 0] * following[:, 1] - corner[:, 1] * following[:, 0]
    area = 0.5 * cross.sum()
    middle = ((corner + following) * cross[:, None]).sum(0) / (6 * area)
    corner = corner - middle
    following = np.roll(corner, -1, 0)
    cross = corner[:, 0] * following[:, 1] - corner[:, 1] * following[:, 0]
    squares = (corner**2 + corner * following + following**2).sum(1)
    return Form(corner, float(area), np.array([(cross * squares).sum() / (12 * area)]), np.eye(2), 0.0)


def _shapes(forms: Sequence[Form], dtype: jnp.dtype | type) -> Shapes:
    """Polygons of as many corners each: the last corner is repeated, and faces without a length do not exist."""
    most = max(len(form.corner) for form in forms)
    corner = np.stack([form.corner[np.minimum(np.arange(most), len(form.corner) - 1)] for form in forms])
    along = np.roll(corner, -1, 1) - corner
    length = np.linalg.norm(along, axis=-1)
    real = length > 0
    normal = np.stack([along[..., 1], -along[..., 0]], -1) / np.where(real, length, 1)[..., None]
    offset = np.where(real, (normal * corner).sum(-1), FAR)
    return Shapes(
        corner=jnp.asarray(corner, dtype),
        normal=jnp.asarray(np.where(real[..., None], normal, 0), dtype),
        offset=jnp.asarray(offset, dtype),
        outline=jnp.asarray(np.broadcast_to(_sides(most), (len(forms), most, 2)), jnp.int32),
        edge=jnp.zeros((len(forms), 0, 2), dtype),
        radius=jnp.asarray([form.radius for form in forms], dtype),
        round=tuple(form.radius > 0 for form in forms),
    )


def _sides(corners: int) -> np.ndarray:
    """The two corners of every side of a polygon, (corners, 2)."""
    return np.stack([np.arange(corners), (np.arange(corners) + 1) % corners], 1)


def _mass(one: Object, form: Form, dimension: int) -> float:
    if one.fixed:
        return math.inf
    if one.mass is not None:
        return one.mass
    return form.volume * (USUAL_DENSITY[dimension] if one.density is None else one.density)


def rotation_of(one: Object, dimension: int) -> np.ndarray:
    """That an object is described with, as a matrix."""
    tilt, yaw = np.radians(one.tilt), np.radians(one.yaw)
    if dimension == 2:
        return _plane_turn(2, 0, 1, tilt)
    return _plane_turn(3, 0, 1, yaw) @ _plane_turn(3, 0, 2, tilt)


def _plane_turn(dimension: int, first: int, second: int, angle: float) -> np.ndarray:
    """From the first axis to the second."""
    turn = np.eye(dimension)
    turn[first, first] = turn[second, second] = math.cos(angle)
    turn[second, first], turn[first, second] = math.sin(angle), -math.sin(angle)
    return turn

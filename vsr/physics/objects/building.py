"""From descriptions of rigid things (vsr.objects) to arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from vsr.objects import Object
from vsr.physics.objects.forms import Form, form_of, shapes_of
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
        shapes=shapes_of(forms, dtype),
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

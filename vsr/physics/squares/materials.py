"""Materials of square masses as columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.robot.material import Material
from vsr.robot.springs import SQUARE_GROUPS


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SquareMaterials:
    """Materials as columns, so that a voxel's material is an index. All (materials,) unless said otherwise."""

    mass_side_ratio: Array
    linear_damping: Array
    angular_damping: Array
    mass: Array
    friction: Array
    restitution: Array
    spring_frequency: Array
    spring_damping_ratio: Array
    max_area_change: Array
    """0 for a material with force actuation"""
    max_force: Array | None
    """0 for a material with area actuation; None if all are"""
    groups: Array
    """1 where the material has the group, (materials, groups)"""
    lower_limit: Array | None
    """None if no material has one"""
    upper_limit: Array | None
    """infinite where there is none; None if no material has one"""

    @staticmethod
    def of(materials: Sequence[Material], dtype: jnp.dtype | type = jnp.float32) -> SquareMaterials:
        """The table of a sequence of materials, in its order."""

        def column(values: list[float]) -> Array:
            return jnp.asarray(np.array(values), dtype)

        def used(values: list[float], unused: float) -> Array | None:
            return None if all(value == unused for value in values) else column(values)

        plain = (
            *("mass_side_ratio", "linear_damping", "angular_damping", "mass", "friction", "restitution"),
            *("spring_frequency", "spring_damping_ratio"),
        )
        by_area, by_force = ([material.actuation == kind for material in materials] for kind in ("area", "force"))
        return SquareMaterials(
            **{name: column([getattr(material, name) for material in materials]) for name in plain},
            max_area_change=column([m.max_area_change if a else 0.0 for m, a in zip(materials, by_area, strict=True)]),
            max_force=used([m.max_force if f else 0.0 for m, f in zip(materials, by_force, strict=True)], 0.0),
            groups=jnp.asarray(np.array([[m.has(group) for group in SQUARE_GROUPS] for m in materials]), dtype),
            lower_limit=used([m.lower_limit for m in materials], 0.0),
            upper_limit=used([np.inf if m.upper_limit is None else m.upper_limit for m in materials], np.inf),
        )

"""Physical parameters that differ between copies of a robot: trials of an experiment, or environments of a learner.

All are factors of what the robot's materials and the world say. Stiffness is what frequency squared times mass is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from vsr.robot import Material
from vsr.spec import Real, Spec

FURTHEST = 100.0
"""Factors are between this and its inverse."""
SCALED = {"friction": ("friction",), "mass": ("mass", "frequency"), "stiffness": ("frequency",), "gravity": ()}
"""Quantities that an engine must be able to scale for each of them (vsr.physics.contract.Engine.scales)."""


def rising(bounds: tuple[float, float]) -> tuple[float, float]:
    """The same bounds, unless the first is greater."""
    if bounds[0] > bounds[1]:
        raise PydanticCustomError("rising", "Input should be two numbers, the smaller first")
    return bounds


Factor = Annotated[Real, Field(ge=1 / FURTHEST, le=FURTHEST)]
Factors = Annotated[tuple[Factor, Factor], AfterValidator(rising)]
"""The least and the greatest."""


class DomainRandomization(Spec):
    """Factors that are drawn, each from an interval, such as [0.5, 2]; null for none."""

    friction: Factors | None = None
    """of all masses; contact takes the geometric mean with the ground's"""
    mass: Factors | None = None
    """of all masses; springs stay as stiff as they are"""
    stiffness: Factors | None = None
    """of all springs, whose damping ratio stays as it is"""
    gravity: Factors | None = None

    @property
    def quickest(self) -> tuple[float, float]:
        """The greatest factor of springs' frequency, and the factor of mass that goes with it."""
        stiffest, lightest = (self.stiffness or (1.0, 1.0))[1], (self.mass or (1.0, 1.0))[0]
        return math.sqrt(stiffest / lightest), lightest

    @property
    def given(self) -> dict[str, tuple[float, float]]:
        """Intervals that are not null."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    @property
    def scaled(self) -> tuple[str, ...]:
        """Quantities that engines must be able to scale."""
        return tuple(dict.fromkeys(one for name in self.given for one in SCALED.get(name, ())))

    def stiffened(self, material: Material) -> Material:
        """The material as its springs are quickest."""
        quicker, mass = self.quickest
        if material.density is not None and material.young_modulus is not None:
            changes = {
                "young_modulus": quicker**2 * mass * material.young_modulus,
                "density": mass * material.density,
            }
        else:
            changes = {"spring_frequency": quicker * material.spring_frequency, "mass": mass * material.mass}
        return material.model_copy(update=changes)


def engine_factors(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Factors of friction, mass and stiffness as engines take them: friction, mass and frequency, those that change."""
    found = {name: drawn[name] for name in ("friction", "mass") if name in drawn}
    if "mass" in drawn or "stiffness" in drawn:
        found["frequency"] = (drawn.get("stiffness", 1) / drawn.get("mass", 1)) ** 0.5
    return found

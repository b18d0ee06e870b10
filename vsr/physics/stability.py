"""How long a substep may be.

A mode of frequency ω with damping rate γ, integrated by semi-implicit Euler with explicit damping, is stable for a
substep h while h² ω² + 2 h γ < 4. For a whole body that is: 4 M - 2 h C - h² K is positive definite. A body is an
assembly of voxels whose welds only take freedom away, so the condition holds for the body if it holds for each voxel
alone (a Rayleigh quotient of sums never exceeds the largest of the parts). A voxel's springs share one ω₀ and ζ,
hence C = (2ζ/ω₀) K, and with κ the largest eigenvalue of M⁻¹K/ω₀² the bound is

    h < (sqrt(4ζ² + 4/κ) - 2ζ) / ω₀.

κ depends only on the scaffolding and the mass side ratio; it is 3.1 for the default voxel. The bound is for small
motions about rest; MARGIN covers large deformations and, more demanding, accuracy: gaits of large bodies still change
between a third and a fifth of the bound, and no more below (docs/physics.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from vsr.body.material import Material
from vsr.lattice.integrators import NEEDS_DAMPING
from vsr.physics.scaffolding import CORNER_SIGNS, GROUPS, SIDE_ALONG, SIDE_SPRINGS, Group

MARGIN = 4.5
"""Automatic substeps are at least this many times shorter than the bound."""
MOST_SUBSTEPS = 100_000
"""More in one time step are a mistake, not a wish."""


def longest_substep(material: Material) -> float:
    """The stability bound of a material [s]."""
    kappa = _largest_eigenvalue(tuple(group for group in GROUPS if material.has(group)), material.mass_side_ratio)
    omega = 2 * math.pi * material.spring_frequency
    zeta = material.spring_damping_ratio
    return (math.sqrt(4 * zeta**2 + 4 / kappa) - 2 * zeta) / omega


def choose_substeps(
    materials: Iterable[Material],
    time_step: float,
    substeps: int | None = None,
    longest: Callable[[Material], float] = longest_substep,
) -> int:
    """Substeps per time step [s]: enough for the stiffest material, or the given number if it is stable.

    longest: the stability bound of a material [s]. Raises ValueError, with the bound, for a number that would blow
    up.
    """
    bound = min(longest(material) for material in materials)
    if bound <= 0:
        raise ValueError(f"no substep is stable: {NEEDS_DAMPING}")
    if substeps is None:
        needed = time_step * MARGIN / bound
        if needed > MOST_SUBSTEPS:
            raise ValueError(
                f"{needed:.3g} substeps in a time step of {time_step:g} s would be needed for the stiffest material "
                f"(stable up to {1000 * bound:.3g} ms): use a shorter time step or a softer material"
            )
        return max(1, math.ceil(needed - 1e-9))
    if time_step / substeps > bound:
        raise ValueError(
            f"{substeps} substep{'s' if substeps > 1 else ''} of {1000 * time_step / substeps:.2f} ms would blow up: "
            f"the stiffest material is stable up to {1000 * bound:.2f} ms, "
            f"so use at least {math.ceil(time_step / bound)} (or leave it out: "
            f"{choose_substeps(materials, time_step, longest=longest)} with margin)"
        )
    return substeps


@lru_cache(maxsize=256)
def _largest_eigenvalue(scaffolding: tuple[Group, ...], ratio: float) -> float:
    """κ of one free voxel of side 1 and mass 1 per corner."""
    gradients, effective = [], []
    inertia = ratio**2 / 6
    mobility = np.tile([1, 1, 1 / inertia], 4)
    center = CORNER_SIGNS * (1 - ratio) / 2
    for first, first_arm, second, second_arm in _anchors(scaffolding, ratio):
        between = center[second] + second_arm - center[first] - first_arm
        # A spring of no length at rest has no direction of its own; along its side is the stiffest it can take.
        direction = between / np.hypot(*between) if np.hypot(*between) > 1e-9 else SIDE_ALONG[first].astype(float)
        gradient = np.zeros(12)
        for sign, mass, arm in ((-1, first, first_arm), (1, second, second_arm)):
            gradient[3 * mass : 3 * mass + 2] = sign * direction
            gradient[3 * mass + 2] = sign * (arm[0] * direction[1] - arm[1] * direction[0])
        gradients.append(gradient)
        effective.append(1 / (gradient**2 @ mobility))
    scaled = np.array(gradients) * np.sqrt(mobility) * np.sqrt(effective)[:, None]
    return float(np.linalg.eigvalsh(scaled.T @ scaled)[-1])


def _anchors(scaffolding: tuple[Group, ...], ratio: float):
    """Every spring of one voxel of side 1: first mass and its anchor arm, second mass and its anchor arm."""
    half = ratio / 2
    for side in range(4):
        along = SIDE_ALONG[side]
        inward = np.array([-along[1], along[0]])
        for sign_first, sign_second, group, _ in SIDE_SPRINGS:
            if GROUPS[group] in scaffolding:
                yield side, half * (along + sign_first * inward), (side + 1) % 4, half * (sign_second * inward - along)
    if Group.central_cross in scaffolding:
        for first in (0, 1):
            yield first, np.zeros(2), first + 2, np.zeros(2)

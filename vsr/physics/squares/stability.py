"""The longest stable substep of square masses.

A mode of frequency ω with damping rate γ, integrated by semi-implicit Euler with explicit damping, is stable for a
substep h while h² ω² + 2 h γ < 4. For a whole body that is: 4 M - 2 h C - h² K is positive definite. A body is an
assembly of voxels whose welds only take freedom away, so the condition holds for the body if it holds for each voxel
alone (a Rayleigh quotient of sums never exceeds the largest of the parts). A voxel's springs share one ω₀ and ζ,
hence C = (2ζ/ω₀) K; with κ the largest eigenvalue of M⁻¹K/ω₀² those of M⁻¹K and M⁻¹C are κ ω₀² and 2ζ κ ω₀, from which
the bound follows as for lattices (vsr.lattice.stability). κ depends only on the scaffolding and the mass side ratio; it
is 3.1 for the default voxel.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from vsr.lattice.stability import stable_step
from vsr.physics.squares.model import CORNER_SIGNS, SIDE_ALONG, SIDE_SPRINGS
from vsr.robot.material import Material
from vsr.robot.springs import SQUARE_GROUPS, Group


def longest_substep(material: Material) -> float:
    """The stability bound of a material [s]."""
    groups = tuple(group for group in SQUARE_GROUPS if material.has(group))
    kappa = _largest_eigenvalue(groups, material.mass_side_ratio)
    omega = 2 * math.pi * material.spring_frequency
    if omega == 0:
        return math.inf
    relaxation = 2 * material.spring_damping_ratio / omega
    return stable_step(kappa * omega**2, kappa * omega**2 * relaxation, relaxation, "semi_implicit_euler")


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
            if SQUARE_GROUPS[group] in scaffolding:
                yield side, half * (along + sign_first * inward), (side + 1) % 4, half * (sign_second * inward - along)
    if Group.central_cross in scaffolding:
        for first in (0, 1):
            yield first, np.zeros(2), first + 2, np.zeros(2)

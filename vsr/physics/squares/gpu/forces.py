"""Forces of voxels, one voxel in each lane of the fused kernel. Pure functions of lanes.

The formulas are those of vsr.physics.squares.springs and actuation, arranged for few instructions: a spring costs one
division, one root and about 25 others. Positions are taken from the voxel's first cluster, so a robot far away is
computed as precisely as one at the origin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.actuation import inward_forces
from vsr.physics.squares.limits import TINY, area_pressure, pressure_forces
from vsr.physics.squares.model import LENGTH_KINDS, SIDE_ALONG, SIDE_SPRINGS
from vsr.robot.springs import SQUARE_GROUPS, Group

Numbers = dict[str, Array]
"""Of the voxels (or clusters) in the lanes, by name."""

CENTRAL = LENGTH_KINDS.index("central")


class _Mass(NamedTuple):
    """One of a voxel's four masses; positions seen from the voxel's first cluster."""

    arm: tuple[Array, Array]
    """from the cluster's center to the mass's"""
    center: tuple[Array, Array]
    velocity: tuple[Array, Array]
    late_turning: Array
    """the spin times `lag` over `lever_scale`"""
    u: Array
    """the north-east corner seen from the center is (u, v), the next ones are (-v, u), (-u, -v), (v, -u)"""
    v: Array
    lever_u: Array
    """u times `lever_scale`"""
    lever_v: Array


class _Anchor(NamedTuple):
    """A corner of a mass, where springs are fastened."""

    arm: tuple[Array, Array]
    """seen from the mass's center"""
    lever: tuple[Array, Array]
    """the same times `lever_scale`"""
    place: tuple[Array, Array]


_Forces = list[list[Any]]
"""On each of a voxel's engine: x, y, and torque about its center; None is nothing."""


def rest_lengths(numbers: Numbers, control: Array) -> list[Array]:
    """Of the three kinds of spring under a control value in [-1, 1] [m]."""
    shrink, enlarge = jnp.maximum(control, 0), jnp.maximum(-control, 0)
    lengths = []
    for kind in range(len(LENGTH_KINDS)):
        rest = numbers[f"rest{kind}"]
        shorter, longer = rest - numbers[f"shrunk{kind}"], numbers[f"enlarged{kind}"] - rest
        lengths.append(rest - shrink * shorter + enlarge * longer)
    return lengths


def voxel_forces(numbers: Numbers, moving: list[list[Array]], lengths: list[Array], control: Array) -> list[Array]:
    """Force x and y [N] and torque [N m] on the cluster of each of the four masses.

    moving: x, y, cosine, sine, velocity x and y, spin of each mass's cluster; lengths: of the kinds of spring [m].
    """
    masses = _see_masses(numbers, moving)
    forces: _Forces = [[None, None, None] for _ in range(4)]
    _add_side_springs(numbers, masses, lengths, forces)
    _add_central_springs(numbers, masses, lengths, forces)
    _add_limits(numbers, masses, forces)
    _add_pressure(numbers, masses, forces)
    _add_actuation(numbers, masses, control, forces)
    total = []
    for mass, (force_x, force_y, torque) in zip(masses, forces, strict=True):
        total += [force_x, force_y, torque + mass.arm[0] * force_y - mass.arm[1] * force_x]
    return total


def mass_centers(numbers: Numbers, poses: list[list[Array]]) -> list[tuple[Array, Array]]:
    """Of a voxel's four masses, seen from its first cluster [m]; poses: x, y, cosine, sine of each mass's cluster."""
    origin_x, origin_y = poses[0][0], poses[0][1]
    return [
        (
            (x - origin_x) + cosine * numbers[f"offset_x{k}"] - sine * numbers[f"offset_y{k}"],
            (y - origin_y) + sine * numbers[f"offset_x{k}"] + cosine * numbers[f"offset_y{k}"],
        )
        for k, (x, y, cosine, sine) in enumerate(poses)
    ]


def _see_masses(numbers: Numbers, moving: list[list[Array]]) -> list[_Mass]:
    origin_x, origin_y = moving[0][0], moving[0][1]
    masses = []
    for k, (x, y, cosine, sine, velocity_x, velocity_y, spin) in enumerate(moving):
        offset_x, offset_y = numbers[f"offset_x{k}"], numbers[f"offset_y{k}"]
        arm_x, arm_y = cosine * offset_x - sine * offset_y, sine * offset_x + cosine * offset_y
        half_sine = numbers["half_side"] * sine
        u, v = numbers["half_side"] * cosine - half_sine, numbers["half_side"] * cosine + half_sine
        masses.append(
            _Mass(
                (arm_x, arm_y),
                (arm_x, arm_y) if k == 0 else ((x - origin_x) + arm_x, (y - origin_y) + arm_y),
                (velocity_x - spin * arm_y, velocity_y + spin * arm_x),
                numbers["lag_over_lever_scale"] * spin,
                u,
                v,
                numbers["lever_scale"] * u,
                numbers["lever_scale"] * v,
            )
        )
    return masses


def _add_side_springs(numbers: Numbers, masses: list[_Mass], lengths: list[Array], forces: _Forces) -> None:
    anchors = {(k, corner): _anchor(masses[k], corner) for k in range(4) for corner in _used_corners(k)}
    pulls: dict[tuple[int, tuple[int, int]], list[Any]] = {place: [None, None] for place in anchors}
    for side in range(4):
        first_mass, second_mass = masses[side], masses[(side + 1) % 4]
        rate = _difference(second_mass.velocity, first_mass.velocity)
        late = numbers["lag"] * rate[0], numbers["lag"] * rate[1]
        for sign_first, sign_second, group, kind in SIDE_SPRINGS:
            first = side, _corner(side, +1, sign_first)
            second = (side + 1) % 4, _corner(side, -1, sign_second)
            d = _difference(anchors[second].place, anchors[first].place)
            q = TINY + d[0] * d[0] + d[1] * d[1]
            lever_first, lever_second = (_cross(anchors[end].lever, d) for end in (first, second))
            pull = q - lengths[kind] * jnp.sqrt(q) + d[0] * late[0] + d[1] * late[1]
            pull = pull + second_mass.late_turning * lever_second - first_mass.late_turning * lever_first
            resistance = q + lever_first * lever_first + lever_second * lever_second
            tension = (numbers[f"stiffness_{SQUARE_GROUPS[group]}"] * pull) * (1 / resistance)
            for axis in (0, 1):
                force = tension * d[axis]
                pulls[first][axis] = _plus(pulls[first][axis], force)
                pulls[second][axis] = _plus(pulls[second][axis], -force)
    for (k, corner), force in pulls.items():
        parts = *force, _cross(anchors[k, corner].arm, force)
        forces[k] = [_plus(total, part) for total, part in zip(forces[k], parts, strict=True)]


def _add_central_springs(numbers: Numbers, masses: list[_Mass], lengths: list[Array], forces: _Forces) -> None:
    for k in (0, 1):
        d = _difference(masses[k + 2].center, masses[k].center)
        rate = _difference(masses[k + 2].velocity, masses[k].velocity)
        q = TINY + d[0] * d[0] + d[1] * d[1]
        inverse_root = jax.lax.rsqrt(q)
        opening = (d[0] * rate[0] + d[1] * rate[1]) * (inverse_root * inverse_root)
        pull = 1 - lengths[CENTRAL] * inverse_root + numbers["lag"] * opening
        _pull_together(forces, k, k + 2, numbers[f"stiffness_{Group.central_cross}"] * pull, d)


def _add_limits(numbers: Numbers, masses: list[_Mass], forces: _Forces) -> None:
    """Distance limits between neighboring masses, if a material has them."""
    limits = [(name, within) for name, within in (("lower", jnp.minimum), ("upper", jnp.maximum)) if name in numbers]
    for k in range(4) if limits else ():
        following = (k + 1) % 4
        d = _difference(masses[following].center, masses[k].center)
        rate = _difference(masses[following].velocity, masses[k].velocity)
        distance_2 = d[0] * d[0] + d[1] * d[1]
        late = 2 * numbers["limit_lag"] * (d[0] * rate[0] + d[1] * rate[1])
        tension = None
        for name, within in limits:
            excess = distance_2 - numbers[name]
            # The spring of a limit never pulls a lower one shut nor pushes an upper one open.
            pull = within(numbers[f"{name}_stiffness"] * (excess + late), 0)
            violated = excess < 0 if name == "lower" else excess > 0
            tension = _plus(tension, jnp.where(violated, pull, 0))
        assert tension is not None
        _pull_together(forces, k, following, tension, d)


def _add_pressure(numbers: Numbers, masses: list[_Mass], forces: _Forces) -> None:
    """What keeps a voxel from turning inside out, if a material has a lower limit."""
    if "lower" not in numbers:
        return
    diagonals = *_difference(masses[2].center, masses[0].center), *_difference(masses[3].center, masses[1].center)
    rates = *_difference(masses[2].velocity, masses[0].velocity), *_difference(masses[3].velocity, masses[1].velocity)
    pressure = area_pressure(numbers["area_stiffness"], numbers["least_area"], numbers["limit_lag"], diagonals, rates)
    for k, outward in enumerate(pressure_forces(pressure, diagonals)):
        for axis in (0, 1):
            forces[k][axis] = forces[k][axis] + outward[axis]
            forces[k + 2][axis] = forces[k + 2][axis] - outward[axis]


def _add_actuation(numbers: Numbers, masses: list[_Mass], control: Array, forces: _Forces) -> None:
    """Forces to the voxel's middle, if a material has force actuation."""
    if "max_force" not in numbers:
        return
    pulls = inward_forces(control * numbers["max_force"], [mass.center for mass in masses])
    for k, inward in enumerate(pulls):
        for axis in (0, 1):
            forces[k][axis] = forces[k][axis] + inward[axis]


def _pull_together(forces: _Forces, first: int, second: int, tension: Array, d: tuple[Array, Array]) -> None:
    """A tension (over distance) between the centers of two masses."""
    for axis in (0, 1):
        forces[first][axis] = forces[first][axis] + tension * d[axis]
        forces[second][axis] = forces[second][axis] - tension * d[axis]


def _corner(side: int, along: int, inward: int) -> tuple[int, int]:
    """Signs of the corner of a mass that is on the given sides along and across a voxel's side."""
    along_x, along_y = (int(value) for value in SIDE_ALONG[side])
    return along * along_x - inward * along_y, along * along_y + inward * along_x


def _used_corners(k: int) -> list[tuple[int, int]]:
    """Corners of mass k that hold springs: as the first mass of side k and the second of the side before."""
    corners = [_corner(k, +1, sign) for sign in (-1, 1)] + [_corner((k - 1) % 4, -1, sign) for sign in (-1, 1)]
    return list(dict.fromkeys(corners))


def _anchor(mass: _Mass, corner: tuple[int, int]) -> _Anchor:
    arm, lever = (
        {(1, 1): (u, v), (-1, 1): (-v, u), (-1, -1): (-u, -v), (1, -1): (v, -u)}[corner]
        for u, v in ((mass.u, mass.v), (mass.lever_u, mass.lever_v))
    )
    return _Anchor(arm, lever, (mass.center[0] + arm[0], mass.center[1] + arm[1]))


def _difference(end: tuple[Array, Array], start: tuple[Array, Array]) -> tuple[Array, Array]:
    return end[0] - start[0], end[1] - start[1]


def _cross(one: Any, other: Any) -> Array:
    return one[0] * other[1] - one[1] * other[0]


def _plus(total: Array | None, part: Array) -> Array:
    """A sum that need not begin with zero."""
    return part if total is None else total + part

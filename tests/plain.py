"""Slow, plain versions to test against: loops over springs and bodies, straight from the model's definition."""

from __future__ import annotations

import math

import numpy as np

CORNERS = {"SW": 0, "SE": 1, "NE": 2, "NW": 3}
GROUPS = {
    "SIDE_EXTERNAL": "side_external",
    "SIDE_INTERNAL": "side_internal",
    "SIDE_CROSS": "side_cross",
    "CENTRAL_CROSS": "central_cross",
}


def cross(a, b) -> float:
    return a[0] * b[1] - a[1] * b[0]


def turned(vector, angle) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])


def spring_terms(springs, center, angle, velocity, spin, rest, *, mass, inertia, frequency, damping_ratio, groups):
    """Each spring's (first, second, arms, direction, tension, energy) in one voxel; the list is the original's."""
    omega = 2 * math.pi * frequency
    for number, spring in enumerate(springs):
        if GROUPS[spring["group"]] not in groups:
            continue
        i, j = CORNERS[spring["body1"]], CORNERS[spring["body2"]]
        arm_i, arm_j = turned(spring["local_anchor1"], angle[i]), turned(spring["local_anchor2"], angle[j])
        d = center[j] + arm_j - center[i] - arm_i
        length = math.hypot(*d)
        n = d / length
        rate = (
            velocity[j]
            + spin[j] * np.array([-arm_j[1], arm_j[0]])
            - velocity[i]
            - spin[i] * np.array([-arm_i[1], arm_i[0]])
        )
        effective = 1 / (2 / mass + cross(arm_i, n) ** 2 / inertia + cross(arm_j, n) ** 2 / inertia)
        k, c = effective * omega**2, 2 * effective * damping_ratio * omega
        stretch = length - rest[number]
        yield i, j, arm_i, arm_j, n, k * stretch + c * (n @ rate), 0.5 * k * stretch**2


def voxel_forces(springs, center, angle, velocity, spin, rest, **material):
    """Force and torque on each of the four masses, (4, 2) and (4,)."""
    force, torque = np.zeros((4, 2)), np.zeros(4)
    for i, j, arm_i, arm_j, n, tension, _ in spring_terms(springs, center, angle, velocity, spin, rest, **material):
        force[i] += tension * n
        force[j] -= tension * n
        torque[i] += tension * cross(arm_i, n)
        torque[j] -= tension * cross(arm_j, n)
    return force, torque


def original_scheme(
    springs, order, control, *, time_step, steps, mass, inertia, frequency=8.0, damping_ratio=0.3, damping=1.0
):
    """The original's own integration of one free voxel: area ratio after every step.

    Soft velocity constraints with warm starting, ten Gauss-Seidel passes in the original's order. control(step) is the
    control value during a step, counted from 1.
    """
    pos = np.array([[-1.05, -1.05], [1.05, -1.05], [1.05, 1.05], [-1.05, 1.05]])
    angle, vel, spin = np.zeros(4), np.zeros((4, 2)), np.zeros(4)
    impulse = dict.fromkeys(order, 0.0)
    omega = 2 * math.pi * frequency
    areas = []
    for step in range(1, steps + 1):
        vel, spin = vel * (1 - time_step * damping), spin * (1 - time_step * damping)
        f = control(step)
        joints = []
        for number in order:
            spring = springs[number]
            i, j = CORNERS[spring["body1"]], CORNERS[spring["body2"]]
            r_i, r_j = turned(spring["local_anchor1"], angle[i]), turned(spring["local_anchor2"], angle[j])
            d = pos[i] + r_i - pos[j] - r_j
            length = math.hypot(*d)
            n = d / length
            rest = spring["rest"] + (
                f * (spring["min"] - spring["rest"]) if f > 0 else -f * (spring["max"] - spring["rest"])
            )
            m = 1 / (2 / mass + cross(r_i, n) ** 2 / inertia + cross(r_j, n) ** 2 / inertia)
            k, c = m * omega**2, 2 * m * damping_ratio * omega
            gamma = 1 / (time_step * (c + time_step * k))
            joints.append(
                (number, i, j, r_i, r_j, n, gamma, (length - rest) * time_step * k * gamma, 1 / (1 / m + gamma))
            )

        def push(i, j, r_i, r_j, n, amount, vel=vel, spin=spin):
            vel[i] += amount * n / mass
            spin[i] += amount * cross(r_i, n) / inertia
            vel[j] -= amount * n / mass
            spin[j] -= amount * cross(r_j, n) / inertia

        for number, i, j, r_i, r_j, n, *_ in joints:
            push(i, j, r_i, r_j, n, impulse[number])
        for _ in range(10):
            for number, i, j, r_i, r_j, n, gamma, bias, soft in joints:
                speed = n @ vel[i] + spin[i] * cross(r_i, n) - n @ vel[j] - spin[j] * cross(r_j, n)
                amount = -soft * (speed + bias + gamma * impulse[number])
                impulse[number] += amount
                push(i, j, r_i, r_j, n, amount)
        pos, angle = pos + time_step * vel, angle + time_step * spin
        outer = [pos[k] + turned(0.45 * np.sign([[-1, -1], [1, -1], [1, 1], [-1, 1]][k]), angle[k]) for k in range(4)]
        areas.append(sum(cross(outer[k], outer[(k + 1) % 4]) for k in range(4)) / 2 / 9)
    return np.array(areas)

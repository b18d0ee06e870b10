"""One substep of semi-implicit Euler: forces change the velocities, the new velocities move the pose.

Angles are kept as cosine and sine and turned by the Cayley map, so no substep needs a transcendental function. Every
array may have further axes at the end, or be the lanes of a kernel.
"""

from __future__ import annotations

from jax import Array

from vsr.physics.squares.contact import Motion, Pose


def accelerate(
    motion: Motion,
    forces: tuple[Array, Array, Array],
    inverse_mass: Array,
    inverse_inertia: Array,
    fall: Array,
    decay: tuple[Array, Array],
    substep: float,
) -> Motion:
    """Velocities after a substep of forces.

    forces: x and y [N] and torque [N m]; fall: acceleration of gravity where it acts [m/s²]; decay: factors by which
    velocity and spin shrink in a substep.
    """
    force_x, force_y, torque = forces
    return Motion(
        motion.x * decay[0] + substep * force_x * inverse_mass,
        motion.y * decay[0] + substep * (force_y * inverse_mass - fall),
        motion.spin * decay[1] + substep * torque * inverse_inertia,
    )


def move(pose: Pose, motion: Motion, nudge: tuple[Array | float, Array | float], substep: float) -> Pose:
    """The pose after a substep at these velocities; nudge: moved besides, x and y [m]."""
    half_turn = 0.5 * substep * motion.spin
    scale = 1 / (1 + half_turn * half_turn)
    cosine_step, sine_step = (1 - half_turn * half_turn) * scale, 2 * half_turn * scale
    cosine = pose.cosine * cosine_step - pose.sine * sine_step
    sine = pose.sine * cosine_step + pose.cosine * sine_step
    keep_unit = 1.5 - 0.5 * (cosine * cosine + sine * sine)  # round-off must not shrink or stretch the masses
    return Pose(
        pose.x + substep * motion.x + nudge[0],
        pose.y + substep * motion.y + nudge[1],
        cosine * keep_unit,
        sine * keep_unit,
    )

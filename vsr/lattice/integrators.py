"""Ways to take one step in time. Each is a function of the acceleration and nothing else of the world.

    semi_implicit_euler  order 1, symplectic, one evaluation; the default
    explicit_euler       order 1, gains energy without damping, one evaluation; for comparison
    verlet               order 2, symplectic, one evaluation (drift half a step, kick, drift)
    rk4                  order 4, four evaluations

Without damping and with ω the highest angular frequency, steps are stable up to 2/ω (semi-implicit Euler, Verlet) and
2√2/ω (Runge-Kutta); explicit Euler has no such limit: it always gains energy, the slower the shorter the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jax import Array

from vsr.compute.vector import Vector, plus, times
from vsr.compute.xla import materialize
from vsr.spec import suggest


class NodeState(NamedTuple):
    """Where all nodes are and how they move."""

    position: Vector
    velocity: Vector


Acceleration = Callable[[NodeState, Array], Vector]
"""Of every node [m/s²], given its motion and the time [s]."""


def semi_implicit_euler(acceleration: Acceleration, now: NodeState, time: Array, step: Array | float) -> NodeState:
    """New velocities first; they move the nodes."""
    velocity = plus(now.velocity, times(step, acceleration(now, time)))
    return NodeState(plus(now.position, times(step, velocity)), velocity)


def explicit_euler(acceleration: Acceleration, now: NodeState, time: Array, step: Array | float) -> NodeState:
    """Old velocities move the nodes."""
    velocity = plus(now.velocity, times(step, acceleration(now, time)))
    return NodeState(plus(now.position, times(step, now.velocity)), velocity)


def verlet(acceleration: Acceleration, now: NodeState, time: Array, step: Array | float) -> NodeState:
    """Half a step of motion, a whole one of forces, half a step of motion."""
    middle = plus(now.position, times(0.5 * step, now.velocity))
    velocity = plus(now.velocity, times(step, acceleration(NodeState(middle, now.velocity), time + 0.5 * step)))
    return NodeState(plus(middle, times(0.5 * step, velocity)), velocity)


def rk4(acceleration: Acceleration, now: NodeState, time: Array, step: Array | float) -> NodeState:
    """The classical Runge-Kutta method."""

    def derivative(moving: NodeState, at: Array) -> NodeState:
        return NodeState(moving.velocity, acceleration(moving, at))

    def ahead(derivatives: NodeState, by: Array | float) -> NodeState:
        there = plus(now.position, times(by, derivatives.position)), plus(now.velocity, times(by, derivatives.velocity))
        return NodeState(*materialize(now.position[0], there))

    first = derivative(now, time)
    second = derivative(ahead(first, 0.5 * step), time + 0.5 * step)
    third = derivative(ahead(second, 0.5 * step), time + 0.5 * step)
    fourth = derivative(ahead(third, step), time + step)

    def mean(a: Vector, b: Vector, c: Vector, d: Vector) -> Vector:
        return tuple((w + 2 * x + 2 * y + z) / 6 for w, x, y, z in zip(a, b, c, d, strict=True))

    derivatives = NodeState(*(mean(*parts) for parts in zip(first, second, third, fourth, strict=True)))
    return ahead(derivatives, step)


INTEGRATORS: dict[str, Callable[[Acceleration, NodeState, Array, Array | float], NodeState]] = {
    function.__name__: function for function in (semi_implicit_euler, explicit_euler, verlet, rk4)
}
"""Every integrator by its name."""

ORDER_IN_VELOCITY = {"semi_implicit_euler": 1, "explicit_euler": 1, "verlet": 1, "rk4": 4}
"""LaneOrder for forces that depend on velocity, which all but Runge-Kutta take from the start of the step."""

LAG = {"semi_implicit_euler": 0.5, "explicit_euler": -0.5, "verlet": 0.0, "rk4": 0.0}
"""By which share of a step velocities are older than positions: Euler's steps move nodes with one velocity from end to
end, which is that of the middle."""

FORCE_EVALUATION_OFFSET = {"semi_implicit_euler": 0.0, "explicit_euler": 0.0, "verlet": 0.5}
"""Those that ask for forces once in a step: how many steps ahead of the positions before it."""

STABLE_UP_TO = {"semi_implicit_euler": 2.0, "verlet": 2.0, "rk4": 2.0 * 2**0.5}
"""Longest step times the highest angular frequency, without damping (explicit Euler has none)."""

NEEDS_DAMPING = "explicit_euler gains energy unless every spring is damped; damp the springs or use another integrator"


def check_integrator(name: str) -> None:
    """Raise ValueError for an unknown integrator."""
    if name not in INTEGRATORS:
        raise ValueError(f"unknown integrator '{name}'{suggest(name, INTEGRATORS)}")

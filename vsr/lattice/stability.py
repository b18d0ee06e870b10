"""The longest stable step of a lattice: from the highest frequency of small motions about rest.

The largest eigenvalue of M⁻¹K comes from power iteration on the springs themselves (no matrix is built), that of M⁻¹C
likewise. With λ and µ the two, semi-implicit Euler and Verlet with explicit damping are stable while h² λ + 2 h µ < 4.
Runge-Kutta is so too, and undamped while h² λ < 8. Explicit Euler needs h K < C, so h less than damping over stiffness
of every spring, and h µ < 2.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, split, times
from vsr.lattice import graph, grid
from vsr.lattice.integrators import NEEDS_DAMPING, STABLE_UP_TO, check_integrator
from vsr.lattice.model import GraphSprings, Lattice

ITERATIONS = 200
CAUTION = 1.03
"""Power iteration comes from below."""
SHARE_OF_BOUND = 0.5
"""Of the default step: large deformations are stiffer than small ones."""


def stable_step(stiff: float, viscous: float, relaxation: float, integrator: str) -> float:
    """The longest stable step [s], 0 if there is none.

    stiff, viscous: largest eigenvalues of M⁻¹K [1/s²] and M⁻¹C [1/s]; relaxation: the least damping over stiffness of
    any spring [s], which explicit Euler needs.
    """
    if stiff <= 0:
        return float("inf")
    if integrator == "explicit_euler":
        return min(relaxation, 2 / viscous if viscous > 0 else float("inf"))
    if integrator == "rk4" and viscous == 0:
        return STABLE_UP_TO["rk4"] / stiff**0.5
    return (-viscous + (viscous**2 + 4 * stiff) ** 0.5) / stiff


def longest_step(lattice: Lattice, integrator: str = "semi_implicit_euler") -> float:
    """The stability bound [s], 0 if no step is stable; raises ValueError for an unknown integrator."""
    check_integrator(integrator)
    stiff, viscous = (CAUTION * float(value) for value in _largest_eigenvalues(lattice))
    return stable_step(stiff, viscous, _least_relaxation(lattice), integrator)


def choose_step(lattice: Lattice, integrator: str = "semi_implicit_euler", step: float | None = None) -> float:
    """A stable step [s]: the given one if it is, or half the bound.

    Raises ValueError, with the bound, for a step that would blow up, and where there is nothing to choose from.
    """
    bound = longest_step(lattice, integrator)
    if bound <= 0:
        raise ValueError(f"no step is stable: {NEEDS_DAMPING}")
    if step is None:
        if bound == float("inf"):
            raise ValueError("this lattice has no springs, so any step is stable: give one")
        return SHARE_OF_BOUND * bound
    if not 0 < step <= bound:
        raise ValueError(
            f"a step of {step:.3g} s would blow up: with {integrator} this lattice is stable up to {bound:.3g} s; "
            f"use less, but more than 0 (or leave it out: {SHARE_OF_BOUND * bound:.3g} s)"
        )
    return step


def _least_relaxation(lattice: Lattice) -> float:
    """Least damping over stiffness of all springs [s]."""
    springs = lattice.springs
    if springs.damping is None:
        return 0.0
    pairs = zip(jax.tree.leaves(springs.damping), jax.tree.leaves(springs.stiffness), strict=True)
    return min(float(jnp.where(k > 0, c / jnp.where(k > 0, k, 1), jnp.inf).min()) for c, k in pairs)


@jax.jit
def _largest_eigenvalues(lattice: Lattice) -> tuple[Array, Array]:
    """Of M⁻¹K and M⁻¹C [1/s², 1/s]."""
    springs = lattice.springs
    stiffness = _largest(lattice, springs.stiffness)
    return stiffness, jnp.zeros(()) if springs.damping is None else _largest(lattice, springs.damping)


def _largest(lattice: Lattice, constants: Array | tuple[Array, ...]) -> Array:
    """Largest eigenvalue of M^-1/2 A M^-1/2, where A is made of spring constants along the springs at rest."""
    root = jnp.sqrt(lattice.inverse_mass)
    apply = partial(_response, lattice, constants)

    def improve(_, carry: tuple[Vector, Array]) -> tuple[Vector, Array]:
        shape, _ = carry
        response = times(root, apply(times(root, shape)))
        size = jnp.sqrt(sum((part**2).sum() for part in response))
        return times(1 / jnp.maximum(size, jnp.finfo(root.dtype).tiny), response), size

    keys = jax.random.split(jax.random.key(0), lattice.dimension)
    start = tuple(jax.random.normal(key, root.shape, root.dtype) * (root > 0) for key in keys)
    size = jnp.sqrt(sum((part**2).sum() for part in start))
    start = times(1 / jnp.maximum(size, jnp.finfo(root.dtype).tiny), start)
    return jax.lax.fori_loop(0, ITERATIONS, improve, (start, jnp.zeros((), root.dtype)))[1]


def _response(lattice: Lattice, constants: Array | tuple[Array, ...], shift: Vector) -> Vector:
    """Forces that resist small shifts of the nodes, linear about rest."""
    rest = split(lattice.rest_position, lattice.node_axes)
    if isinstance(lattice.springs, GraphSprings):
        return graph.resisting_forces(lattice.springs, constants, rest, shift)  # pyright: ignore[reportArgumentType]
    return grid.resisting_forces(constants, rest, shift)  # pyright: ignore[reportArgumentType]

"""Static equilibrium: the place where an energy is least, by Newton's method with two safeguards.

A step solves (H + μ d) s = f, with f the forces on free coordinates, H the energy's second derivatives and d their mean
size. Where H is not positive definite μ grows until the sum is: so no step leads to a saddle, and the end is a minimum
or is not called converged. Steps are cut to a trusted length, which shrinks where the energy does not fall and grows
where it does. Near the end energies differ by less than their rounding, and derivatives along the step judge instead
(W. W. Hager and H. Zhang's approximate Wolfe condition).

The result can be differentiated with respect to the parameters, forwards and backwards, by the implicit function
theorem: H dx = ∂f/∂θ dθ. Failures are flags. One body; use `vmap` for many.

The linear equations are solved densely, or by products with vectors alone; bodies on grids have
vsr.physics.statics.sections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import exactly

Energy = Callable[[Array, Any], Array]
"""From coordinates of any shape and parameters, a pytree, to [J], ()."""
Solve = Callable[[Array, Any, Array, Array, Array], tuple[Array, Array]]
"""From coordinates, parameters, freedom, right sides (sides, *coordinates) and μ to answers of the same shape, 0 where
nothing is free, and whether the matrix is positive definite, ()."""


@dataclass(frozen=True)
class System:
    """An energy and how linear equations with its second derivatives are solved; see vsr.physics.statics.newton.

    Compared by its functions: keep it, so that what is compiled for it is used again.
    """

    energy: Energy
    solve: Solve


@dataclass(frozen=True)
class Settings:
    """When to stop."""

    tolerance: float | None = None
    """the last step may move no coordinate by more, in sizes of the body; None for (machine precision)^(2/3)"""
    most_iterations: int = 100
    """steps, those that were refused too"""
    trust: float = 0.1
    """length of the first step at most, in sizes of the body"""


class Equilibrium(NamedTuple):
    """Where a body rests."""

    position: Array
    """as given"""
    residual: Array
    """largest force on a free coordinate [N], ()"""
    iterations: Array
    """solved systems, ()"""
    converged: Array
    """whether it is a minimum of the energy, to the tolerance, ()"""


@exactly
def equilibrium(
    system: System,
    start: Array,
    free: Array,
    parameters: Any,
    *,
    size: Array | float,
    settings: Settings | None = None,
) -> Equilibrium:
    """The minimum next to a start.

    start: [m], any shape; free: 1 for coordinates that may move, else 0, of the same shape, or projections (one more
    axis) where the solver knows them; parameters: all that the energy depends on and that gradients may be asked for;
    size: of the body [m], ().
    """
    found, _ = settle(system, start, free, parameters, size=size, settings=settings)
    position = _differentiable(system, jax.lax.stop_gradient(found.position), free, parameters)
    return found._replace(position=position)


@exactly
def settle(
    system: System,
    start: Array,
    free: Array,
    parameters: Any,
    *,
    size: Array | float,
    settings: Settings | None = None,
    pushes: Callable[[Array], Array] | None = None,
) -> tuple[Equilibrium, Array]:
    """The minimum next to a start, without gradients, and how it would give way to further forces.

    Arguments as for `equilibrium`. pushes: forces at a position, (pushes, *coordinates); the answers, of the same
    shape, come from the last step's matrix and so cost little.
    """
    fixed = jax.lax.stop_gradient((start, free, parameters, jnp.asarray(size, start.dtype)))
    return _descend(system, settings or Settings(), *fixed, pushes or (lambda place: jnp.zeros((0, *place.shape))))


def project(free: Array, vector: Array) -> Array:
    """What is left of vectors in free directions; vector: with any axes before those of coordinates."""
    coordinates = free.ndim if vector.shape[vector.ndim - free.ndim :] == free.shape else None
    if coordinates is not None:
        return free * vector
    return jnp.einsum("...ij,...j->...i", free, vector)


class _Descent(NamedTuple):
    position: Array
    energy: Array
    gradient: Array
    """gradient on free coordinates [N]"""
    shift: Array
    """μ over the mean size of second derivatives"""
    trust: Array
    """longest step of a coordinate [m]"""
    iterations: Array
    done: Array
    stuck: Array
    answers: Array
    """to further forces, (pushes, *coordinates)"""


def _descend(
    system: System,
    settings: Settings,
    start: Array,
    free: Array,
    parameters: Any,
    size: Array,
    pushes: Callable[[Array], Array],
) -> tuple[Equilibrium, Array]:
    """See `settle`."""
    kind = jnp.finfo(start.dtype)
    tolerance = size * (float(kind.eps) ** (2 / 3) if settings.tolerance is None else settings.tolerance)
    value_and_gradient = jax.value_and_grad(system.energy)

    def at(position: Array) -> tuple[Array, Array]:
        energy, gradient = value_and_gradient(position, parameters)
        return energy, project(free, gradient)

    def go_on(now: _Descent) -> Array:
        return ~now.done & ~now.stuck & (now.iterations < settings.most_iterations)

    def step(now: _Descent) -> _Descent:
        sides = jnp.concatenate([-now.gradient[None], pushes(now.position).astype(start.dtype)])
        answers, positive = system.solve(now.position, parameters, free, sides, now.shift)
        whole = jnp.where(positive, answers[0], 0)
        length = jnp.abs(whole).max()
        cut = jnp.minimum(1, now.trust / jnp.maximum(length, kind.tiny))
        move = cut * whole
        energy, gradient = at(now.position + move)
        down = (now.gradient * move).sum()
        ahead = (gradient * move).sum()
        falls = energy <= now.energy + 1e-4 * down
        level = energy <= now.energy + 1e3 * kind.eps * jnp.abs(now.energy)
        good = positive & jnp.isfinite(energy) & (falls | (level & (ahead <= -0.8 * down)))
        small = positive & (length <= tolerance)
        taken = good | (small & jnp.isfinite(energy))
        return _Descent(
            position=jnp.where(taken, now.position + move, now.position),
            energy=jnp.where(taken, energy, now.energy),
            gradient=jnp.where(taken, gradient, now.gradient),
            shift=_next_shift(now.shift, positive, good),
            trust=jnp.where(
                good, jnp.maximum(now.trust, 2 * cut * length), jnp.where(positive, cut * length / 4, now.trust)
            ),
            iterations=now.iterations + 1,
            done=small & (now.shift == 0),
            stuck=~jnp.isfinite(now.energy) | (now.trust < kind.eps * size) | (now.shift > 1e6),
            answers=answers[1:],
        )

    energy, gradient = at(start)
    none = jnp.zeros((), bool)
    first = _Descent(
        position=start,
        energy=energy,
        gradient=gradient,
        shift=jnp.zeros((), start.dtype),
        trust=settings.trust * size,
        iterations=jnp.zeros((), jnp.int32),
        done=none,
        stuck=none,
        answers=jnp.zeros_like(pushes(start), start.dtype),
    )
    last = jax.lax.while_loop(go_on, step, first)
    found = Equilibrium(last.position, jnp.abs(last.gradient).max(), last.iterations, last.done)
    return found, last.answers


FIRST_SHIFT, LEAST_SHIFT = 1e-3, 1e-5
"""of μ, over the mean size of second derivatives"""


def _next_shift(shift: Array, positive: Array, good: Array) -> Array:
    smaller = jnp.where(shift > LEAST_SHIFT, shift / 10, 0)
    return jnp.where(positive, jnp.where(good, smaller, shift), jnp.maximum(10 * shift, FIRST_SHIFT))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _differentiable(system: System, position: Array, free: Array, parameters: Any) -> Array:
    """The position as it is; moves with the parameters as an equilibrium does."""
    return position


@_differentiable.defjvp
@exactly
def _implicit(system: System, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    position, free, parameters = primals

    def gradient(at: Any) -> Array:
        return project(free, jax.grad(system.energy)(position, at))

    pushed = jax.jvp(gradient, (parameters,), (tangents[2],))[1]

    def product(vector: Array) -> Array:
        inside = project(free, vector)
        turned = jax.jvp(lambda place: jax.grad(system.energy)(place, parameters), (position,), (inside,))[1]
        return project(free, turned) + vector - inside

    def solve(_: Any, right: Array) -> Array:
        none = jnp.zeros((), position.dtype)
        inside = project(free, right)
        return system.solve(position, parameters, free, inside[None], none)[0][0] + right - inside

    return position, -jax.lax.custom_linear_solve(product, pushed, solve, transpose_solve=solve, symmetric=True)


@lru_cache(maxsize=64)
def dense(energy: Energy) -> System:
    """By Cholesky's factors of the whole matrix: for a few hundred coordinates of any kind of energy."""

    def solve(position: Array, parameters: Any, free: Array, sides: Array, shift: Array) -> tuple[Array, Array]:
        count, mask = position.size, free.reshape(-1)
        matrix = jax.hessian(energy)(position, parameters).reshape(count, count) * mask * mask[:, None]
        scale = jnp.abs(jnp.diagonal(matrix)).sum() / jnp.maximum(mask.sum(), 1)
        factor = jnp.linalg.cholesky(matrix + jnp.diag(jnp.where(mask > 0, shift * scale, 1)))
        answers = jax.scipy.linalg.cho_solve((factor, True), (sides.reshape(-1, count) * mask).T)
        return answers.T.reshape(sides.shape), jnp.isfinite(factor).all()

    return System(energy, solve)


@lru_cache(maxsize=64)
def matrix_free(energy: Energy, *, tolerance: float = 1e-8, most_iterations: int = 10_000) -> System:
    """By conjugate gradients on products of second derivatives with vectors: for large bodies of any kind.

    tolerance: of the residual, over the right side. Slender bodies take many iterations.
    """

    def solve(position: Array, parameters: Any, free: Array, sides: Array, shift: Array) -> tuple[Array, Array]:
        gradient = jax.grad(energy)
        probe = project(free, jnp.ones_like(position))

        def product(vector: Array) -> Array:
            return project(free, jax.jvp(lambda place: gradient(place, parameters), (position,), (vector,))[1])

        scale = jnp.sqrt((product(probe) ** 2).sum() / jnp.maximum((probe**2).sum(), 1))

        def one(side: Array) -> tuple[Array, Array]:
            def shifted(vector: Array) -> Array:
                return product(vector) + shift * scale * vector

            return _conjugate_gradients(shifted, project(free, side), tolerance, most_iterations)

        answers, positive = jax.lax.map(one, sides)
        return answers, positive.all()

    return System(energy, solve)


def _conjugate_gradients(product: Any, side: Array, tolerance: float, most: int) -> tuple[Array, Array]:
    """The answer, and whether no direction of negative curvature was met."""
    goal = (side * side).sum() * max(tolerance, 4 * float(jnp.finfo(side.dtype).eps)) ** 2

    def go_on(now: tuple) -> Array:
        _, _, _, left, count, positive = now
        return (left > goal) & (count < most) & positive

    def step(now: tuple) -> tuple:
        answer, rest, along, left, count, _ = now
        turned = product(along)
        curvature = (along * turned).sum()
        positive = curvature > 0
        share = jnp.where(positive, left / jnp.where(positive, curvature, 1), 0)
        rest = rest - share * turned
        remains = (rest * rest).sum()
        return answer + share * along, rest, rest + remains / left * along, remains, count + 1, positive

    first = jnp.zeros_like(side), side, side, (side * side).sum(), jnp.zeros((), jnp.int32), jnp.ones((), bool)
    last = jax.lax.while_loop(go_on, step, first)
    return last[0], last[5]

"""The GPU kernel for grids of nodes does what plain JAX does: interpreted here, and itself where there is a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.lattice import (
    Lattice,
    State,
    Stiffness,
    Surroundings,
    Wave,
    advance,
    advance_until,
    anchor,
    as_graph,
    ball,
    breakable,
    broken_count,
    driven,
    floor,
    keep_in_plane,
    loads,
    of_pairs,
    rest_state,
    slope,
)
from vsr.lattice.grid import directions, spring_shape
from vsr.lattice.loops import repeat
from vsr.terrain import Hilly

pytestmark = pytest.mark.usefixtures("quickly_compiled")

KERNEL = "fused" if jax.default_backend() == "gpu" else "interpreted"
STEP, COUNT = 1e-3, 11
"""More steps than go together in a turn of the loop, and not a multiple."""
SIZES = {2: (6, 5), 3: (5, 4, 7)}
"""Nodes; neither a whole program nor alike along the axes."""


def uneven(dimension: int) -> Lattice:
    """A grid with some springs missing, all different, damped, and with nodes of different mass, one anchored."""
    nodes = SIZES[dimension]
    lattice = of_pairs(nodes, 0.1, Stiffness(500.0, 300.0, 200.0), 0.1, damping_time=0.002)
    random = np.random.default_rng(1)
    shapes = [spring_shape(nodes, direction) for direction in directions(dimension)]
    present = [random.random(shape) > 0.2 for shape in shapes]

    def varied(values, least: float, where=None):
        parts = zip(values, shapes, where or [1] * len(shapes), strict=True)
        return tuple(jnp.float32(part * random.uniform(least, 1, shape) * there) for part, shape, there in parts)

    springs = replace(
        lattice.springs,
        stiffness=varied(lattice.springs.stiffness, 0.5, present),
        rest_length=varied(lattice.springs.rest_length, 0.9),
        damping=varied(lattice.springs.damping, 0.5, present),
    )
    mass = jnp.float32(random.uniform(0.05, 0.1, nodes))
    held = np.zeros(lattice.mass.shape, bool)
    held.flat[7] = True
    return anchor(replace(lattice, springs=springs, mass=mass, inverse_mass=1 / mass), held)


def even(dimension: int) -> Lattice:
    """A grid whose springs are all alike, given by one number a direction."""
    lattice = of_pairs(SIZES[dimension], 0.1, Stiffness(500.0, 300.0, 200.0), 0.1)
    assert all(part.size == 1 for part in lattice.springs.stiffness)
    return lattice


def shaken(lattice: Lattice, seed: int = 2) -> State:
    random = np.random.default_rng(seed)
    state = rest_state(lattice)
    free = np.asarray(lattice.inverse_mass > 0)[..., None]
    shape, dtype = state.position.shape, state.position.dtype
    return replace(
        state,
        position=state.position + jnp.asarray(0.02 * random.normal(size=shape), dtype) * free,
        velocity=jnp.asarray(0.5 * random.normal(size=shape), dtype) * free,
    )


def assert_same(lattice: Lattice, surroundings: Surroundings, integrator: str = "semi_implicit_euler") -> State:
    state = shaken(lattice)
    plain, kernel = (
        advance(
            lattice, surroundings, state, step=STEP, count=COUNT, integrator=integrator, implementation=implementation
        )
        for implementation in ("xla", KERNEL)
    )
    assert np.abs(plain.position - state.position).max() > 1e-3
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), kernel, plain)
    return kernel


@pytest.mark.parametrize(
    ("lattice", "dimension", "integrator"),
    [
        (even, 2, "verlet"),
        (even, 3, "explicit_euler"),
        (uneven, 2, "semi_implicit_euler"),
        (uneven, 3, "verlet"),
    ],
)
def test_springs_alike_and_not(lattice, dimension, integrator):
    assert_same(lattice(dimension), Surroundings(), integrator)


@pytest.mark.parametrize("dimension", [2, 3])
def test_all_that_acts_from_outside(dimension):
    lattice = uneven(dimension)
    some = np.arange(lattice.mass.size).reshape(lattice.mass.shape) % 3 == 0
    lattice = keep_in_plane(lattice, some, [1.0] + [0.5] * (dimension - 1))
    surroundings = Surroundings(
        drag=0.05,
        load=loads(lattice, some, [3.0] * dimension),
        bodies=(
            floor(dimension, 0.05, friction=0.7, restitution=0.3),
            ball([0.2] * dimension, 0.1, friction=0.2),
            slope(dimension, 0.3, friction=0.1),
        ),
    )
    assert_same(lattice, surroundings)


def test_ground_with_hills():
    bodies = (floor(2, 0.05, friction=0.7, restitution=0.3),)
    assert_same(uneven(2), Surroundings(bodies=bodies, terrain=Hilly().build(jnp.float32)))


def test_springs_that_break():
    lattice = breakable(uneven(2), 3.0)
    end = assert_same(lattice, Surroundings())
    assert 5 < broken_count(lattice, end) < 60


@pytest.mark.parametrize("nodes", [(1, 6), (3, 1)])
def test_a_grid_one_node_thick(nodes):
    """Some directions have no springs at all."""
    lattice = breakable(of_pairs(nodes, 0.1, Stiffness(500.0, 300.0, 200.0), 0.1), 1e3)
    assert_same(lattice, Surroundings())


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "verlet"])
def test_springs_that_swing(integrator):
    lattice = uneven(2)
    alike = tuple(jnp.full(part.shape, 0.3) for part in lattice.springs.stiffness)
    late = tuple(jnp.full(part.shape, 0.01) for part in lattice.springs.stiffness)
    assert_same(driven(lattice, Wave(alike, jnp.asarray(50.0), late, jnp.asarray(0.1))), Surroundings(), integrator)


def test_many_at_once_are_each_alone():
    lattice, surroundings = even(2), Surroundings(bodies=(floor(2, 0.02, friction=0.5),))
    alone = [shaken(lattice, seed) for seed in range(3)]

    def move(state: State) -> State:
        return advance(lattice, surroundings, state, step=STEP, count=COUNT, implementation=KERNEL)

    together = jax.vmap(move)(jax.tree.map(lambda *parts: jnp.stack(parts), *alone))
    for number, state in enumerate(alone):
        mine = jax.tree.map(lambda part: part[number], together)  # noqa: B023
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), mine, move(state))


def test_a_breakpoint_is_met_at_the_same_step():
    lattice = even(2)
    ends = [
        advance_until(
            lattice, Surroundings(), shaken(lattice), time=0.0205, step=STEP, check_every=9, implementation=name
        )
        for name in ("xla", KERNEL)
    ]
    assert ends[0].time == ends[1].time
    np.testing.assert_allclose(ends[0].position, ends[1].position, rtol=1e-4, atol=1e-5)


def test_springs_neither_gain_nor_lose_momentum():
    lattice = uneven(2)
    lattice = replace(lattice, inverse_mass=1 / lattice.mass)
    state = shaken(lattice)
    end = advance(lattice, Surroundings(gravity=0.0), state, step=STEP, count=COUNT, implementation=KERNEL)
    before, after = (np.einsum("yx,yxd->d", lattice.mass, part.velocity) for part in (state, end))
    assert np.abs(np.asarray(end.velocity - state.velocity)).max() > 0.1
    np.testing.assert_allclose(after, before, atol=2e-6)


def test_launches_go_together_and_are_counted():
    """Several in a turn of a loop, and what is left over one by one, from any number on."""
    for first, last in ((0, 3), (2, 31), (5, 5)):
        numbers = sum(3**power * number for power, number in enumerate(reversed(range(first, last)))) % 2**32
        together = repeat(lambda number, now: 3 * now + number, first, last, jnp.uint32(0), together=4)
        counted = jax.jit(partial(repeat, lambda number, now: 3 * now + jnp.asarray(number, jnp.uint32), together=4))
        assert int(together) == numbers
        assert int(counted(jnp.asarray(first), jnp.asarray(last), jnp.uint32(0))) == numbers


def test_what_the_kernel_cannot_do_is_refused():
    lattice = even(2)
    for body, integrator, words in (
        (as_graph(lattice), "verlet", "are a graph"),
        (lattice, "rk4", "rk4 was asked for"),
    ):
        with pytest.raises(ValueError, match=words):
            advance(
                body,
                Surroundings(),
                rest_state(lattice),
                step=STEP,
                count=1,
                integrator=integrator,
                implementation="interpreted",
            )

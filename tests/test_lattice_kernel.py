"""The GPU kernel for grids of nodes does what plain JAX does: interpreted here, and itself where there is a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.compute.implementation import Implementation
from vsr.compute.xla import repeat
from vsr.lattice import (
    Environment,
    Lattice,
    State,
    Stiffness,
    Wave,
    advance,
    advance_until,
    anchor,
    as_graph,
    ball,
    breakable,
    broken_count,
    driven,
    energy,
    floor,
    keep_in_plane,
    loads,
    of_pairs,
    record,
    rest_state,
    slope,
)
from vsr.lattice.grid import directions, first_ends, second_ends, spring_shape
from vsr.terrain import HeightField, Hilly, Terrain

pytestmark = pytest.mark.usefixtures("quickly_compiled")

KERNEL: Implementation = "fused" if jax.default_backend() == "gpu" else "interpreted"
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
    clamped = np.zeros(lattice.mass.shape, bool)
    clamped.flat[7] = True
    return anchor(replace(lattice, springs=springs, mass=mass, inverse_mass=1 / mass), clamped)


def even(dimension: int) -> Lattice:
    """A grid whose springs are all alike, given by one number a direction."""
    lattice = of_pairs(SIZES[dimension], 0.1, Stiffness(500.0, 300.0, 200.0), 0.1)
    assert all(part.size == 1 for part in lattice.springs.stiffness)
    return lattice


def sheet(stiffness: float = 500.0) -> Lattice:
    """A level sheet in 3-D with a hole: a place without a node, between nodes of different mass.

    One node thick, because springs in fewer directions are compiled sooner.
    """
    nodes = (1, 4, 5)
    lattice = of_pairs(nodes, 0.1, Stiffness(stiffness, 300.0, 200.0), 0.1, damping_time=0.002)
    mass = np.full(nodes, 0.1, np.float32)
    mass[0, 1:3, 1:3] = [[0.0, 0.05], [0.2, 0.1]]
    there = mass > 0

    def cut(values):
        return tuple(
            jnp.asarray(np.asarray(part) * (first_ends(there, direction) & second_ends(there, direction)))
            for part, direction in zip(values, directions(3), strict=True)
        )

    springs = replace(lattice.springs, stiffness=cut(lattice.springs.stiffness), damping=cut(lattice.springs.damping))
    inverse = np.divide(1, mass, out=np.zeros_like(mass), where=there)
    return replace(lattice, springs=springs, mass=jnp.asarray(mass), inverse_mass=jnp.asarray(inverse))


def bumps(seed: int) -> HeightField:
    """About as large as the sheet, so that some nodes meet it on the way, some of them beyond its border.

    It lies low enough for nodes to bounce rather than to lie on it: the last digit decides in every step whether a node
    that lies is held, and a start that differs by 1e-7 then ends with speeds that differ by 0.01 m/s.
    """
    heights = np.random.default_rng(seed).normal(-0.01, 0.02, (3, 4))
    return HeightField.of(heights, (-0.05, 0.02), (0.12, 0.11), friction=0.6, restitution=0.3)


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


def assert_same(lattice: Lattice, environment: Environment, integrator: str = "semi_implicit_euler") -> State:
    state = shaken(lattice)
    plain, kernel = (
        advance(
            lattice, environment, state, step=STEP, count=COUNT, integrator=integrator, implementation=implementation
        )
        for implementation in ("xla", KERNEL)
    )
    assert np.abs(plain.position - state.position).max() > 1e-3
    assert_close(kernel, plain)
    return kernel


def assert_close(kernel, plain) -> None:
    """To the rounding of float32 in other orders of summation.

    A length of about 0.5 m is known to 3e-8 m; times a stiffness of 500 N/m, over 0.1 kg, in steps of 1 ms that is
    1.5e-7 m/s of a spring in a step, and about 1e-6 m/s of some eight springs in some ten steps if they add up like a
    random walk: a tenth of what is allowed.
    """
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), kernel, plain)


@pytest.mark.parametrize(
    ("lattice", "dimension", "integrator"),
    [
        (even, 2, "verlet"),
        (even, 3, "explicit_euler"),
        (uneven, 2, "semi_implicit_euler"),
        pytest.param(uneven, 3, "verlet", marks=pytest.mark.full),  # test_all_that_acts_from_outside has such springs
    ],
)
def test_springs_alike_and_not(lattice, dimension, integrator):
    assert_same(lattice(dimension), Environment(), integrator)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_all_that_acts_from_outside(dimension):
    lattice = uneven(dimension)
    some = np.arange(lattice.mass.size).reshape(lattice.mass.shape) % 3 == 0
    lattice = keep_in_plane(lattice, some, [1.0] + [0.5] * (dimension - 1))
    environment = Environment(
        drag=0.05,
        load=loads(lattice, some, [3.0] * dimension),
        bodies=(
            floor(dimension, 0.05, friction=0.7, restitution=0.3),
            ball([0.2] * dimension, 0.1, friction=0.2),
            slope(dimension, 0.3, friction=0.1),
        ),
    )
    assert_same(lattice, environment)


@pytest.mark.slow
def test_ground_with_hills_on_record():
    """Steps of `record` are known only to the program, and so is how many of them lie between two samples.

    Nodes in the ground are held or not by the last digit: where a GPU or a processor rounds otherwise than plain JAX,
    speeds may differ by as much as those of a state that is 1e-7 away, 0.01 m/s. The ground changes them by 11 m/s.
    """
    lattice, bodies = uneven(2), (floor(2, 0.05, friction=0.7, restitution=0.3),)
    environment = Environment(bodies=bodies, terrain=Hilly().build(jnp.float32))
    plain, kernel = (
        record(lattice, environment, shaken(lattice), energy, step=STEP, every=4, samples=3, implementation=name)
        for name in ("xla", KERNEL)
    )
    assert np.ptp(plain[1].kinetic) > 1e-2
    assert float(plain[0].time) == pytest.approx(12 * STEP)
    np.testing.assert_allclose(kernel[0].velocity, plain[0].velocity, atol=0.03)
    np.testing.assert_allclose(kernel[0].position, plain[0].position, atol=1e-3)


@pytest.mark.slow
def test_springs_that_break():
    lattice = breakable(uneven(2), 3.0)
    end = assert_same(lattice, Environment())
    assert 5 < broken_count(lattice, end) < 60


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [(1, 6), (3, 1)])
def test_a_grid_one_node_thick(nodes):
    """Some directions have no springs at all."""
    lattice = breakable(of_pairs(nodes, 0.1, Stiffness(500.0, 300.0, 200.0), 0.1), 1e3)
    assert_same(lattice, Environment())


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "verlet"])
def test_springs_that_swing(integrator):
    lattice = uneven(2)
    alike = tuple(jnp.full(part.shape, 0.3) for part in lattice.springs.stiffness)
    late = tuple(jnp.full(part.shape, 0.01) for part in lattice.springs.stiffness)
    assert_same(driven(lattice, Wave(alike, jnp.asarray(50.0), late, jnp.asarray(0.1))), Environment(), integrator)


def together(parts):
    return jax.tree.map(lambda *each: jnp.stack(each), *parts)


def assert_each_alone(lattices: list[Lattice], grounds: list) -> State:
    """Each of many moves under the kernel as plain JAX moves it alone."""
    states = [shaken(lattice, seed) for seed, lattice in enumerate(lattices)]

    def move(lattice: Lattice, terrain, state: State, implementation: Implementation = KERNEL) -> State:
        environment = Environment(terrain=terrain)
        return advance(lattice, environment, state, step=STEP, count=COUNT, implementation=implementation)

    alone = [move(*each, "xla") for each in zip(lattices, grounds, states, strict=True)]
    end = jax.vmap(move)(*map(together, (lattices, grounds, states)))
    assert_close(end, together(alone))
    for lattice, ground in ((lattices[1], grounds[0]), (lattices[0], grounds[1])):  # each one's own matters
        assert np.abs(move(lattice, ground, states[0], "xla").position - alone[0].position).max() > 1e-3
    return end


def test_many_at_once_are_each_alone():
    lattice = even(2)
    softer = replace(lattice.springs, stiffness=tuple(0.5 * part for part in lattice.springs.stiffness))
    heavier = replace(lattice, springs=softer, mass=2 * lattice.mass, inverse_mass=lattice.inverse_mass / 2)
    lines = [Terrain.of(np.array([-1.0, 0.2, 1.0]), np.array([y, 0.1, y]), friction=y) for y in (0.1, 0.6)]
    assert all(line.convex for line in lines)  # so that they are numbers of the kernel
    assert_each_alone([lattice, heavier], lines)


@pytest.mark.slow
def test_sheets_with_a_hole_over_height_fields_are_each_alone():
    """Fields are looked up after the kernel."""
    lattices = [sheet(500.0), sheet(300.0)]
    end = assert_each_alone(lattices, [bumps(1), bumps(2)])
    np.testing.assert_array_equal(end.position[:, 0, 1, 1], [lattices[0].rest_position[0, 1, 1]] * 2)


def test_a_breakpoint_is_met_at_the_same_step():
    lattice = even(2)
    ends = [
        advance_until(
            lattice, Environment(), shaken(lattice), time=0.0205, step=STEP, check_every=9, implementation=name
        )
        for name in ("xla", KERNEL)
    ]
    assert ends[0].time == ends[1].time
    np.testing.assert_allclose(ends[0].position, ends[1].position, rtol=1e-4, atol=1e-5)


def test_springs_neither_gain_nor_lose_momentum():
    lattice = uneven(2)
    lattice = replace(lattice, inverse_mass=1 / lattice.mass)
    state = shaken(lattice)
    end = advance(lattice, Environment(gravity=0.0), state, step=STEP, count=COUNT, implementation=KERNEL)
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
                Environment(),
                rest_state(lattice),
                step=STEP,
                count=1,
                integrator=integrator,
                implementation="interpreted",
            )

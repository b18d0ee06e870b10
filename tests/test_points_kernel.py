"""The GPU kernel for voxels of point masses does what plain JAX does: interpreted here, itself where there is a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.test_points import shaken
from vsr.controllers import Sine
from vsr.environment import Environment
from vsr.episode import begin, record, scenario_of
from vsr.lattice.kernel import MOST_LANES
from vsr.physics.engine import assemble_body
from vsr.physics.points.advance import advance_through
from vsr.physics.points.assembly import PointMaterials, assemble_points
from vsr.robot import Body, Material
from vsr.terrain import Bumpy, Flat, Hilly, Polyline
from vsr.world.schedule import Schedule

pytestmark = pytest.mark.usefixtures("quickly_compiled")

KERNEL = "fused" if jax.default_backend() == "gpu" else "interpreted"
MATERIALS = {"a": Material(), "b": Material(spring_frequency=12.0, friction=0.1, restitution=0.5)}
BY_FORCE = {"a": Material(actuation="force", max_force=50.0), "b": Material(spring_damping_ratio=0.5)}
JOINED = {2: ("aab", "b.a"), 3: (("ab", "aa"), ("a.", "bb"))}
RING = ("aaba", "b..a", "a..b", "baaa")
"""Voxels around a node without mass."""
APART = "a.", ".b"
"""Voxels that touch at a corner only: two layers of nodes."""
PARTING = ((0, 1, -1), (1, -1, -1)), ((0, -1, -1), (1, 0, -1))
"""Materials in a grid. Two voxels along an edge are joined at one end of it only, so that two springs lead along it."""
SUBSTEP, COUNT = 1 / 250, 3


def ground(terrain) -> Environment:
    return Environment(gravity=jnp.float32(9.8), terrain=terrain.build(jnp.float32))


def moved(implementation, model, environment, state, controls):
    return advance_through(
        model, environment, state, controls, substep=SUBSTEP, count=COUNT, implementation=implementation
    )


def controls_for(model, seed=1):
    return jnp.float32(np.random.default_rng(seed).uniform(-1.2, 1.2, (2, *model.present.shape)))


def assert_close(plain, kernel) -> None:
    """To the rounding of float32 in other orders of summation.

    Positions of a few meters are known to 2e-7 m, which in a substep makes ω²/2 times 4 ms times that of a spring's
    velocity: 1e-6 m/s at 8 Hz. Some eight springs in some twenty substeps, if they add up like a random walk, make
    2e-5 m/s, a fifth of what is allowed.
    """
    for one, other in zip(*map(jax.tree.leaves, (plain, kernel)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4 * max(1, np.abs(one).max()))


@pytest.mark.parametrize(
    ("shape", "materials", "terrain", "layers"),
    [
        (RING, MATERIALS, Hilly(), 1),
        (APART, BY_FORCE, Flat(), 2),
        pytest.param(JOINED[3], BY_FORCE, Bumpy(), 1, marks=pytest.mark.slow),
    ],
)
def test_the_kernel_moves_bodies_as_plain_jax_does(shape, materials, terrain, layers):
    model = assemble_body(Body(shape=shape, engine="points", materials=materials))
    assert (model.layer.shape[0] > 1) == (layers > 1)
    state, controls = shaken(model), controls_for(model)
    results = [moved(name, model, ground(terrain), state, controls) for name in ("xla", KERNEL)]
    assert np.abs(results[0][0].position - state.position).max() > 1e-3
    assert_close(*results)


@pytest.mark.slow
def test_bodies_of_a_grid_are_moved_and_absent_nodes_stay():
    """As when bodies evolve: four layers of nodes, most of them absent, so that programs have nothing to do."""
    table = PointMaterials.of(list(BY_FORCE.values()), 3.0, 3, jnp.float32)
    scattered = np.random.default_rng(3).choice([-1, 0, 1], (2, 2, 3), p=[0.4, 0.3, 0.3])
    cells = jnp.asarray([PARTING, scattered])
    models = jax.vmap(lambda one: assemble_points(one, table, 3.0, layers=4))(cells)
    there = np.asarray(models.node_mass > 0).reshape(2, -1)
    assert there.shape[1] > MOST_LANES  # two programs,
    assert (there.sum(1) < MOST_LANES).all()  # of which the second only passes on,
    assert there[:, 36:].any(1).all()  # and there are nodes in further layers
    single = [jax.tree.map(lambda leaf, i=i: leaf[i], models) for i in range(2)]
    state, controls = (
        jax.tree.map(lambda *each: jnp.stack(each), *(make(model, seed) for seed, model in enumerate(single)))
        for make in (shaken, controls_for)
    )
    results = [
        jax.vmap(partial(moved, name), in_axes=(0, None, 0, 0))(models, ground(Flat()), state, controls)
        for name in ("xla", KERNEL)
    ]
    assert_close(*results)
    stayed = np.asarray(results[1][0].position == state.position).all(-1).reshape(2, -1)
    assert (stayed == ~there).all()


def valley(rise: float, friction: float = 0.5) -> Environment:
    """Around the origin, where robots at rest are and numbers are exact."""
    return ground(Polyline(x=(-9.0, 1.0, 9.0), y=(rise, 0.1, rise), friction=friction))


@pytest.mark.slow
def test_many_robots_at_once_are_each_alone():
    """Each with its own body, ground, state and control values; as plain JAX moves it alone."""
    bodies = [Body(shape=shape, engine="points", materials=MATERIALS) for shape in (JOINED[2], ("b.a", "aaa"))]
    models = [assemble_body(body) for body in bodies]
    robots = [
        (model, valley(rise, rise), shaken(model, seed), controls_for(model, seed))
        for seed, (model, rise) in enumerate(zip(models, (0.2, 2.0), strict=True))
    ]
    single = jax.jit(partial(moved, "xla"))
    alone = [single(*robot) for robot in robots]
    assert_close(
        jax.tree.map(lambda *each: jnp.stack(each), *alone),
        jax.vmap(partial(moved, KERNEL))(*jax.tree.map(lambda *each: jnp.stack(each), *robots)),
    )
    elsewhere, _ = single(robots[0][0], robots[1][1], *robots[0][2:])
    assert np.abs(elsewhere.position - alone[0][0].position).max() > 1e-2  # each one's ground matters


@pytest.mark.slow
def test_a_recorded_episode():
    """Interval after interval, with control values that change."""
    body = Body(shape="ab", engine="points", materials=MATERIALS)
    model, controller = assemble_body(body), Sine(frequency=3.0).build(body)
    schedule = Schedule(duration=0.1, control_every=1, substeps=4)

    def recorded(name):
        scenario = scenario_of(model, valley(0.2), replace(schedule, implementation=name))
        return jax.jit(record)(scenario, controller, begin(scenario, shaken(model)))

    plain, kernel = map(recorded, ("xla", KERNEL))
    assert np.ptp(plain[1].control) > 0.5
    assert plain[1].state.position.shape == (7, *model.node_mass.shape, 2)
    assert_close(plain, kernel)


def test_what_the_kernel_cannot_do_is_refused():
    model = assemble_body(Body(shape=JOINED[2], engine="points", materials=MATERIALS), integrator="rk4")
    with pytest.raises(ValueError, match="rk4 was asked for"):
        moved(KERNEL, model, ground(Flat()), shaken(model), controls_for(model))

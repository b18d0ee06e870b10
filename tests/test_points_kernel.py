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
from vsr.physics.engine import assemble_body
from vsr.physics.points import kernel
from vsr.physics.points.advance import advance_through
from vsr.physics.points.assembly import PointMaterials, assemble_points
from vsr.robot import Body, Fluid, Material
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
CHECKERED = ("a.b.a.", ".a.b.a") * 3
"""Voxels that touch at corners: 72 nodes, and a program of 64 lanes."""
SCATTERED = (("a.a", ".b.", "a.a"), (".a.", "b.b", ".a.")) * 2
"""The same in 3-D: 144 nodes, and a program of 96 lanes."""
AXES = {"a": Material(actuation="vertical"), "b": Material(actuation="horizontal")}
RUBBER = {"spring_frequency": 8.0, "mass": 200.0}
FLUIDS = {
    "a": Material(**RUBBER),
    "w": Material(**RUBBER, fluid=Fluid(drive="volume", bulk_modulus=2e3)),
    "g": Material(**RUBBER, fluid=Fluid(kind="gas", pressure=(-200.0, 500.0))),
}
CHAMBERS = {
    "2-D": ("aaaaa.", "awwwa.", "awwwgg", "awwwa.", "aaaaa.", ".....a"),
    "3-D": (("aaaa",) * 4, ("aaaa", "awwa", "awwa", "aaaa"), ("aaaa", "awwa", "awwa", "agga"), ("aaaa",) * 4),
}
"""A liquid by volume around nodes without mass, and a gas by pressure; in 2-D with a voxel at a corner."""
PARTED = ("ab.", "b.."), ("a..", "ba.")
"""The body of PARTING alone."""
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


BODIES = {
    "a ring on hills": (RING, MATERIALS, Hilly()),
    "layers, by force": (APART, BY_FORCE, Flat()),
    "more nodes than lanes, along axes": (CHECKERED, AXES, Flat()),
    "a box on bumps, by force": (JOINED[3], BY_FORCE, Bumpy()),
    "more nodes than lanes in 3-D, by force": (SCATTERED, BY_FORCE, Flat()),
    "two springs along an edge": (PARTED, MATERIALS, Flat()),
    "along axes in 3-D": (JOINED[3], AXES, Flat()),
    "chambers": (CHAMBERS["2-D"], FLUIDS, Flat()),
    "chambers in 3-D": (CHAMBERS["3-D"], FLUIDS, Flat()),
}
QUICK = ("a ring on hills", "layers, by force")
"""To compile for the interpreter."""


def compare(name) -> None:
    """One node is anchored, and the ground is where the body is."""
    shape, materials, terrain = BODIES[name]
    model = assemble_body(Body(shape=shape, engine="points", materials=materials))
    free = model.inverse_mass.reshape(-1)
    model = replace(model, inverse_mass=free.at[jnp.argmax(free > 0)].set(0).reshape(model.inverse_mass.shape))
    state, controls, around = shaken(model), controls_for(model), ground(terrain)
    assert around.terrain is not None
    right = around.terrain.left_end() - state.position[..., 0].min() + 0.5
    state = replace(state, position=state.position.at[..., 0].add(right))
    plain, moving = (moved(way, model, around, state, controls) for way in ("xla", KERNEL))
    assert np.abs(plain[0].position - state.position).max() > 1e-3
    assert_close(plain, moving)
    np.testing.assert_allclose(plain[0].position, moving[0].position, atol=1e-5 * np.abs(plain[0].position).max())


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BODIES]
)
def test_the_kernel_moves_bodies_as_plain_jax_does(name):
    compare(name)


@pytest.mark.parametrize(
    ("shape", "materials", "most"),
    [
        (("aab", "b.a", "bab"), MATERIALS, 0),
        pytest.param(("awwa", "aaaa", "awwa"), FLUIDS, 32, marks=pytest.mark.slow),
    ],
)
def test_bodies_too_large_for_one_program(monkeypatch, shape, materials, most):
    """By a launch a substep, or if they have chambers by several nodes and voxels in each lane."""
    monkeypatch.setitem(kernel.MOST_LANES, 2, most)
    monkeypatch.setitem(BODIES, "large", (shape * 4, materials, Flat()))
    compare("large")


@pytest.mark.slow
def test_bodies_of_a_grid_are_moved_and_absent_nodes_stay():
    """As when bodies evolve: four layers of nodes, most of them absent, so that lanes have nothing to do."""
    table = PointMaterials.of(list(BY_FORCE.values()), 3.0, 3, jnp.float32)
    scattered = np.random.default_rng(3).choice([-1, 0, 1], (2, 2, 3), p=[0.4, 0.3, 0.3])
    cells = jnp.asarray([PARTING, scattered])
    models = jax.vmap(lambda one: assemble_points(one, table, 3.0, layers=4))(cells)
    there = np.asarray(models.node_mass > 0).reshape(2, -1)
    assert (there.sum(1) < 64).all()  # a lane for each node,
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


@pytest.mark.slow
def test_fluids_in_bodies_of_a_grid():
    """As many chambers as each body has, in a grid with places for more, and force actuation beside them."""
    table = PointMaterials.of([*FLUIDS.values(), BY_FORCE["a"]], 3.0, 2, jnp.float32)
    cells = jnp.asarray(np.random.default_rng(5).choice([-1, 0, 1, 2, 3], (3, 5, 6), p=[0.2, 0.3, 0.15, 0.15, 0.2]))
    models = jax.vmap(lambda one: assemble_points(one, table, 3.0, layers=2))(cells)
    assert len(set((models.chambers.rest_volume > 0).sum(1).tolist())) > 1
    single = [jax.tree.map(lambda leaf, i=i: leaf[i], models) for i in range(3)]
    state, controls = (
        jax.tree.map(lambda *each: jnp.stack(each), *(make(model, seed) for seed, model in enumerate(single)))
        for make in (shaken, controls_for)
    )
    assert_close(
        *(
            jax.vmap(partial(moved, name), (0, None, 0, 0))(models, valley(0.2), state, controls)
            for name in ("xla", KERNEL)
        )
    )


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

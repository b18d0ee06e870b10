"""Worlds: a robot alone is moved by its engine, and beside something else in the same way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from objects import solids_of

from vsr.environment import Environment
from vsr.physics.contact.system import Objects
from vsr.physics.engine import assemble_body, engine_of
from vsr.robot import Body, Material
from vsr.terrain import Flat
from vsr.world.build import build_solids
from vsr.world.placement import move_rigidly
from vsr.world.spec import Object
from vsr.world.state import WorldModel, advance, world_state

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KEY = jax.random.key(0)
UNDAMPED = Material(linear_damping=0.0)
BODIES = {
    "squares": Body(shape=("aa", "aa"), materials={"a": Material(linear_damping=0.0, angular_damping=0.0)}),
    "points": Body(shape=("aa", "aa"), engine="points", materials={"a": UNDAMPED}),
    "3-D": Body(shape=[["aa"], ["aa"]], materials={"a": UNDAMPED}),
}
SUBSTEP = 1 / 600


def ball_at(*center, **options):
    """A ball of 1 m as the only object."""
    ball = Object(name="ball", shape={"type": "ball", "radius": 1.0}, position=center, **options)
    return {"objects": Objects(build_solids((ball,), len(center), jnp.float32), stride=1)}


def world_of(body, systems, environment=None, **shift):
    """A robot whose lowest left corner is at the origin, in free space unless said otherwise."""
    model = assemble_body(body)
    environment = environment or Environment(gravity=jnp.float32(0.0))
    world = WorldModel((model,), environment, systems)
    robot = move_rigidly(model, engine_of(model).rest_state(model), **shift)
    return world, world_state(world, (robot,), KEY)


def still(world):
    return (jnp.zeros((1, *world.robots[0].present.shape)),)


@pytest.mark.slow
@pytest.mark.parametrize("body", ["squares", pytest.param("3-D", marks=pytest.mark.slow)])
def test_a_robot_alone_is_moved_by_its_engine(body):
    """Bit for bit, so that no speed is lost either; and the same to rounding where something else is far away."""
    ground = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())
    dimension = BODIES[body].dimension
    shift = jnp.zeros(dimension).at[0].set(30.0).at[-1].set(1.0)
    world, state = world_of(BODIES[body], {}, ground, shift=shift)
    model = world.robots[0]
    controls = jnp.linspace(-1, 1, 3).reshape(-1, *(1,) * dimension) * jnp.ones((3, *model.present.shape))
    options = {"substep": SUBSTEP, "count": 50}
    alone, seen = jax.jit(lambda s: engine_of(model).advance(model, ground, s, controls, **options))(state.robots[0])
    after, (watched,) = jax.jit(lambda s: advance(world, s, (controls,), **options))(state)
    for one, other in zip(jax.tree.leaves((alone, seen)), jax.tree.leaves((after.robots[0], watched)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert float(after.time) == pytest.approx(3 * 50 * SUBSTEP)

    coupled, state = world_of(BODIES[body], ball_at(*np.full(dimension, 60.0)), ground, shift=shift)
    beside, _ = jax.jit(lambda s: advance(coupled, s, (controls,), **options))(state)
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(beside.robots[0]), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)


def test_kernels_are_refused_where_something_else_moves():
    world, state = world_of(BODIES["squares"], ball_at(7.0, 2.0))
    with pytest.raises(ValueError, match="it moves one robot on its ground"):
        advance(world, state, still(world), substep=SUBSTEP, count=1, implementation="fused")


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "share"), [(2, 2 / 3), (3, 5 / 7)])
def test_a_sliding_ball_ends_up_rolling(dimension, share):
    """v = 2/3 v0 for a disc, 5/7 v0 for a ball, whatever the friction; then it keeps rolling."""
    center, velocity = (20.0, *(0.0,) * (dimension - 2), 1.0), (3.0, *(0.0,) * (dimension - 1))
    ground = Environment(gravity=jnp.float32(9.8), terrain=Flat(friction=0.3).build())
    robot = BODIES["squares" if dimension == 2 else "3-D"]
    world, state = world_of(
        robot, ball_at(*center, velocity=velocity, friction=0.3), ground, shift=jnp.zeros(dimension).at[0].set(60.0)
    )
    move = jax.jit(lambda s: advance(world, s, still(world), substep=1 / 300, count=450)[0])
    rolling = solids_of(state := move(state))
    assert float(rolling.velocity[0, 0]) == pytest.approx(3.0 * share, rel=0.01)
    assert float(jnp.abs(rolling.spin).max()) == pytest.approx(3.0 * share, rel=0.01)
    assert float(rolling.position[0, -1]) == pytest.approx(1.0, abs=0.01)
    assert float(solids_of(move(state)).velocity[0, 0]) == pytest.approx(float(rolling.velocity[0, 0]), rel=1e-3)

"""Worlds: a robot alone is moved by its engine, and whatever it pushes pushes back with the same impulse."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.body import Body, Material
from vsr.environment import Environment
from vsr.environment.obstacles import ball, floor
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.objects import Balls, BallState
from vsr.terrain import Flat
from vsr.world.placement import move_rigidly
from vsr.world.state import WorldModel, advance, failure, world_state

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KEY = jax.random.key(0)
UNDAMPED = Material(linear_damping=0.0)
BODIES = {
    "squares": Body(shape=("aa", "aa"), materials={"a": Material(linear_damping=0.0, angular_damping=0.0)}),
    "points": Body(shape=("aa", "aa"), masses="points", materials={"a": UNDAMPED}),
    "3-D": Body(shape=[["aa"], ["aa"]], materials={"a": UNDAMPED}),
}
SUBSTEP = 1 / 600


def balls(*centers, radius=1.0, mass=5.0, friction=0.8, restitution=0.0):
    start = jnp.asarray(centers, jnp.float32)
    ones = jnp.ones(len(centers))
    return Balls(start, radius * ones, mass * ones, friction * ones, restitution * ones)


def world_of(body, occupants, environment=None, **shift):
    """A robot whose lowest left corner is at the origin, in free space unless said otherwise."""
    model = assemble_body(body)
    environment = environment or Environment(gravity=jnp.float32(0.0))
    world = WorldModel((model,), environment, occupants)
    robot = move_rigidly(model, engine_of(model).rest_state(model), **shift)
    return world, world_state(world, (robot,), KEY)


def still(world):
    return (jnp.zeros((1, *world.robots[0].present.shape)),)


def run(world, state, seconds, controls=None):
    move = jax.jit(
        lambda state: advance(world, state, controls or still(world), substep=SUBSTEP, count=round(seconds / SUBSTEP))
    )
    return move(state)


@pytest.fixture(scope="module", params=BODIES)
def thrown(request):
    """A robot that flies into two balls off its middle, before and after."""
    body = BODIES[request.param]
    dimension = body.dimension
    velocity = jnp.zeros(dimension).at[0].set(4.0)
    high = np.zeros((2, dimension))
    high[:, 0], high[:, -1] = 7.5, (0.4, 3.5)
    if dimension == 3:
        high[:, 1] = (0.3, 2.8)
    world, state = world_of(body, {"balls": balls(*high)}, velocity=velocity)
    nearest = jax.jit(lambda state: _nearest(world, advance(world, state, still(world), substep=SUBSTEP, count=50)[0]))
    now, distances = state, []
    for _ in range(18):
        now, distance = nearest(now)
        distances.append(float(distance))
    return world, state, now, min(distances)


def _nearest(world, state):
    """The state, and how near a point of the robot is to a ball's centre [m]."""
    model = world.robots[0]
    points = engine_of(model).surface_points(model, state.robots[0])
    centers = state.occupants["balls"].position
    distance = jnp.linalg.norm(points.position[..., None, :] - centers, axis=-1)
    return state, jnp.where(points.exists[..., None], distance, jnp.inf).min()


def momentum(world, state):
    model = world.robots[0]
    pushed = world.occupants["balls"].momentum(state.occupants["balls"])
    return engine_of(model).momentum(model, state.robots[0]), pushed


def test_what_a_robot_pushes_pushes_back(thrown):
    world, before, after, _ = thrown
    (robot, ball), (later_robot, later_ball) = momentum(world, before), momentum(world, after)
    assert float(later_ball[0]) > 5.0  # a good part of the robot's 4 m/s times its mass
    assert float(ball[0]) == 0.0
    np.testing.assert_allclose(later_robot + later_ball, robot + ball, atol=2e-5 * float(robot[0]))
    assert not bool(failure(world, after))
    assert float(jnp.abs(after.occupants["balls"].spin).max()) > 0.01  # hit off the middle, with friction


def test_balls_stay_out_of_robots(thrown):
    """At no moment does a point sink in by more than a tenth of a radius, though they meet at 4 m/s."""
    _, before, after, nearest = thrown
    assert 0.9 < nearest < 1.0
    moved = after.occupants["balls"].position - before.occupants["balls"].position
    assert float(moved[:, 0].min()) > 0.5  # both were hit


def test_a_batch_of_worlds_equals_its_worlds_one_by_one():
    world, state = world_of(BODIES["squares"], {"balls": balls((7.0, 2.0))}, velocity=jnp.array([4.0, 0.0]))
    higher = [
        replace(state, robots=(replace(r, position=r.position + jnp.array([0.0, up])),))
        for r in state.robots
        for up in (0.0, 0.7)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *higher)

    def move(state):
        return advance(world, state, still(world), substep=SUBSTEP, count=400)[0].occupants["balls"].position

    together = jax.jit(jax.vmap(move))(stacked)
    alone = jnp.stack([jax.jit(move)(state) for state in higher])
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert float(jnp.abs(alone[0] - alone[1]).max()) > 1e-2


@pytest.mark.parametrize("body", ["squares", "3-D"])
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

    far = np.full((1, dimension), 60.0)
    coupled, state = world_of(BODIES[body], {"balls": balls(*far)}, ground, shift=shift)
    beside, _ = jax.jit(lambda s: advance(coupled, s, (controls,), **options))(state)
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(beside.robots[0]), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)


def test_kernels_are_refused_where_something_else_moves():
    world, state = world_of(BODIES["squares"], {"balls": balls((7.0, 2.0))})
    with pytest.raises(ValueError, match="it moves one robot on its ground"):
        advance(world, state, still(world), substep=SUBSTEP, count=1, implementation="fused")


# Balls


@pytest.mark.parametrize(("dimension", "share"), [(2, 2 / 3), (3, 5 / 7)])
def test_a_sliding_ball_ends_up_rolling(dimension, share):
    """v = 2/3 v0 for a disc, 5/7 v0 for a ball, whatever the friction; then it keeps rolling."""
    center = np.zeros((1, dimension))
    center[0, 0], center[0, -1] = 20.0, 1.0
    ball = balls(*center, friction=0.3)
    ground = Environment(gravity=jnp.float32(9.8), terrain=Flat(friction=0.3).build())
    start = ball.rest_state()
    start = start._replace(velocity=start.velocity.at[0, 0].set(3.0))
    move = jax.jit(lambda s, count: jax.lax.fori_loop(0, count, lambda _, now: ball.advance(ground, now, SUBSTEP), s))
    rolling = move(start, 900)
    assert float(rolling.velocity[0, 0]) == pytest.approx(3.0 * share, rel=0.01)
    assert float(jnp.abs(rolling.spin).max()) == pytest.approx(3.0 * share, rel=0.01)
    assert float(rolling.position[0, -1]) == pytest.approx(1.0, abs=0.006)
    assert float(move(rolling, 600).velocity[0, 0]) == pytest.approx(float(rolling.velocity[0, 0]), rel=1e-3)


@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_a_ball_bounces_off_an_anchored_robot(restitution):
    """Straight onto a node that cannot yield: it leaves with its restitution times its speed."""
    body = Body(shape=("a",), masses="points", materials={"a": Material(restitution=1e-6)})
    model = assemble_body(body, anchored=np.ones((4, 1, 1), bool))
    world = WorldModel(
        (model,), Environment(gravity=jnp.float32(0.0)), {"balls": balls((3.0, 6.0), restitution=restitution)}
    )
    state = world_state(world, (engine_of(model).rest_state(model),), KEY)
    falling = state.occupants["balls"]._replace(velocity=jnp.array([[0.0, -4.0]]))
    after, _ = run(world, replace(state, occupants={"balls": falling}), 1.0)
    ball: BallState = after.occupants["balls"]
    expected = restitution * 4.0
    assert float(ball.velocity[0, 1]) == pytest.approx(expected, abs=0.05 + 0.02 * expected)
    np.testing.assert_array_equal(after.robots[0].position, state.robots[0].position)


def test_a_robot_rests_on_a_ball_that_carries_it():
    """A voxel set down on a wide ball fixed by its mass: what lies above is borne, not sunk into."""
    body = BODIES["points"]
    ground = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())
    below = balls((33.0, 5.0), radius=5.0, mass=1e5)
    world, state = world_of(body, {"balls": below}, ground, shift=jnp.array([30.0, 10.0]))
    after, _ = run(world, state, 1.0)
    middle = after.robots[0].position[0, 0, 1]  # the lowest node in the middle
    assert float(jnp.linalg.norm(middle - after.occupants["balls"].position[0])) == pytest.approx(5.0, abs=0.05)
    assert float(middle[1]) > 9.8


@pytest.mark.parametrize("dimension", [2, 3])
def test_balls_lie_on_any_obstacle(dimension):
    """On a line of ground, on a plane and on top of a fixed ball."""
    up = jnp.zeros(dimension).at[-1].set(1.0)
    center = np.zeros((1, dimension))
    center[0, 0], center[0, -1] = 20.0, 1.0
    beneath = jnp.asarray(center[0]) - 4 * up
    for ground in (
        Environment(terrain=Flat().build()),
        Environment(bodies=(floor(dimension, friction=0.5),)),
        Environment(bodies=(ball(beneath.tolist(), 3.0, friction=0.5),)),
    ):
        still_ball = balls(*center)
        move = jax.jit(
            lambda s, b=still_ball, g=ground: jax.lax.fori_loop(0, 600, lambda _, n: b.advance(g, n, SUBSTEP), s)
        )
        lies = move(still_ball.rest_state())
        np.testing.assert_allclose(lies.position, still_ball.start, atol=0.02)
        assert not bool(still_ball.failure(lies))
    exploded = lies._replace(velocity=lies.velocity + 1e5)
    assert bool(still_ball.failure(exploded))

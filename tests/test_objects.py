"""Things among robots: rigid bodies against closed forms, momentum, folded bodies, several robots, walls and spikes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from objects import (
    SUBSTEP,
    UNDAMPED,
    body_of,
    box,
    deepest,
    momenta,
    mover,
    place_of,
    solids_of,
    velocity_of,
    world_with,
)
from pydantic import ValidationError

from vsr.drawing.objects import recorded_solids
from vsr.physics.contact.convex import form_of
from vsr.physics.contact.system import ObjectsSeen
from vsr.physics.contact.voxels import points_on_faces
from vsr.physics.contract import ContactBody
from vsr.physics.engine import engine_of
from vsr.physics.failure import Failure
from vsr.robot import Body
from vsr.terrain import BlockGround, Flat, Polyline
from vsr.world.build import build_solids
from vsr.world.spec import Box, Mesh, Object, Polygon
from vsr.world.state import failure, motion_of

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SLOPE = np.radians(20.0)
GRAVITY = 9.8
FAR_ROBOT = {"bodies": (Body(shape=("a",)),), "at": ((1000.0, 0.0),)}


def on_slope(name, x, friction, shape):
    """A fixed ramp of 20 degrees that falls to the right, and an object of half height 1 m on its middle."""
    across = np.array([np.sin(SLOPE), np.cos(SLOPE)])
    place = np.array([x, 20.0]) + 2.0 * across
    return [
        box(f"{name} ramp".replace(" ", "_"), (x, 20.0), (60.0, 2.0), tilt=-20.0, fixed=True, friction=friction),
        Object(name=name, shape=shape, position=tuple(place.tolist()), tilt=-20.0, friction=friction),
    ]


@pytest.fixture(scope="module")
def plane():
    """Things in 2-D, each experiment in a place of its own: at the start, and after one and two seconds."""
    block, disc = {"type": "box", "size": (3.0, 2.0)}, {"type": "ball", "radius": 1.0}
    objects = [
        *(box(f"stack{level}", (60.0, 1.0 + 2.0 * level)) for level in range(4)),
        *on_slope("slips", 200.0, 0.3, block),
        *on_slope("sticks", 300.0, 0.42, block),
        *on_slope("rolls", 400.0, 0.9, disc),
        box("light", (500.0, 50.0), velocity=(4.0, 0.0), restitution=0.5, mass=2.0),
        box("heavy", (505.0, 50.0), restitution=0.5, mass=5.0),
    ]
    world, state = world_with(objects, terrain=Flat().build(), gravity=GRAVITY, **FAR_ROBOT)
    move, states = mover(world, 1.0), [state]
    for _ in range(2):
        states.append(move(states[-1]))
    return world, states


@pytest.mark.slow
def test_a_stack_stands(plane):
    world, (first, _, last) = plane
    for level in range(4):
        before, after = (place_of(world, state, f"stack{level}") for state in (first, last))
        np.testing.assert_allclose(after, before, atol=0.01)
        assert abs(float(velocity_of(world, last, f"stack{level}")[1])) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slips", "sticks", "rolls"])
def test_friction_on_a_slope(plane, name):
    """A block slips beyond the angle whose tangent is the coefficient, sticks below it, and a disc rolls."""
    world, (first, _, last) = plane
    way = (place_of(world, last, name) - place_of(world, first, name)) @ [np.cos(SLOPE), -np.sin(SLOPE)]
    pull = {"slips": np.sin(SLOPE) - 0.3 * np.cos(SLOPE), "sticks": 0.0, "rolls": 2 / 3 * np.sin(SLOPE)}[name]
    assert way == pytest.approx(0.5 * GRAVITY * pull * 2**2, rel=5e-3, abs=2e-3)


@pytest.mark.slow
def test_blocks_collide_as_the_textbook_says(plane):
    world, (_, after, _) = plane
    speeds = [float(velocity_of(world, after, name)[0]) for name in ("light", "heavy")]
    assert speeds == pytest.approx([(2 * 4 - 5 * 0.5 * 4) / 7, (2 * 4 + 2 * 0.5 * 4) / 7], abs=0.01)
    assert int(failure(world, after)) == 0


def folding(kind, fast=12.0, **options):
    """Two arms of a body, one of which swings against the other in free space."""
    shape = [["aaaa"], ["a..."], ["aaaa"]] if kind == "3-D" else ("aaaaa", "a....", "aaaaa")
    body = body_of(kind, shape)
    world, state = world_with(bodies=(body,), at=((0.0,) * body.dimension,), **options)
    robot, model = state.robots[0], world.robots[0]
    upper = (robot.position[..., -1] > 5) & (model.inverse_mass > 0)
    swing = jnp.where(upper, -fast, 0.0) * robot.position[..., 0] / 15
    robot = replace(robot, velocity=robot.velocity.at[..., -1].add(swing))
    return world, replace(state, robots=(robot,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["squares", pytest.param("points", marks=pytest.mark.slow), pytest.param("3-D", marks=pytest.mark.slow)]
)
def test_a_folded_body_does_not_pass_through_itself(kind):
    fast = 40.0 if kind == "3-D" else 12.0
    depths = {}
    for own in (True, False):
        world, state = folding(kind, fast, self_contact=own)
        before, move, depths[own] = momenta(world, state), mover(world, 0.05, 1 / 600), 0.0
        for _ in range(30):
            state = move(state)
            depths[own] = max(depths[own], deepest(world.robots, state.robots))
        after = momenta(world, state)
        np.testing.assert_allclose(after[0], before[0], atol=2e-5 * np.abs(before[0]).max())
        np.testing.assert_allclose(after[1], before[1], atol=2e-5 * np.abs(before[1]).max())
        assert int(failure(world, state)) == 0
    assert depths[False] > 0.5  # without contact they pass
    assert depths[True] < 0.15


@pytest.mark.slow
def test_a_list_that_is_too_short_fails_loudly():
    world, state = folding("squares", self_contact=True, capacity=1)
    state = mover(world, 0.5, 1 / 600)(state)
    assert int(failure(world, state)) == int(Failure.contact_overflow)


@pytest.fixture(scope="module")
def pushed():
    """A robot that flies into a box off its middle in free space, for two trials."""
    body = body_of("squares", ("aa", "aa"))
    world, state = world_with([box("package", (9.5, 4.6), mass=8.0)], bodies=(body,))
    # From a round number it would meet the box at the very end of a substep, and rounding would decide in which.
    robot = replace(state.robots[0], position=state.robots[0].position + 0.01)
    starts = [
        replace(state, robots=(replace(robot, velocity=robot.velocity + jnp.array([5.0, up])),)) for up in (0.0, 0.8)
    ]
    move = mover(world, 1.5)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    return world, starts, [move(start) for start in starts], jax.jit(jax.vmap(move))(stacked)


@pytest.mark.slow
def test_what_a_robot_pushes_pushes_back(pushed):
    """Momentum goes over, none of it is lost, nor is any of the angular momentum."""
    world, starts, ends, _ = pushed
    for start, end in zip(starts, ends, strict=True):
        (linear, angular), (later, turned) = momenta(world, start), momenta(world, end)
        np.testing.assert_allclose(later, linear, atol=2e-5 * np.abs(linear).max())
        assert turned == pytest.approx(angular, abs=2e-5 * abs(linear[0]) * 10)
        assert float(velocity_of(world, end, "package")[0]) > 1.0
        assert abs(float(solids_of(end).spin[0, 0])) > 0.01
        motion = motion_of(world, end, "package")
        np.testing.assert_allclose(motion.position, place_of(world, end, "package"), atol=1e-6)
    with pytest.raises(KeyError, match=r"no object .parcel..*package"):
        motion_of(world, ends[0], "parcel")


@pytest.mark.slow
def test_a_batch_of_worlds_equals_its_worlds_one_by_one(pushed):
    _, _, ends, together = pushed
    for number, end in enumerate(ends):
        alone, batch = end.systems["objects"].solids, together.systems["objects"].solids
        # A micrometer more at the start is up to 0.03 mm at the end.
        np.testing.assert_allclose(batch.position[number], alone.position, atol=2e-4)
        np.testing.assert_allclose(together.robots[0].position[number], end.robots[0].position, atol=2e-4)
    assert float(jnp.abs(solids_of(ends[0]).position - solids_of(ends[1]).position).max()) > 0.01


SIDES = {"squares": 1 / 1.25, "points": 2.0, "3-D": 4.0}
"""How heavy a voxel's side is in its middle [kg]: masses of 1 kg at its corners; squares turn, and so yield 2.5 times
as much."""


def ball(name, position, **options):
    return Object(name=name, shape={"type": "ball", "radius": 1.0}, position=position, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "bounce"), [*((kind, 0.0) for kind in SIDES), ("points", 0.5)])
def test_a_ball_meets_the_middle_of_a_side(kind, bounce):
    """In the step in which a flying voxel meets a ball of 6 kg, which touches no corner: the textbook's speeds."""
    flies, depth, step = 3.0, 0.003, 3 * SUBSTEP
    material = UNDAMPED[kind].model_copy(update={"restitution": 0.0})
    shape = [["a"]] if kind == "3-D" else ("a",)
    body = body_of(kind, shape).model_copy(update={"materials": {"a": material}})
    middle = (4.0 + flies * step - depth, *(1.5,) * (body.dimension - 1))
    world, state = world_with([ball("ball", middle, mass=6.0, restitution=bounce)], (body,), ((0.0,) * body.dimension,))
    (robot,), (model,) = state.robots, world.robots
    thrown = robot.velocity + (model.inverse_mass > 0)[..., None] * jnp.zeros(body.dimension).at[0].set(flies)
    state = replace(state, robots=(replace(robot, velocity=thrown),))
    before, later = momenta(world, state), mover(world, step)(state)
    for one, other in zip(before, momenta(world, later), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-3)
    vertices = ContactBody(engine_of(model), model, later.robots[0]).vertices
    on_side = np.asarray(vertices.exists) & (np.asarray(vertices.position)[..., 0] > 2.0)
    speed = velocity_of(world, later, "ball")
    parting = speed[0] - np.asarray(vertices.velocity)[on_side, 0].mean()
    assert parting == pytest.approx(bounce * flies, abs=1e-3)
    assert speed[0] == pytest.approx((1 + bounce) * SIDES[kind] * flies / (SIDES[kind] + 6.0), abs=1e-3)
    np.testing.assert_allclose(speed[1:], 0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["points", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("squares", "3-D"))]
)
def test_balls_rest_and_roll_on_a_robot_as_on_the_ground(kind):
    """One falls between two corners of the robot; others slide until they roll, at 2/3 of their speed (5/7 in 3-D)."""
    aside = (1.5,) if kind == "3-D" else ()
    body = Body(shape=[["aaaaa"]] if aside else ("aaaaa",), engine="squares" if kind == "squares" else "points")
    moving = {"mass": 0.5, "friction": 1.0, "velocity": (2.0, *(0.0 for _ in aside), 0.0)}
    objects = [
        ball("falls", (64.4, *aside, 4.3), mass=2.0),
        ball("on_robot", (69.5, *aside, 4.0), **moving),
        ball("on_ground", (90.0, *aside, 1.0), **moving),
    ]
    at = ((60.0, *(0.0 for _ in aside), 0.0),)
    world, state = world_with(objects, (body,), at, Flat(friction=1.0).build(), GRAVITY)
    state = mover(world, 1.0)(state)
    rolls = (5 / 7 if aside else 2 / 3) * 2.0
    assert velocity_of(world, state, "on_ground")[0] == pytest.approx(rolls, rel=2e-3)
    assert velocity_of(world, state, "on_robot")[0] == pytest.approx(rolls, rel=0.04)  # soft ground takes some
    assert place_of(world, state, "on_robot")[-1] == pytest.approx(4.0, abs=0.02)
    np.testing.assert_allclose(place_of(world, state, "falls"), (64.4, *aside, 4.0), atol=0.02)
    np.testing.assert_allclose(velocity_of(world, state, "falls"), 0, atol=0.02)


def test_points_are_at_the_nearest_face():
    """Of the unit square and cube: before a face, beyond a corner, at an edge (3-D), and inside."""

    def found(point):
        dimension = len(point)
        corner = jnp.array([[float(bits >> axis & 1) for bits in range(2**dimension)] for axis in range(dimension)])
        leads_out = jnp.ones((2 * dimension, 1), bool)
        near = points_on_faces(jnp.array(point)[:, None], corner[..., None], leads_out, leads_out)
        return {
            number: [np.round(np.asarray(part, float)[..., 0], 5).tolist() for part in face]
            for number, face in enumerate(near)
            if np.isfinite(face.distance[0])
        }

    right, top, up = 1, 3, 5  # faces are numbered by axis, the lower first
    assert found((0.3, 1.25)) == {top: [0.25, [0, 1], [0.3, 1]]}
    assert found((1.2, 1.25)) == {}  # a vertex's
    assert found((0.9, 0.7)) == {right: [pytest.approx(-0.1), [1, 0], pytest.approx([1, 0.7])]}
    assert found((0.3, 0.6, 1.5)) == {up: [0.5, [0, 0, 1], pytest.approx([0.3, 0.6, 1])]}
    edge = [pytest.approx(0.5), pytest.approx([0.6, 0, 0.8]), pytest.approx([1, 0.5, 1])]
    assert found((1.3, 0.5, 1.4)) == {right: edge, up: edge}
    assert found((1.3, 1.2, 1.4)) == {}
    assert found((0.5, 0.5, 0.9)) == {up: [pytest.approx(-0.1), [0, 0, 1], [0.5, 0.5, 1]]}


@pytest.mark.slow
def test_a_wall_stops_a_robot_and_a_spike_does_not_pass_between_its_masses():
    """A robot that is thrown at a vertical wall, and falls on a pole that is thinner than a voxel."""
    ground = BlockGround(heights="0x4 9 0x30 5x1 0x4", width=1.0)
    body = Body(shape=("aa", "aa"))
    world, state = world_with(
        bodies=(body, body),
        at=((-4.0, 0.1), (32.4, 5.5)),
        terrain=ground.build(),
        gravity=GRAVITY,
        ground_corners=True,
    )
    thrown = replace(state.robots[0], velocity=state.robots[0].velocity + jnp.array([15.0, 3.0]))
    state = replace(state, robots=(thrown, state.robots[1]))
    move, right = mover(world, 0.1), -np.inf
    for _ in range(20):
        state = move(state)
        right = max(right, float(engine_of(world.robots[0]).bounding_box(world.robots[0], state.robots[0])[1][0]))
    assert 3.9 < right < 4.35  # the wall's left side is at 4 m; it is met 0.12 m deep at the first touch
    low, high = engine_of(world.robots[1]).bounding_box(world.robots[1], state.robots[1])
    assert int(failure(world, state)) == 0
    assert float(low[1]) > 3.0 or float(high[0]) < 35.3 or float(low[0]) > 35.7


def test_descriptions_say_what_is_wrong():
    with pytest.raises(ValidationError, match="either `shape`"):
        Object(name="a", position=(0.0, 0.0))
    with pytest.raises(ValidationError, match="neither velocity nor mass"):
        box("a", (0.0, 0.0), fixed=True, mass=3.0)
    with pytest.raises(ValidationError, match="point 4 is no corner"):
        Polygon(points=((0, 0), (4, 0), (0, 4), (1, 1)))
    with pytest.raises(ValidationError, match="the points lie in one plane"):
        Mesh(points=((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)))
    assert box("a", (0.0, 0.0, 0.0)).issues(2) == [("position", "3 numbers given; 2 are needed in 2-D")]
    with pytest.raises(ValidationError, match="no run of columns"):
        BlockGround(heights="3x20 two")
    with pytest.raises(ValidationError, match="column 2 the ceiling"):
        BlockGround(heights=(3.0, 6.0), ceiling=(9.0, 6.0))
    with pytest.raises(ValidationError, match="either `heights`"):
        BlockGround()


def test_forms_have_the_moments_of_the_textbook():
    block = form_of(Box(size=(2.0, 3.0, 4.0)).corners(3))
    np.testing.assert_allclose(block.gyration, [25 / 12, 20 / 12, 13 / 12])
    corner = form_of(Mesh(points=((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))).corners(3))
    assert corner.volume == pytest.approx(1 / 6)
    np.testing.assert_allclose(np.sort(corner.gyration), [0.0625, 0.0625, 0.1], atol=1e-9)
    assert len(corner.outline) == 4
    triangle = form_of(Polygon(points=((0, 0), (3, 0), (0, 3))).corners(2))
    assert triangle.volume == pytest.approx(4.5)
    np.testing.assert_allclose(triangle.gyration, [1.0])  # (9 + 9) / 18


@pytest.mark.slow
def test_a_stack_stands_for_a_minute():
    objects = [box(f"stack{level}", (60.0, 1.0 + 2.0 * level)) for level in range(6)]
    world, state = world_with(objects, terrain=Flat().build(), gravity=GRAVITY, **FAR_ROBOT)
    last = mover(world, 60.0)(state)
    np.testing.assert_allclose(solids_of(last).position, solids_of(state).position, atol=0.02)
    assert float(jnp.abs(solids_of(last).velocity).max()) < 0.01


@pytest.mark.slow
def test_robots_touch_each_other():
    """Two robots that fly into each other do not pass through each other, and keep their momentum."""
    body = body_of("points", ("aa", "aa"))
    other = body_of("squares", ("aa", "aa"))
    world, state = world_with(bodies=(body, other), at=((0.0, 0.0), (7.0, 1.7)))
    thrown = replace(state.robots[0], velocity=state.robots[0].velocity + jnp.array([8.0, 0.0]))
    state = replace(state, robots=(thrown, state.robots[1]))
    before, move, worst = momenta(world, state), mover(world, 0.05), 0.0
    for _ in range(20):
        state = move(state)
        worst = max(worst, deepest(world.robots, state.robots))
    after = momenta(world, state)
    np.testing.assert_allclose(after[0], before[0], atol=1e-3)
    assert after[1] == pytest.approx(before[1], abs=2e-2)
    assert 0 < worst < 0.2
    assert float(engine_of(world.robots[1]).momentum(world.robots[1], state.robots[1])[0]) > 10


@pytest.mark.slow
def test_soft_and_rigid_things_rest_on_each_other():
    soft = Object(name="cushion", body=Body(shape=("aaa", "aaa")), position=(60.0, 3.1))
    world, state = world_with([soft, box("package", (60.0, 7.5))], terrain=Flat().build(), gravity=GRAVITY, **FAR_ROBOT)
    state = mover(world, 4.0)(state)
    cushion, package = (motion_of(world, state, name) for name in ("cushion", "package"))
    assert 2.5 < float(cushion.position[1]) < 3.05
    assert 6.5 < float(package.position[1]) < 7.05
    assert abs(float(cushion.angle)) < 0.02
    assert float(jnp.abs(package.velocity).max()) < 0.05


@pytest.fixture(scope="module")
def space():
    """Things in 3-D, each experiment in a place of its own: at the start and after a second."""

    def block(name, position, size=(3.0, 3.0, 2.0), **options):
        return box(name, position, size, **options)

    across = np.array([np.sin(SLOPE), 0, np.cos(SLOPE)])
    objects = [
        *(block(f"stack{level}", (60.0, 0.0, 1.0 + 2.0 * level), yaw=10.0 * level) for level in range(3)),
        block("plank", (100.0, 0.0, 0.5), (8.0, 1.0, 1.0)),
        block("across", (100.0, 0.0, 1.5), (1.0, 8.0, 1.0)),
        block("ramp", (200.0, 0.0, 20.0), (60.0, 30.0, 2.0), tilt=-20.0, fixed=True, friction=0.3),
        block("slips", tuple((np.array([200.0, -8.0, 20.0]) + 2.0 * across).tolist()), tilt=-20.0, friction=0.3),
        Object(
            name="rolls",
            shape={"type": "ball", "radius": 1.0},
            position=tuple((np.array([200.0, 8.0, 20.0]) + 2.0 * across).tolist()),
            friction=2.7,
        ),
        block("light", (500.0, 0.0, 50.0), velocity=(4.0, 0.0, 0.0), restitution=0.5, mass=2.0),
        block("heavy", (505.0, 0.0, 50.0), restitution=0.5, mass=5.0),
        block("rail", (600.0, 0.0, 3.0), (6.0, 1.0, 1.0), fixed=True),
        Object(
            name="prism",
            shape={"type": "mesh", "points": [(x, y, z) for y in (-3, 3) for x, z in RHOMBUS]},
            position=(600.0, 0.0, 5.2),
        ),
    ]
    robot = {"bodies": (Body(shape=[["a"]]),), "at": ((1000.0, 0.0, 0.0),)}
    world, state = world_with(objects, terrain=Flat().build(), gravity=GRAVITY, **robot)
    return world, state, mover(world, 1.0)(state)


RHOMBUS = ((0.0, -0.7), (0.7, 0.0), (0.0, 0.7), (-0.7, 0.0))
"""A square that stands on a corner: what it is the cross-section of stands on an edge."""


@pytest.mark.slow
def test_things_in_3d(space):
    world, first, last = space
    for name in ("stack0", "stack1", "stack2", "plank", "across"):
        np.testing.assert_allclose(place_of(world, last, name), place_of(world, first, name), atol=0.01)
    way = np.array([np.cos(SLOPE), 0, -np.sin(SLOPE)])
    for name, pull in (("slips", np.sin(SLOPE) - 0.3 * np.cos(SLOPE)), ("rolls", 5 / 7 * np.sin(SLOPE))):
        moved = (place_of(world, last, name) - place_of(world, first, name)) @ way
        assert moved == pytest.approx(0.5 * GRAVITY * pull, rel=1e-2), name
    speeds = [float(velocity_of(world, last, name)[0]) for name in ("light", "heavy")]
    assert speeds == pytest.approx([-2 / 7, 12 / 7], abs=0.02)
    assert float(place_of(world, last, "prism")[2]) == pytest.approx(3.5 + 0.7, abs=0.02)  # on its edge, across a rail
    assert int(failure(world, last)) == 0


@pytest.mark.slow
def test_a_box_as_wide_as_the_robot_is_pushed():
    """All corners of one lie in the planes of the other's sides, which are no faces to be put out through."""
    body = body_of("3-D", [["aa"], ["aa"]])
    world, state = world_with(
        [box("package", (9.5, 1.5, 3.0), (3.0, 3.0, 6.0), mass=8.0)], bodies=(body,), at=((0.0,) * 3,)
    )
    robot = state.robots[0]
    state = replace(state, robots=(replace(robot, velocity=robot.velocity + jnp.array([5.0, 0.0, 0.0])),))
    before = momenta(world, state)[0]
    state = mover(world, 1.5)(state)
    np.testing.assert_allclose(momenta(world, state)[0], before, atol=2e-5 * abs(before[0]))
    assert float(velocity_of(world, state, "package")[0]) > 1.0
    right = float(engine_of(world.robots[0]).bounding_box(world.robots[0], state.robots[0])[1][0])
    assert right < place_of(world, state, "package")[0] - 1.5 + 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("speed", "thick"), [(10.0, 0.5), (20.0, 1.0)])
def test_nothing_tunnels(speed, thick):
    """A robot thrown at a fixed plate comes back: none of it gets beyond the plate's middle."""
    body = body_of("squares", ("aa", "aa"))
    world, state = world_with([box("plate", (12.0, 3.0), (thick, 20.0), fixed=True)], bodies=(body,))
    robot = state.robots[0]
    state = replace(state, robots=(replace(robot, velocity=robot.velocity + jnp.array([speed, 0.0])),))
    move, right = mover(world, 0.02), -np.inf
    for _ in range(40):
        state = move(state)
        right = max(right, float(engine_of(world.robots[0]).bounding_box(world.robots[0], state.robots[0])[1][0]))
    assert right < 12.0
    assert int(failure(world, state)) == 0


@pytest.mark.slow
def test_a_spike_of_a_line_passes_only_where_corners_do_not_count():
    """The ground's corner between two feet, of a robot that stands over it."""
    ground = Polyline(x=(0.0, 19.8, 20.0, 20.2, 60.0), y=(0.0, 0.0, 4.0, 0.0, 0.0)).build()
    heights = {}
    for counts in (True, False):
        world, state = world_with(
            bodies=(Body(shape=("a",)),),
            at=((18.5, 4.5),),
            terrain=ground,
            gravity=GRAVITY,
            ground_corners=counts,
        )
        state = mover(world, 0.9)(state)
        heights[counts] = float(engine_of(world.robots[0]).center(world.robots[0], state.robots[0])[1])
    assert heights[True] > heights[False] + 1.5


def test_what_is_drawn_is_where_things_are():
    """Two balls and a box at three moments, in 2-D: outlines turn with the box, spokes with the balls."""
    ball = {"type": "ball", "radius": 1.0}
    solids = build_solids(
        [
            Object(name="one", shape=ball, position=(0.0, 1.0)),
            box("package", (9.0, 1.0)),
            Object(name="two", shape=ball, position=(4.0, 1.0)),
        ],
        2,
        jnp.float32,
    )
    angle = np.array([0.0, np.pi / 2, np.pi])
    turn = np.stack([np.stack([np.cos(angle), -np.sin(angle)], -1), np.stack([np.sin(angle), np.cos(angle)], -1)], 1)
    rotation = np.broadcast_to(turn[:, None], (3, 3, 2, 2))
    position = np.asarray(solids.position)[None] + np.arange(3)[:, None, None] * [1.0, 0.0]
    seen = ObjectsSeen(jnp.asarray(position), jnp.asarray(rotation), (), ())
    drawn = recorded_solids(solids, seen)
    assert drawn.face.shape == (3, 1, 4, 2)
    np.testing.assert_allclose(drawn.ball[:, 1, 0], [4, 5, 6])
    np.testing.assert_allclose(drawn.spoke, np.stack([turn[..., 0]] * 2, 1), atol=1e-6)
    np.testing.assert_allclose(np.ptp(drawn.face[:, 0], axis=1), [(3, 2), (2, 3), (3, 2)], atol=1e-5)
    later = drawn.over_time(lambda values: values[[1]])
    assert later.spoke.shape == (1, 2, 2)

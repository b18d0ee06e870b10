"""The kernel of contacts against plain JAX; interpreted where there is no GPU."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from objects import SUBSTEP, body_of, box, momenta, mover, solids_of, world_with

from vsr.environment import Environment
from vsr.physics.contact.broadphase import no_pairs
from vsr.physics.contact.contact_step import Lists
from vsr.physics.contact.gpu.launch import can_launch
from vsr.physics.failure import Failure
from vsr.terrain import BlockGround, Flat, Polyline
from vsr.world.build import build_solids
from vsr.world.spec import Object

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KERNEL = "interpreted" if jax.default_backend() == "cpu" else "auto"
FRAME = ("aaa", "a.a")
BLOCK = [["aa"], ["aa"]]
HILL = Polyline(x=[0.0, 36.0, 41.0, 60.0], y=[0.0, 0.0, 1.0, -1.0])
OBJECTS = {
    "crate": Object(name="crate", shape={"type": "box", "size": (3, 3)}, position=(40.2, 1.5), velocity=(-2.0, 0.0)),
    "ball": Object(name="ball", shape={"type": "ball", "radius": 1.5}, position=(44.0, 1.5), velocity=(-3.0, 0.0)),
    "stone": Object(
        name="stone",
        shape={"type": "polygon", "points": [[0, 0], [4, 0], [3, 2], [1, 2]]},
        position=(34.5, 7.4),
        tilt=20.0,
        velocity=(0.0, -3.0),
    ),
    "pebble": Object(name="pebble", shape={"type": "ball", "radius": 1}, position=(40.4, 1.4), velocity=(-3.0, 0.0)),
    "peg": Object(name="peg", shape={"type": "box", "size": (1, 8)}, position=(47.0, 4.0), fixed=True),
}
IN_SPACE = {
    "crate": Object(
        name="crate",
        shape={"type": "box", "size": (3, 2, 3)},
        position=(38.0, 1.2, 2.1),
        tilt=25.0,
        velocity=(-5, 0.5, 0),
    ),
    "ball": Object(
        name="ball", shape={"type": "ball", "radius": 1.5}, position=(44.0, 1.4, 1.5), velocity=(-12.0, 0.0, 0.0)
    ),
    "pebble": Object(
        name="pebble", shape={"type": "ball", "radius": 1}, position=(37.3, 1.0, 1.4), velocity=(-5.0, 0.0, 0.0)
    ),
    "peg": Object(name="peg", shape={"type": "box", "size": (1, 8, 4)}, position=(28.9, 2.0, 2.0), fixed=True),
}


def both(objects, engine, terrain, *, shape=FRAME, at=(30.0, 0.0), seconds=0.25, shifts=(0.0, 0.3), **options):
    """Worlds after some time, robots shifted along x [m]: in plain JAX and by the kernel."""
    ends = []
    for implementation in ("xla", KERNEL):
        body = body_of(engine, shape)
        at = (*at, *(0.0,) * (body.dimension - len(at)))
        world, state = world_with(objects, (body,), (at,), terrain, 9.8, **options)
        move = mover(world, seconds, implementation=implementation)

        def shifted(shift, state=state, move=move):
            (robot,) = state.robots
            moved = replace(robot, position=robot.position.at[..., 0].add(shift))
            return move(replace(state, robots=(moved,)))

        ends.append(jax.jit(jax.vmap(shifted))(jnp.asarray(shifts)))
    return ends


def same(plain, kernel, way):
    for robot, name in itertools.product(range(len(plain.robots)), ("position", "velocity")):
        ours, theirs = (np.asarray(getattr(state.robots[robot], name)) for state in (kernel, plain))
        np.testing.assert_allclose(ours, theirs, atol=way * (1 if name == "position" else 100), err_msg=name)
    if solids_of(plain) is None:
        return
    for name in ("position", "rotation", "velocity", "spin"):
        ours, theirs = (np.asarray(getattr(solids_of(state), name)) for state in (kernel, plain))
        np.testing.assert_allclose(ours, theirs, atol=way * (1 if name == "position" else 100), err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "names", "terrain", "options"),
    [
        ("points", ("crate",), Flat(), {}),
        ("points", ("pebble",), Flat(), {}),
        ("squares", ("crate", "pebble"), Flat(), {}),
        ("squares", ("crate",), Flat(), {"self_contact": True}),
        # Not from 0, where plain JAX itself ends 0.02 m elsewhere when the robot begins 0.00001 m aside.
        pytest.param(
            "points", ("crate", "ball", "stone", "peg"), Flat(), {"shifts": (0.05, 0.1)}, marks=pytest.mark.full
        ),
        pytest.param("squares", ("stone",), Flat(), {}, marks=pytest.mark.full),
        ("squares", ("ball", "crate"), HILL, {"shifts": (0.05, 0.3)}),
    ],
)
def test_the_kernel_does_what_plain_jax_does(engine, names, terrain, options):
    objects = [OBJECTS[name] for name in names]
    plain, kernel = both(objects, engine, terrain.build(), **options)
    assert all_have_met_something(plain, objects)
    same(plain, kernel, 2e-4 if "stone" in names else 1e-4)  # a stone that slips off the robot doubles rounding


def all_have_met_something(state, objects):
    """Whether every object that is not fixed has another velocity than at the start."""
    velocity = np.asarray(solids_of(state).velocity)
    start = np.array([item.velocity or (0,) * velocity.shape[-1] for item in objects])
    return (np.abs(velocity - start).max((0, 2))[~np.array([item.fixed for item in objects])] > 0.1).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("crate",), {}),
        (("pebble",), {"self_contact": True}),
        pytest.param(("crate", "ball", "peg"), {}, marks=pytest.mark.full),
    ],
)
def test_the_kernel_does_what_plain_jax_does_in_space(names, options):
    objects = [IN_SPACE[name] for name in names]
    plain, kernel = both(objects, "3-D", Flat().build(), shape=BLOCK, **options)
    assert all_have_met_something(plain, objects)
    same(plain, kernel, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["points", "squares"])
def test_robots_on_blocks(engine):
    terrain = BlockGround(heights="0x11 3x2 0x20").build()
    plain, kernel = both((), engine, terrain, at=(31.0, 3.05), ground_corners=True)
    same(plain, kernel, 1e-4)
    assert bool(plain.systems["objects"].given.any())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["points", "squares"])
def test_robots_in_each_other_and_in_themselves(engine):
    """The arms of one robot are bent into each other; another falls on it."""
    ends, given = [], {}
    for implementation in ("xla", KERNEL):
        bodies = (body_of(engine, ("aaa", "a..", "aaa")), body_of(engine, ("aa",)))
        world, state = world_with((), bodies, ((30.0, 0.05), (30.5, 9.1)), Flat().build(), 9.8, self_contact=True)
        robot = state.robots[0]
        far = {"squares": 2.0, "points": 2.8}[engine]  # points are stiffer
        bent = robot.position.at[0, :2, 3, 1].add(far).at[0, 2:, 3, 1].add(-far)
        state = replace(state, robots=(replace(robot, position=bent), state.robots[1]))
        # Plain JAX lists neighbors once in a call, the kernel in every meeting: so each call is one.
        move = mover(world, 3 * SUBSTEP, implementation=implementation)
        for number in range(15):
            state = move(state)
            given[implementation, number] = np.abs(state.systems["objects"].given).max(0)
        ends.append(state)
    assert given["xla", 2][8:12].max() > 0.1  # the arms
    assert given["xla", 14][16:].max() > 0.1  # the other one
    same(*ends, 1e-4)


@pytest.mark.slow
def test_arms_of_a_robot_in_space_touch():
    ends = []
    for implementation in ("xla", KERNEL):
        body = body_of("3-D", [["aa"], ["a."], ["aa"]])
        world, state = world_with((), (body,), ((30.0, 0.0, 0.05),), Flat().build(), 9.8, self_contact=True)
        robot = state.robots[0]
        bent = robot.position.at[:, 2:, :, 2].add(jnp.array([-0.6, 0.5, -2.7])).at[:, :2, :, 2, 2].add(2.7)
        state = replace(state, robots=(replace(robot, position=bent),))
        move, touched = mover(world, 3 * SUBSTEP, implementation=implementation), 0.0
        for _ in range(8):
            state = move(state)
            touched = max(touched, float(jnp.abs(state.systems["objects"].given).max()))
        assert touched > 0.1
        ends.append(state)
    same(*ends, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["points", "squares"])
def test_corners_of_the_ground_in_voxels(engine):
    spike = Polyline(x=[0.0, 31.0, 31.5, 32.0, 60.0], y=[0.0, 0.0, 2.0, 0.0, 0.0]).build()
    plain, kernel = both((), engine, spike, at=(30.0, 2.0), ground_corners=True)
    assert bool(plain.systems["objects"].given.any())
    same(plain, kernel, 1e-4)


@pytest.mark.slow
def test_pairs_without_a_place_are_counted():
    """Two robots in each other: the same pairs, by the kernel and by a list, of which some find no place."""
    counts, bodies = [], (body_of("points", ("aa", "aa")),) * 2
    for implementation in ("xla", KERNEL):
        world, state = world_with((), bodies, ((30.0, 0.0), (31.0, 1.0)), capacity=3)
        later = mover(world, SUBSTEP, implementation=implementation)(state)
        counts.append(int(later.systems["objects"].candidates.vertices.overflow))
        assert int(world.systems["objects"].failure(later.systems["objects"])) == int(Failure.contact_overflow)
    assert counts[0] == counts[1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "shape", "size"), [("squares", FRAME, (3, 2)), ("3-D", [["aaa"]], (3, 2, 2))])
def test_momentum_is_kept(engine, shape, size):
    """A robot and a box meet in free space."""
    dimension = len(size)
    place, velocity = (11.0, *(1.0,) * (dimension - 1)), (-6.0, *(0.5,) * (dimension - 1))
    objects = [box("box", place, size, velocity=velocity, mass=4.0)]
    world, state = world_with(objects, (body_of(engine, shape),), ((0.0,) * dimension,))
    later = mover(world, 0.5, implementation=KERNEL)(state)
    assert float(solids_of(later).velocity[0, 0]) > -5.0  # they have met
    for before, after in zip(momenta(world, state), momenta(world, later), strict=True):
        np.testing.assert_allclose(after, before, atol=5e-4)


@pytest.mark.slow
def test_boxes_slide_and_rest_in_space():
    """One slides on, one comes to rest: each within its cone of friction, in a batch as alone."""
    seconds, gravity = 0.25, 9.8
    world, state = world_with(
        [box("box", (20.0, 1.5, 1.0), (3, 3, 2))], (body_of("3-D", [["a"]]),), ((30.0, 1, 0),), Flat().build(), gravity
    )
    move = mover(world, seconds, implementation=KERNEL)

    def thrown(speed):
        objects = state.systems["objects"]
        along = jnp.array([0.8, 0.6, 0.0])
        solids = replace(objects.solids, velocity=speed * along[None])
        return move(replace(state, systems={"objects": replace(objects, solids=solids)}))

    speeds = np.array([3.0, 0.4])
    together = jax.vmap(thrown)(jnp.asarray(speeds, jnp.float32))
    friction = np.sqrt(float(world.systems["objects"].solids.friction[0]) * float(world.environment.terrain.friction))
    after = np.maximum(speeds - friction * gravity * seconds, 0)
    velocity = np.asarray(solids_of(together).velocity)[:, 0]
    np.testing.assert_allclose(velocity, after[:, None] * [0.8, 0.6, 0.0], atol=1e-4)
    kept = together.systems["objects"].impulses["ground"]
    press, drag = np.asarray(kept.press), np.asarray(kept.drag)
    weight = float(world.systems["objects"].solids.mass[0]) * gravity * 3 * SUBSTEP
    np.testing.assert_allclose(press.sum(1), weight, rtol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(drag, axis=1)[0], friction * press[0], rtol=1e-4)
    assert (np.linalg.norm(drag, axis=1)[1] <= friction * press[1]).all()
    alone = thrown(jnp.float32(speeds[0]))
    for one, other in zip(jax.tree.leaves(solids_of(alone)), jax.tree.leaves(solids_of(together)), strict=True):
        np.testing.assert_allclose(one, other[0], atol=1e-6)


def test_the_kernel_is_asked_only_for_what_it_can_do():
    free = Environment(gravity=jnp.float32(9.8))
    blocks = replace(free, terrain=BlockGround(heights="0x11 3x2 0x20").build())

    def boxes(count, dimension=2):
        rest = (1.0,) * (dimension - 1)
        each = [box(f"box{i}", (5.0 * i, *rest), (2,) * dimension) for i in range(count)]
        return build_solids(each, dimension, jnp.float32)

    three, nine = map(boxes, (3, 9))
    none, few, many = Lists(None, None), Lists(no_pairs(36), None), Lists(no_pairs(400), None)
    assert can_launch(three, free, none, 36)
    assert can_launch(None, blocks, none, 36)
    assert can_launch(None, free, few, 36)
    assert not can_launch(None, free, none, 36)  # there is nothing to do
    assert not can_launch(nine, free, none, 36)  # more corners than were tried
    assert not can_launch(three, free, none, 512)  # more than a lane can keep
    assert not can_launch(None, free, many, 36)  # likewise
    assert can_launch(boxes(1, 3), free, none, 125)
    assert not can_launch(boxes(2, 3), free, none, 125)  # in 3-D there are more numbers in a lane
    assert not can_launch(boxes(4, 3), free, none, 8)

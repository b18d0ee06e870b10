"""Where episodes begin: a robot that is inside the ground, an object, another robot or blocks has failed."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

from vsr.cli import main
from vsr.episode import reset
from vsr.physics.failure import Failure
from vsr.scene import Scene
from vsr.world.state import SHALLOW, buried

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SIDE = 3.0
FLAT, DEEP = ["aa", "aa"], [["aa", "aa"], ["aa", "aa"]]


def built(scene):
    return Scene.model_validate(scene).build()[0]


@jax.jit
def first(scenario):
    return reset(jax.random.key(0), scenario)


def world_of(shape, engine, **world):
    """A robot of 2 voxels each way, its left edge at 20 m, half a meter over the ground."""
    scene = {
        "robot": {"body": {"shape": shape, "engine": engine}},
        "task": {"placement": {"left": 20.0, "clearance": 0.5}},
        "world": world,
    }
    scenario = built(scene)
    return scenario.world, first(scenario).world


def found_at(world, state, places):
    """Whether the robot is buried with the object at each of some places, (places, dimension)."""

    def found(position):
        objects = state.systems["objects"]
        moved = replace(objects, solids=replace(objects.solids, position=position[None]))
        return buried(world, replace(state, systems={"objects": moved}))

    return (jax.jit(jax.vmap(found))(jnp.array(places)) == int(Failure.buried)).tolist()


def in_3d(places, shape):
    return [(x, 0.0, up) for x, up in places] if shape is DEEP else places


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "engine"), [(FLAT, "squares"), (FLAT, "points"), (DEEP, "points")])
def test_a_box_may_touch_the_robot_and_not_be_in_it(shape, engine):
    """Its right side is at 26 m, its top at 6.5 m; contact bears what is shallow."""
    size = [2.0, 2.0] if shape is FLAT else [2.0, 1.0, 2.0]
    middle = [40.0, *[0.0] * (len(size) - 2), 9.0]
    crate = {"name": "crate", "shape": {"type": "box", "size": size}, "position": middle}
    world, state = world_of(shape, engine, objects=[crate])
    shallow, deep = (share * SHALLOW * SIDE for share in (0.9, 1.1))
    free = [(27.0, 1.5), (27.0 - shallow, 1.5), (23.0, 7.5), (23.0, 7.5 - shallow), (27.05, 7.55)]
    inside = [(27.0 - deep, 1.5), (23.0, 7.5 - deep), (23.0, 3.5), (21.5, 2.0), (24.9, 2.1)]
    found = found_at(world, state, in_3d(free + inside, shape))
    assert found == [False] * len(free) + [True] * len(inside)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "engine"), [(FLAT, "points"), (DEEP, "points")])
def test_a_thin_plate_through_a_voxel_and_a_ball_in_one_are_found(shape, engine):
    """Neither has a corner in a voxel, nor a voxel's corner or middle in it."""
    size = [20.0, 0.1] if shape is FLAT else [20.0, 20.0, 0.1]
    middle = [40.0, *[0.0] * (len(size) - 2), 9.0]
    plate = {"name": "plate", "shape": {"type": "box", "size": size}, "position": middle, "fixed": True}
    world, state = world_of(shape, engine, objects=[plate])
    assert found_at(world, state, in_3d([(23.0, 1.0), (23.0, 0.45), (23.0, 6.55)], shape)) == [True, False, False]
    ball = {"name": "ball", "shape": {"type": "ball", "radius": 0.5}, "position": middle}
    world, state = world_of(shape, engine, objects=[ball])
    aside = 0.5 * 0.5**0.5  # from the corner, where the ball touches it
    places = [(21.2, 1.2), (26.45, 2.0), (26.4, 2.0), (26 + aside, 6.5 + aside), (26 + aside - 0.05, 6.45 + aside)]
    assert found_at(world, state, in_3d(places, shape)) == [True, False, True, False, True]


@pytest.mark.slow
def test_edges_across_each_other_part_bodies_in_3d():
    """Only the direction across the robot's vertical edge and a level one of the crate parts them."""
    turned = {"tilt": 45.0, "yaw": 45.0}
    crate = {"name": "crate", "shape": {"type": "box", "size": [2.0, 2.0, 2.0]}, "position": [40.0, 0.0, 9.0], **turned}
    world, state = world_of(DEEP, "points", objects=[crate])
    away = [1.0 + gap / 2**0.5 for gap in (0.05, -0.05, -0.07)]
    assert found_at(world, state, [(26.0 + by, 3.0 + by, 2.0) for by in away]) == [False, False, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ({"objects": [{"name": "soft", "body": {"shape": ["aa"]}, "position": [28.9, 2.0]}]}, Failure.buried),
        ({"objects": [{"name": "soft", "body": {"shape": ["aa"]}, "position": [29.0, 2.0]}]}, Failure.none),
        (
            {"other_robots": [{"name": "b", "robot": {"body": {"shape": ["a"]}}, "placement": {"left": 25.8}}]},
            Failure.buried,
        ),
        (
            {"other_robots": [{"name": "b", "robot": {"body": {"shape": ["a"]}}, "placement": {"left": 26.0}}]},
            Failure.none,
        ),
        # The robot's top is at 6.5 m: no middle of a voxel is in the ceiling.
        ({"terrain": {"type": "blocks", "heights": "0x20", "ceiling": "6.3x20"}}, Failure.buried),
        ({"terrain": {"type": "blocks", "heights": "0x20", "ceiling": "6.5x20"}}, Failure.none),
    ],
    ids=["soft", "soft beside", "robot", "robot beside", "ceiling", "below ceiling"],
)
def test_soft_objects_robots_and_blocks_are_found_too(world, expected):
    assert int(jax.jit(buried)(*world_of(FLAT, "squares", **world))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["squares", "points"])
def test_a_robot_wider_than_the_way_to_the_crate_does_not_push_it(engine):
    """It used to be thrown out of the crate, which then was meters away: the best of all that push."""
    for width, expected in ((5, Failure.none), (8, Failure.buried)):
        scene = {"robot": {"body": {"shape": ["a" * width] * 2, "engine": engine}}, "task": {"type": "push"}}
        assert int(first(built(scene)).failure) == expected


@pytest.mark.slow
def test_a_body_too_high_for_the_package_begins_inside_it():
    for rows, expected in ((5, Failure.none), (6, Failure.buried)):
        shape = ["..aaa"] * (rows - 5) + ["aaaaa"] * 5
        scene = {"robot": {"body": {"shape": shape, "engine": "points"}}, "task": {"type": "Carrier-v0"}}
        assert int(first(built(scene)).failure) == expected


@pytest.mark.slow
def test_check_says_what_to_change(tmp_path):
    file = tmp_path / "wide.yaml"
    file.write_text("robot: {body: {shape: [aaaaaaaa]}}\ntask: push\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["check", str(file)])
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "inside the ground or an object" in said
    assert "task.at" in said


def test_two_robots_of_one_world_may_not_overlap():
    world, state = world_of(FLAT, "points")
    two = replace(world, robots=world.robots * 2)

    def found(by):
        (robot,) = state.robots
        other = replace(robot, position=robot.position + jnp.array([by, 0.0]))
        return buried(two, replace(state, robots=(robot, other)))

    assert jax.jit(jax.vmap(found))(jnp.array([6.0, 5.9, -5.9])).tolist() == [0, Failure.buried, Failure.buried]

"""Sensors of the ground, of turns in 3-D and of pressed sides, against closed forms."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

import vsr
from vsr.environment import Environment
from vsr.physics.engine import assemble_body, engine_of
from vsr.sensors import QUANTITIES, Sensor, empty_memory, readings, remember
from vsr.terrain import HeightField
from vsr.terrain.blocks import Cells
from vsr.world.placement import move_rigidly

pytestmark = pytest.mark.usefixtures("quickly_compiled")
CUBE = vsr.Body(shape=(("a",),), engine="points")
SQUARES = vsr.Body(shape=("aa",))
STEPS = vsr.BlockGround(heights=(1.0, 1.0, 4.0), ceiling=(6.0, 6.0, 9.0), width=2.0).build()
PLANE = HeightField.of(np.add.outer(0.5 * np.arange(20.0), 0.25 * np.arange(20.0)), (0.0, 0.0), (1.0, 1.0))
GROUNDS = {
    "flat": (vsr.Flat().build(), (50.0, 4.0), 4.0, {(0.0, -1.0): 4.0, (1.0, -1.0): 4 * 2**0.5, (1.0, 0.0): 20.0}),
    # A level ray meets it where it is as high; one at right angles to it is shorter than one down.
    "uphill": (
        vsr.Polyline(x=(0.0, 100.0), y=(0.0, 20.0)).build(),
        (10.0, 4.0),
        2.0,
        {(0.0, -1.0): 2.0, (1.0, 0.0): 10.0, (0.2, -1.0): 2 / 1.04**0.5},
    ),
    "steps": (STEPS, (1.0, 3.0), 2.0, {(0.0, -1.0): 2.0, (0.0, 1.0): 3.0, (1.0, 0.0): 3.0, (-1.0, 0.0): 20.0}),
    "field": (PLANE, (4.0, 3.0, 4.5), 2.0, {(0.0, 0.0, -1.0): 2.0, (1.0, 0.0, 0.0): 8.0, (0.0, 1.0, 0.0): 4.0}),
    "cells": (
        Cells(jnp.array([[True, True, True], [False, False, True]]), jnp.float32(2)),
        (1.0, 3.0),
        1.0,
        {(0.0, -1.0): 1.0, (1.0, 0.0): 3.0, (0.0, 1.0): 20.0, (-1.0, -1.0): 20.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUNDS)
def test_height_and_rays_follow_their_closed_forms(name):
    ground, place, height, rays = GROUNDS[name]
    origin = jnp.array(place, jnp.float32)
    assert float(ground.height_over(origin)) == pytest.approx(height, abs=1e-4)
    directions = np.array(list(rays))
    directions = jnp.asarray(directions / np.linalg.norm(directions, axis=1, keepdims=True), jnp.float32)
    many = jnp.broadcast_to(origin, directions.shape)
    found = jax.jit(lambda origin, direction: ground.distance_along(origin, direction, 20.0))(many, directions)
    np.testing.assert_allclose(found, list(rays.values()), rtol=2e-5, atol=2e-4)


@pytest.mark.slow
def test_from_inside_the_ground_is_no_distance_away():
    for ground, place in ((STEPS, (5.0, 2.0)), (STEPS, (1.0, -3.0)), (STEPS, (1.0, 7.0)), (PLANE, (4.0, 3.0, 2.4))):
        origin = jnp.array(place, jnp.float32)
        assert bool(ground.is_inside(origin))
        assert float(ground.distance_along(origin, -jnp.eye(len(place))[-1], 5.0)) == 0
    assert float(STEPS.height_over(jnp.array([5.0, 3.0]))) == -1, "below the top of the step that it is in"


# On robots


@cache
def model_of(engine):
    return assemble_body({"squares": SQUARES, "points": CUBE}[engine])


def motion(body, ground=None, **how):
    model = model_of(body.engine)

    @jax.jit
    def moved(how):
        state = move_rigidly(model, engine_of(model).rest_state(model), **how)
        return engine_of(model).voxel_motion(model, Environment(gravity=jnp.float32(9.8), terrain=ground), state)

    return moved(how)


def feel(seen, name, *options):
    return np.asarray(jax.jit(lambda seen: QUANTITIES[name](seen, *options))(seen))


def test_rays_turn_with_the_voxel():
    """The center of a square of 3 m, shifted up by 5 m and turned about the middle of the body, (3, 1.5)."""
    tilt = 0.3
    seen = motion(SQUARES, vsr.Flat().build(), tilt=tilt, shift=jnp.array([50.0, 5.0]))
    height = 6.5 + 1.5 * np.sin(tilt) * np.array([-1, 1])
    np.testing.assert_allclose(feel(seen, "ground_height")[0], height, atol=1e-3)
    down = feel(seen, "ground_distance", None, 20.0)[0]
    np.testing.assert_allclose(down, height / np.cos(tilt), atol=2e-3)
    ahead = feel(seen, "ground_distance", (2.0, -2.0), 20.0)[0]
    np.testing.assert_allclose(ahead, height / np.sin(np.pi / 4 - tilt), atol=2e-2)
    assert float(feel(seen, "ground_distance", None, 3.0)[0, 0]) == 3
    free = seen._replace(ground=None)
    assert float(feel(free, "ground_distance")[0, 0]) == 10
    np.testing.assert_allclose(feel(free, "ground_height")[0], height, atol=1e-3)


@pytest.mark.parametrize(("tilt", "yaw"), [(0.0, 0.7), (0.4, -2.0)])
def test_turns_in_space(tilt, yaw):
    """Of a cube that is tilted from x to up, then turned about the vertical."""
    velocity = np.array([1.0, -2.0, 0.5])
    seen = motion(
        CUBE, tilt=tilt, yaw=yaw, velocity=jnp.asarray(velocity, jnp.float32), shift=jnp.array([500.0, 0, 20.0])
    )
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    lift = np.array([[np.cos(tilt), 0, -np.sin(tilt)], [0, 1, 0], [np.sin(tilt), 0, np.cos(tilt)]])
    axes = (turn @ lift).T
    assert float(feel(seen, "yaw")[0, 0, 0]) == pytest.approx(yaw, abs=1e-5)
    felt = [float(feel(seen, f"own_velocity_{axis}")[0, 0, 0]) for axis in "xyz"]
    np.testing.assert_allclose(felt, axes @ velocity, atol=1e-5)
    seen = seen._replace(ground=vsr.Flat().build())
    height, own = 20 + 1.5, np.array([0.3, 0.4, -1.0])
    steep = -(own / np.linalg.norm(own) @ axes)[2]
    assert float(feel(seen, "ground_distance", tuple(own), 60.0)[0, 0, 0]) == pytest.approx(height / steep, rel=1e-3)


def test_pressed_sides_of_a_square():
    """Its lower masses moved towards each other by a tenth of their distance, 2.1 m."""
    model = assemble_body(vsr.Body(shape=("a",)))
    engine = engine_of(model)
    rest = engine.rest_state(model)
    low = rest.position[..., 1:] < 1.5
    inward = jnp.where(low, -jnp.sign(rest.position - 1.5), 0) * jnp.array([0.105, 0.0])
    seen = engine.voxel_motion(model, Environment(), replace(rest, position=rest.position + inward))
    felt = {side: float(feel(seen, f"{side}_compression")[0, 0]) for side in ("left", "right", "bottom", "top")}
    slanted = 1 - np.hypot(2.1, 0.105) / 2.1
    assert felt == pytest.approx({"left": slanted, "right": slanted, "bottom": 0.1, "top": 0.0}, abs=1e-5)


def test_pressed_sides_of_a_cube():
    """Narrower along y by a fifth at its right side alone: right by a fifth, bottom and top by a tenth, left not."""
    model = model_of("points")
    engine = engine_of(model)
    rest = engine.rest_state(model)
    right = (rest.position[..., :1] > 1.5).astype(jnp.float32)
    position = rest.position + right * (rest.position - 1.5) * jnp.array([0.0, -0.2, 0.0])
    seen = engine.voxel_motion(model, Environment(), replace(rest, position=position))
    slanted = 1 - np.hypot(3.0, 0.3) / 3.0
    wanted = {"left": 0.0, "right": 0.2, "bottom": 0.1, "top": 0.1, "near": slanted, "far": slanted}
    felt = {side: float(feel(seen, f"{side}_compression")[0, 0, 0]) for side in wanted}
    assert felt == pytest.approx(wanted, abs=1e-5)


# As sensors


def test_several_rays_are_several_readings():
    model = model_of("squares")
    state = move_rigidly(model, engine_of(model).rest_state(model), shift=jnp.array([50.0, 2.5]))
    ground = Environment(gravity=jnp.float32(9.8), terrain=vsr.Flat().build())
    ahead = Sensor(quantity="ground_distance", direction=(1.0, -1.0))
    sensors = (
        Sensor(quantity="ground_distance"),
        ahead,
        Sensor(quantity="ground_distance", range=2.0),
        ahead.model_copy(),
    )
    memory = empty_memory(model, sensors)
    assert memory.shape[1] == 3, "equal ones share their place"
    again = jax.jit(lambda: readings(sensors, remember(sensors, model, ground, state, memory, jnp.asarray(True))))
    read = again()[:, 0, 0]
    np.testing.assert_allclose(read, [4, 4 * 2**0.5, 2, 4 * 2**0.5], atol=1e-3)
    assert ahead.label == "ground distance along (1, -1)"
    assert [QUANTITIES[name].unit for name in ("ground_height", "yaw", "own_velocity_x", "top_compression")] == [
        "m",
        "rad",
        "m/s",
        "",
    ]


@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        ({"quantity": "angle", "range": 3.0}, "'angle' has no range"),
        ({"quantity": "ground_distance", "direction": (0.0, 0.0)}, "not 0"),
        (
            {"quantity": "ground_distance", "direction": (0.0, 1.0, 0.0)},
            "3 numbers given; this body is in 2-D and needs 2",
        ),
        ({"quantity": "yaw"}, "yaw is only felt in 3-D"),
        ({"quantity": "ground_distance", "range": 0.0}, "greater than 0"),
    ],
)
def test_senses_that_cannot_be_are_refused(sensor, message):
    with pytest.raises(ValidationError, match=message):
        vsr.Robot(body=SQUARES, controller=vsr.MLP(sensors=(Sensor(**sensor),), weights=(0.0,) * 8))

"""Rest that rests: robots, boxes and other robots below the angle of friction do not creep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from objects import SUBSTEP, box, world_with

from vsr.physics.engine import engine_of
from vsr.robot import Body, Material
from vsr.terrain import Polyline
from vsr.world.placement import move_rigidly
from vsr.world.state import advance, world_state

pytestmark = pytest.mark.usefixtures("quickly_compiled")
GRAVITY = 9.8
MOST = 1e-3
"""Speed of what is at rest, at most [m/s]."""
IN = 0.004
"""How deep objects begin in each other [m]."""


class Slope:
    """A world on a slope that falls to the right, with one coefficient of friction for everything."""

    def __init__(self, kind, angle, friction):
        self.kind, self.angle, self.friction = kind, float(angle), friction
        self.turn = np.radians(angle)
        self.objects, self.bodies, self.spots, self.terrain = [], [], [], None

    def place(self, along, up):
        """So far down the slope and so high over it [m]."""
        sine, cosine = np.sin(self.turn), np.cos(self.turn)
        x, y = along * cosine + up * sine, up * cosine - along * sine
        return (x, y) if self.kind != "3-D" else (x, 0.0, y)

    def deep(self, size, across):
        return size if self.kind != "3-D" else (size[0], across, size[1])

    def line(self):
        rise = 200 * np.tan(self.turn)
        self.terrain = Polyline(x=[-200.0, 200.0], y=[rise, -rise], friction=self.friction).build()

    def ramp(self):
        size = self.deep((60.0, 2.0), 20.0)
        options = {"tilt": -self.angle, "fixed": True, "friction": self.friction}
        self.objects.append(box("ramp", self.place(0.0, -1.0), size, **options))

    def box(self, name, along, bottom, size, mass=4.0):
        options = {"tilt": -self.angle, "mass": mass, "friction": self.friction}
        middle = self.place(along, bottom + size[1] / 2)
        self.objects.append(box(name, middle, self.deep(size, 3.0), **options))

    def robot(self, along, bottom, shape):
        rows = [[row] for row in shape] if self.kind == "3-D" else shape
        engine = "squares" if self.kind == "squares" else "points"
        self.bodies.append(Body(shape=rows, engine=engine, materials={"a": Material(friction=self.friction)}))
        self.spots.append(self.place(along, bottom + 1.5 * len(shape)))

    def built(self):
        at = tuple((0.0,) * len(spot) for spot in self.spots)
        world, _ = world_with(self.objects, tuple(self.bodies), at, self.terrain, GRAVITY)
        robots = []
        for model, spot in zip(world.robots, self.spots, strict=True):
            engine = engine_of(model)
            state = move_rigidly(model, engine.rest_state(model), tilt=-jnp.radians(self.angle))
            low, high = engine.bounding_box(model, state)
            robots.append(move_rigidly(model, state, shift=jnp.asarray(spot) - 0.5 * (low + high)))
        return world, jax.jit(world_state)(world, tuple(robots), jax.random.key(0))


def stack_on_robot(slope):
    """Two boxes on a robot on a ramp."""
    slope.ramp()
    slope.robot(0.0, -IN, ("aaa", "aaa"))
    slope.box("lower", 0.3, 6 - 2 * IN, (6.0, 1.0))
    slope.box("upper", 0.0, 7 - 3 * IN, (5.0, 1.0))


def robot_on_legs(slope):
    """A robot on a ramp, whose legs press against each other."""
    slope.ramp()
    slope.robot(0.0, -IN, ("aaa", "a.a"))


def robot_on_box(slope):
    """A robot on a box on a ramp."""
    slope.ramp()
    slope.box("plank", 0.0, -IN, (10.0, 1.0), mass=8.0)
    slope.robot(0.0, 1 - 2 * IN, ("aaa", "aaa"))


def box_on_robot(slope):
    """A box on a robot on a line of ground."""
    slope.line()
    slope.robot(0.0, 0.0, ("aaaaa", "aaaaa"))
    slope.box("box", 0.3, 6 - IN, (3.0, 2.0))


def robot_on_robot(slope):
    """A robot on a robot on a line of ground."""
    slope.line()
    slope.robot(0.0, 0.0, ("aaaaa", "aaaaa"))
    slope.robot(0.4, 6 - IN, ("aa", "aa"))


def moved(world, state, seconds):
    still = tuple(jnp.zeros((1, *model.present.shape)) for model in world.robots)
    return advance(world, state, still, substep=SUBSTEP, count=round(seconds / SUBSTEP))[0]


def places(world, state):
    found = [
        np.asarray(engine_of(model).center(model, robot), float)
        for model, robot in zip(world.robots, state.robots, strict=True)
    ]
    objects = world.systems["objects"].solids
    if objects is not None:
        found += list(np.asarray(state.systems["objects"].solids.position, float)[objects.free])
    return np.stack(found)


CASES = [
    ("squares", robot_on_legs),
    *(
        pytest.param(kind, case, marks=pytest.mark.slow)
        for kind, case in (
            ("squares", stack_on_robot),
            ("points", stack_on_robot),
            ("squares", robot_on_box),
            ("squares", box_on_robot),
            ("squares", robot_on_robot),
        )
    ),
    *(
        pytest.param(kind, case, marks=pytest.mark.full)
        for kind, case in (
            ("points", robot_on_legs),
            ("3-D", robot_on_legs),
            ("3-D", stack_on_robot),
            ("points", robot_on_box),
            ("points", box_on_robot),
            ("3-D", box_on_robot),
            ("points", robot_on_robot),
            ("3-D", robot_on_robot),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), CASES)
def test_what_lies_below_the_angle_of_friction_stays(kind, case):
    """At 20 degrees with 0.5, and at nine tenths of the critical angle of another coefficient."""
    move = jax.jit(moved, static_argnums=2)
    for friction, angle in ((0.5, 20.0), (0.3, 0.9 * np.degrees(np.arctan(0.3)))):
        slope = Slope(kind, angle, friction)
        case(slope)
        world, state = slope.built()
        for _ in range(4):
            state = move(world, state, 1.0)
        before = places(world, state)
        later = places(world, move(world, state, 1.0))
        speed = np.linalg.norm(later - before, axis=1)
        assert speed.max() < MOST, (friction, angle, speed)
        assert np.abs(before).max() < 30  # it has not slid off meanwhile

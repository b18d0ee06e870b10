"""What surrounds a lattice: constraints, drag, planes, balls, friction, springs that break, breakpoints."""

from __future__ import annotations

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment.model import by_components
from vsr.lattice import (
    INTEGRATORS,
    Environment,
    Lattice,
    Stiffness,
    advance,
    advance_until,
    anchor,
    as_graph,
    ball,
    breakable,
    broken,
    broken_count,
    choose_step,
    energy,
    floor,
    keep_in_plane,
    keep_on_line,
    loads,
    of_graph,
    of_pairs,
    plane,
    record,
    release,
    rest_state,
    slope,
)
from vsr.lattice.contact import touch
from vsr.lattice.integrators import NodeState

pytestmark = pytest.mark.usefixtures("quickly_compiled")
GRAVITY = 9.81


def dust(positions, mass: float = 1.0) -> Lattice:
    """Nodes without springs."""
    return of_graph(np.asarray(positions, float), np.zeros((0, 2), int), stiffness=1.0, mass=mass)


def block(dimension: int) -> Lattice:
    return as_graph(of_pairs((2,) * dimension, 1.0, Stiffness(2000.0, 1000.0, 500.0), 1.0, damping_time=0.005))


@pytest.mark.parametrize("dimension", [2, 3])
def test_an_anchored_node_stays_and_bears_the_rest(dimension):
    lattice = block(dimension)
    top = np.asarray(lattice.rest_position)[..., -1] == 1
    hung = anchor(lattice, top)
    end = advance(hung, Environment(), rest_state(hung), step=1e-3, count=3000)
    np.testing.assert_array_equal(end.position[top], lattice.rest_position[top])
    assert np.abs(end.velocity).max() < 1e-3
    assert np.asarray(end.position)[~top][:, -1].max() < 0
    assert (np.asarray(release(hung, top).inverse_mass) == np.asarray(lattice.inverse_mass)).all()


@pytest.mark.parametrize("environment", [Environment(), Environment(bodies=(floor(3, -1.0, friction=0.5),))])
def test_a_node_on_a_line_never_leaves_it(environment):
    line = np.array([1.0, 2.0, -2.0]) / 3
    lattice = keep_on_line(dust([[0, 0, 0], [0, 0, 0]]), [True, False], 3 * line)
    state = rest_state(lattice, velocity=jnp.array([1.0, 0.0, 0.0]))
    end = advance(lattice, environment, state, step=1e-3, count=1000)
    moved = np.asarray(end.position[0])
    np.testing.assert_allclose(moved, line * (moved @ line), atol=1e-5)
    if environment.bodies:
        assert moved[2] == pytest.approx(-1, abs=1e-4)  # the floor stops it on its line
        assert np.abs(end.velocity[0]).max() < 1e-2
    else:  # falls by the part of gravity along the line: a = g (line·down)
        along = line[0] + GRAVITY * -line[2] / 2
        assert moved @ line == pytest.approx(along, rel=2e-3)


def test_a_node_in_a_plane_never_leaves_it_and_two_planes_leave_a_line():
    normal = np.array([1.0, 0.0, 1.0])
    lattice = keep_in_plane(dust([[0, 0, 0], [0, 0, 0]]), [True, True], normal)
    lattice = keep_in_plane(lattice, [False, True], [1.0, 0.0, -1.0])
    state = rest_state(lattice, velocity=jnp.array([0.5, 1.0, 0.0]))
    end = advance(lattice, Environment(), state, step=1e-3, count=500)
    np.testing.assert_allclose(np.asarray(end.position) @ normal, 0, atol=1e-6)
    assert end.position[0, 2] < -0.2  # it slides down within the plane
    np.testing.assert_allclose(end.position[1], [0, 0.5, 0], atol=1e-5)  # both planes leave only y


def test_constraints_name_what_is_wrong():
    lattice = dust([[0, 0, 0], [1, 0, 0]])
    with pytest.raises(ValueError, match="True or False for each of"):
        anchor(lattice, [0, 1])
    with pytest.raises(ValueError, match="no node"):
        anchor(lattice, [False, False])
    with pytest.raises(ValueError, match="3 parts"):
        keep_on_line(lattice, [True, False], [1.0, 0.0])


@pytest.mark.parametrize("integrator", list(INTEGRATORS))
def test_drag_reaches_the_terminal_velocity_and_never_turns_a_node_round(integrator):
    """However strong: at first, 5000 N s²/m² would take 2500 times the velocity away in an explicit step."""
    mass, step = 2.0, 1e-2
    lattice = dust([[0, 0, 0]], mass)

    def speeds(drag, gravity, start, samples):
        state = rest_state(lattice, velocity=jnp.array([0.0, 0.0, -start]))
        options = {"step": step, "every": 1, "samples": samples, "integrator": integrator}
        return np.asarray(record(lattice, Environment(gravity=gravity, drag=drag), state, speed_down, **options)[1])

    for drag in (0.5, 5000.0):
        falling = speeds(jnp.float32(drag), jnp.float32(GRAVITY), jnp.float32(0.0), 1000)
        assert falling[-1] == pytest.approx((mass * GRAVITY / drag) ** 0.5, rel=1e-3)
        stopping = speeds(jnp.float32(drag), jnp.float32(0.0), jnp.float32(100.0), 1000)
        assert (np.diff(stopping) < 0).all()
        assert (stopping > 0).all()
        # dv/dt = -drag v²/m for ten seconds
        assert stopping[-1] == pytest.approx(1 / (1 / 100 + 10 * drag / mass), rel=0.02)


def speed_down(lattice, environment, state):
    return -state.velocity[0, 2]


def test_drag_leaves_runge_kutta_its_order():
    lattice = dust([[0, 0, 0]], 1.0)
    exact = float(np.sqrt(GRAVITY / 0.5) * np.tanh(np.sqrt(GRAVITY * 0.5)))
    with jax.enable_x64(True):
        lattice = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype == jnp.float32 else leaf, lattice)
        errors = [
            float(record(lattice, Environment(drag=0.5), rest_state(lattice), speed_down, **options)[1][-1]) - exact
            for options in (
                {"step": 1 / count, "every": count, "samples": 1, "integrator": "rk4"} for count in (20, 40)
            )
        ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.2)


def test_loads_are_shared_and_accelerate():
    lattice = dust([[0, 0, 0], [0, 1, 0], [0, 2, 0]], 2.0)
    load = loads(lattice, [True, True, False], [8.0, 0.0, 0.0])
    end = advance(lattice, Environment(gravity=0.0, load=load), rest_state(lattice), step=1e-2, count=100)
    np.testing.assert_allclose(end.velocity[:, 0], [2, 2, 0], rtol=1e-5)


def along_the_slope(angle: float) -> np.ndarray:
    """Turns what lies level to lie on a slope."""
    return np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])


def sliding(friction: float, angle: float) -> float:
    """Coulomb's acceleration down a slope; nothing moves if friction holds."""
    return max(0.0, GRAVITY * (np.sin(angle) - friction * np.cos(angle)))


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "verlet", "rk4"])
def test_a_node_slides_down_a_slope_if_it_is_steeper_than_friction_holds(integrator):
    """Twenty degrees: tan = 0.364."""
    angle, time, step = np.radians(20), 1.0, 1e-3
    lattice = dust([[0, 0, 0]])
    for friction in (0.0, 0.2, 0.35, 0.38, 0.6):
        environment = Environment(bodies=(slope(3, angle, friction=friction),))
        end = advance(lattice, environment, rest_state(lattice), step=step, count=1000, integrator=integrator)
        moved = np.asarray(end.position[0]) @ along_the_slope(angle) @ [1, 0, 0]
        expected = sliding(friction, angle) * time**2 / 2
        # What is held does not creep at all; what slides is right to within what friction does in one step.
        assert moved == pytest.approx(expected, abs=GRAVITY * step * time if expected else 2e-6)


@pytest.mark.parametrize("friction", [0.0, 0.2, 0.3, 0.42, 0.6])
def test_so_does_a_block(friction):
    angle, step, count = np.radians(20), 5e-4, 1000
    lattice = as_graph(of_pairs((2, 2, 2), 1.0, Stiffness(2e4, 1e4, 5e3), 1.0, damping_time=2e-3))
    start = rest_state(lattice)
    start = replace(start, position=jnp.asarray(np.asarray(start.position) @ along_the_slope(angle).T, jnp.float32))
    environment = Environment(bodies=(slope(3, angle, friction=friction),))
    # The springs give way as the block is let go; it is watched from when they have come to rest.
    settled = advance(lattice, environment, start, step=step, count=count)
    end = advance(lattice, environment, settled, step=step, count=count)

    def down(vectors) -> float:
        return float(np.asarray(vectors).mean(0) @ along_the_slope(angle) @ [1, 0, 0])

    assert down(end.velocity - settled.velocity) == pytest.approx(sliding(friction, angle) * 0.5, rel=0.02, abs=1e-3)
    if not sliding(friction, angle):
        assert np.abs(np.asarray(end.position) - np.asarray(settled.position)).max() < 1e-3


def test_a_ball_stops_nodes_and_they_roll_off():
    lattice = dust([[0.0, 0, 3], [0.3, 0, 3]])
    environment = Environment(bodies=(ball((0, 0, 0), 1.0),))
    for count in (700, 900):
        end = advance(lattice, environment, rest_state(lattice), step=1e-3, count=count)
        assert np.linalg.norm(end.position, axis=-1).min() > 1 - 1e-4
    assert float(end.position[0, 2]) == pytest.approx(1, abs=1e-4)
    assert end.position[1, 0] > 0.6


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_restitution_is_the_speed_kept(restitution):
    lattice = dust([[0, 0, 1]])
    environment = Environment(gravity=0.0, bodies=(plane((0, 0, 0), (0, 0, 2), restitution=restitution),))
    state = rest_state(lattice, velocity=jnp.array([0.0, 0.0, -3.0]))
    end = advance(lattice, environment, state, step=1e-3, count=500)
    assert float(end.velocity[0, 2]) == pytest.approx(3 * restitution, abs=1e-5)


def total_energy(lattice, environment, state):
    return energy(lattice, environment, state).total


@pytest.mark.slow
@pytest.mark.parametrize("integrator", list(INTEGRATORS))
def test_a_node_bounces_as_high_after_many_bounces(integrator):
    """Twenty-six in 24 s. Euler's energy swings by g h v / 2 about what it keeps, 0.3 % here."""
    lattice = dust([[0, 0, 1]])
    environment = Environment(gravity=GRAVITY, bodies=(floor(3, restitution=1.0),))
    for step in (1e-3, 1.37e-3):
        options = {"step": step, "every": 10, "samples": round(2.4 / step), "integrator": integrator}
        _, clamped = record(lattice, environment, rest_state(lattice), total_energy, **options)
        np.testing.assert_allclose(clamped, GRAVITY, rtol=5e-3 if "euler" in integrator else 1e-4)


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_bouncing_block_keeps_its_energy(dimension):
    """Undamped springs: thousands of blows on single nodes, while the springs press them down or lift them."""
    lattice = as_graph(of_pairs((2,) * dimension, 0.1, Stiffness(2000.0, 1000.0, 500.0), 1 / 2**dimension))
    environment = Environment(gravity=GRAVITY, bodies=(floor(dimension, restitution=1.0),))
    start = rest_state(lattice, shift=jnp.eye(dimension)[-1])
    options = {"step": choose_step(lattice) / 8, "every": 100, "samples": 260, "integrator": "verlet"}
    _, clamped = record(lattice, environment, start, total_energy, **options)
    np.testing.assert_allclose(clamped, clamped[0], rtol=0.01)


def test_what_does_not_bounce_does_not_ask_how_it_was_pulled():
    """Bit for bit: with restitution 0 a node is put on the surface and loses its speed into it."""
    random = np.random.default_rng(0)
    position, velocity, pulled = (tuple(jnp.asarray(random.normal(size=(3, 50)), jnp.float32)) for _ in range(3))
    for restitution, same in ((0.0, True), (0.5, False)):
        environment = Environment(bodies=(floor(3, friction=0.5, restitution=restitution),))
        plain, informed = (
            touch(environment, NodeState(position, velocity), jnp.full(50, True), **reported)
            for reported in ({}, {"acceleration": pulled, "lag": 0.1})
        )
        assert all(bool((a == b).all()) for a, b in zip(plain.velocity, informed.velocity, strict=True)) == same
        if same:
            np.testing.assert_array_equal(informed.position[2], np.maximum(position[2], 0))
            assert float(informed.velocity[2][position[2] < 0].min()) >= 0


def test_only_what_came_fast_bounces():
    """A node that is pressed into the floor by a step's own force stays there; so does one that came slowly."""
    environment = Environment(bodies=(floor(3, restitution=1.0),))
    inside = NodeState(tuple(jnp.array([0.0, 0.0, -0.001])[:, None] * jnp.ones(3)), (*jnp.zeros((2, 3)), -jnp.ones(3)))
    came = NodeState((*jnp.zeros((2, 3)), jnp.full(3, 0.001)), (*jnp.zeros((2, 3)), jnp.array([0.0, -0.5, -2.0])))
    for bounce_speed, expected in ((1.0, [0, 0, 1]), (0.0, [0, 1, 1])):
        after = touch(environment, inside, jnp.full(3, True), before=came, bounce_speed=bounce_speed)
        np.testing.assert_allclose(after.velocity[2], expected)
        np.testing.assert_allclose(after.position[2], np.array(expected) * 0.001, atol=1e-7)


@pytest.mark.parametrize("excess", [0.98, 1.02])
def test_a_rod_breaks_only_beyond_its_yield_force(excess):
    """Four springs in a row, the third the weakest; a slow pull, so that the force is the same in all."""
    limit = 10.0
    rod = of_graph(
        np.eye(3)[:1] * np.arange(5)[:, None],
        np.stack([np.arange(4), np.arange(1, 5)], 1),
        stiffness=1000.0,
        mass=0.1,
        damping=80.0,
        anchored=np.arange(5) == 0,
    )
    rod = breakable(rod, [2 * limit, 2 * limit, limit, 2 * limit])
    environment = Environment(gravity=0.0)
    state = rest_state(rod)
    for part in np.linspace(0.05, 1, 20):
        pulling = Environment(gravity=0.0, load=loads(rod, np.arange(5) == 4, [part * excess * limit, 0, 0]))
        state = advance(rod, pulling, state, step=1e-3, count=500)
    assert int(broken_count(rod, state)) == (excess > 1)
    assert np.asarray(broken(rod, state)).tolist() == [False, False, excess > 1, False]
    after = advance(rod, environment, state, step=1e-3, count=1000)
    assert int(broken_count(rod, after)) == (excess > 1)  # it stays broken


def test_a_grid_breaks_too():
    lattice = of_pairs((2, 2), 1.0, Stiffness(2000.0, 1000.0), 1.0)
    lattice = breakable(anchor(lattice, np.array([[False, False], [True, True]])), 20.0)
    state = rest_state(lattice)
    assert int(broken_count(lattice, state)) == 0
    end = advance(lattice, Environment(gravity=100.0), state, step=1e-3, count=200)
    assert int(broken_count(lattice, end)) > 0
    assert float(end.position[0, 0, 1]) < -1


class TestBreakpoints:
    lattice = dust([[0, 0, 10]])

    @staticmethod
    def low(state):
        return state.position[0, 2] < 5

    def test_a_time_is_met_however_rarely_asked(self):
        for check_every in (1, 7, 1000):
            end = advance_until(
                self.lattice, Environment(), rest_state(self.lattice), time=0.5, step=1e-3, check_every=check_every
            )
            assert float(end.time) == pytest.approx(0.5, abs=1e-6)
        same = advance(self.lattice, Environment(), rest_state(self.lattice), step=1e-3, count=500)
        np.testing.assert_allclose(end.position, same.position, rtol=1e-6)

    def test_a_condition_stops_it_first(self):
        fall = (2 * 5 / GRAVITY) ** 0.5
        end = advance_until(self.lattice, Environment(), rest_state(self.lattice), self.low, time=5.0, step=1e-3)
        assert float(end.time) == pytest.approx(fall, abs=3e-3)
        assert isinstance(end.position, jax.Array)
        again = advance_until(self.lattice, Environment(), end, self.low, time=5.0, step=1e-3)
        assert float(again.time) == float(end.time)  # it holds already
        never = advance_until(
            self.lattice, Environment(gravity=0.0), rest_state(self.lattice), self.low, time=1.0, step=1e-3
        )
        assert float(never.time) == pytest.approx(1.0, abs=1e-6)

    def test_a_past_time_does_nothing(self):
        start = rest_state(self.lattice)
        end = advance_until(self.lattice, Environment(), start, time=-1.0, step=1e-3)
        np.testing.assert_array_equal(end.position, start.position)

    def test_every_robot_stops_on_its_own(self):
        gravities = jnp.array([5.0, 10.0, 20.0])
        run = jax.vmap(
            lambda gravity: advance_until(
                self.lattice, Environment(gravity=gravity), rest_state(self.lattice), self.low, time=5.0, step=1e-3
            )
        )
        np.testing.assert_allclose(run(gravities).time, np.sqrt(10 / gravities), atol=3e-3)

    def test_new_times_need_no_new_program(self):
        traced = []

        def low(state):
            traced.append(state.time)
            return self.low(state)

        for time in (0.1, 0.2, 0.3):
            advance_until(self.lattice, Environment(), rest_state(self.lattice), low, time=time, step=2e-3)
        assert 0 < len(traced) < 3  # a loop's condition may be traced twice

    def test_time_does_not_drift_in_many_short_steps(self):
        end = advance(self.lattice, Environment(gravity=0.0), rest_state(self.lattice), step=1e-4, count=100_000)
        assert float(end.time) == pytest.approx(10, abs=2e-6)


WRONG = [
    ({"step": 0.0}, "a step of 0.0 s: it must be above 0 and finite"),
    ({"step": -1e-3}, "a step of -0.001 s"),
    ({"step": float("nan")}, "a step of nan s"),
    ({"step": np.float32("inf")}, "a step of inf s"),
]
HOW_OFTEN = {
    advance: ({"count": -1}, {"count": 2.5}),
    advance_until: ({"check_every": 0}, {"check_every": -3}),
    record: ({"every": -1}, {"every": 1.0}, {"samples": -1}),
}
FINE = {advance: {"count": 1}, advance_until: {"time": 1e-3}, record: {"every": 1, "samples": 1}}


@pytest.mark.parametrize("function", FINE, ids=lambda function: function.__name__)
def test_time_that_does_not_go_on_is_refused(function):
    lattice = dust([[0, 0]])
    reported = [
        ({name: value}, f"{name}={value}: it must be a whole number")
        for some in HOW_OFTEN[function]
        for name, value in some.items()
    ]
    if function is advance_until:
        reported.append(({"time": float("nan")}, "a time of nan s never comes"))
    measure = (energy,) if function is record else ()
    for wrong, words in (*WRONG, *reported):
        with pytest.raises(ValueError, match=re.escape(words)):
            function(lattice, Environment(), rest_state(lattice), *measure, **{"step": 1e-3, **FINE[function], **wrong})


def test_steps_known_only_to_the_device_pass():
    """Nothing waits for what is computed, and nothing looks into what is traced."""
    lattice = dust([[0, 0]])

    def fall(step, every):
        return record(lattice, Environment(), rest_state(lattice), energy, step=step, every=every, samples=2)[0]

    ends = jax.vmap(fall)(jnp.array([1e-3, -1e-3]), jnp.array([2, 3]))
    np.testing.assert_allclose(ends.time, [4e-3, -6e-3], rtol=1e-6)


def test_lattice_and_state_must_agree_on_whether_springs_break():
    lattice = block(2)
    strong = breakable(lattice, 1e6)
    for function, more in FINE.items():
        measure = (energy,) if function is record else ()
        for body, state, words in (
            (lattice, rest_state(strong), "those of the lattice cannot break"),
            (strong, rest_state(lattice), "which are whole"),
        ):
            with pytest.raises(ValueError, match=words):
                function(body, Environment(), state, *measure, step=1e-3, **more)


@pytest.mark.parametrize("dimension", [2, 3])
def test_impacts_of_points_never_add_energy(dimension):
    """Any velocity, friction and restitution: the speed after contact is never greater than before."""
    draw, count = np.random.default_rng(0), 20_000
    normal = draw.normal(size=dimension)
    velocity = tuple(jnp.asarray(part, jnp.float32) for part in draw.normal(0, 3, (dimension, count)))
    position = tuple(jnp.asarray(-1e-3 * part / np.linalg.norm(normal) + 0 * velocity[0]) for part in normal)
    friction, restitution = (jnp.asarray(draw.uniform(0, most, count), jnp.float32) for most in (5, 1))
    around = by_components(Environment(bodies=(plane((0,) * dimension, tuple(normal), friction=1.0),)))
    before = NodeState(position, velocity)
    after = touch(around, before, jnp.ones(count, bool), friction, restitution, before=before)
    squared = [sum(np.asarray(part, float) ** 2 for part in moving.velocity) for moving in (before, after)]
    assert (squared[1] < 0.99 * squared[0]).mean() > 0.4
    assert (squared[1] / squared[0]).max() < 1 + 1e-5

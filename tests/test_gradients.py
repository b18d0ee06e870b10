"""Slopes through the simulator: the differentiable implementation against the reference and finite differences."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vsr
from vsr.compute.gradients import differentiable_trace, inverse_root, root, share_of
from vsr.controllers import Sine
from vsr.episode import begin, reset, rollout
from vsr.experiments.config import ConfigError, parse_scene
from vsr.physics.engine import engine_of
from vsr.scene import Physics, precision
from vsr.terrain import Flat
from vsr.world.spec import World

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KINDS = {"squares": ["aa"], "points": ["aa"], "points in 3-D": [["a"], ["a"]]}


SQUARES = pytest.param("squares", marks=pytest.mark.full)
FLYING = [SQUARES, "points", pytest.param("points in 3-D", marks=pytest.mark.full)]


def built(kind, implementation="differentiable", terrain=None, duration=0.3, kept="float64"):
    """A small robot, driven by sines, and its world."""
    body = vsr.Body(shape=KINDS[kind], engine=kind.split()[0])
    return vsr.Scene(
        robot=vsr.Robot(body=body, controller=Sine(frequency=2.0, phase=0.4)),
        world=World(terrain=terrain),
        physics=Physics(implementation=implementation, precision=kept, time_step=1 / 30),
        task=vsr.Locomotion(duration=duration),
    ).build()


def flight(kind):
    """A function of amplitude, phase and a push [m/s]: how high a robot ends, how long it is and how it has turned.

    It flies freely, oscillates and is driven: nothing is touched.
    """
    scenario, controller = built(kind)
    model = scenario.model
    start = reset(jax.random.key(0), scenario)
    robot = start.world.robots[0]
    there = model.present.reshape(-1)

    def end(numbers):
        amplitude, phase, push = numbers
        driven = replace(controller, amplitude=amplitude * controller.amplitude, phase=phase + controller.phase)
        # A push that also stretches and turns it.
        pushed = replace(robot, velocity=robot.velocity + push * (1 + robot.position**2))
        from_there = begin(scenario, pushed)
        summary = rollout(scenario, driven, from_there)
        return summary.end.sum() + summary.mean_height + summary.mean_squared_control * there.sum()

    return end


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLYING)
def test_slopes_in_free_flight_are_those_of_finite_differences(kind):
    with precision("float64"):
        end = jax.jit(flight(kind))
        at, size = jnp.array([0.7, 0.3, 0.2]), 1e-6
        found = np.asarray(jax.jit(jax.grad(end))(at))
        differences = [float(end(at + size * way) - end(at - size * way)) / (2 * size) for way in np.eye(3)]
    assert np.abs(found).min() > 1e-4
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["squares", "points"])
@pytest.mark.full
def test_an_episode_is_the_same_with_slopes_and_without(kind):
    """To rounding, on the ground; many robots at once, too, one of them in the ground."""
    ends = []
    with precision("float64"):
        for implementation in ("xla", "differentiable"):
            scenario, controller = built(kind, implementation, Flat(), 0.5)
            robot = reset(jax.random.key(0), scenario).world.robots[0]

            def end(lift, scenario=scenario, controller=controller, robot=robot):
                lower = replace(robot, position=robot.position.at[..., -1].add(lift))
                return rollout(scenario, controller, begin(scenario, lower))

            ends.append(jax.jit(jax.vmap(end))(jnp.array([0.0, 0.1, -0.02])))
    plain, differentiable = ends
    assert not plain.failed.any()
    assert np.abs(plain.end - plain.start).max() > 1e-3
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), plain, differentiable)


@pytest.mark.full
def test_slopes_on_the_ground_are_finite_and_right_in_a_short_window():
    """A body lies, slides and is driven: contact, friction and absent cells give numbers, and the right ones."""
    with precision("float64"):
        scenario, controller = built("points", terrain=Flat(), duration=0.2)
        robot = reset(jax.random.key(0), scenario).world.robots[0]
        model = scenario.model

        def traveled(phase):
            moving = replace(robot, velocity=robot.velocity.at[..., 0].add(0.5))
            summary = rollout(scenario, replace(controller, phase=phase), begin(scenario, moving))
            return summary.end[0] - engine_of(model).center(model, robot)[0]

        phase = jnp.full(controller.phase.shape, 0.4)
        found = np.asarray(jax.jit(jax.grad(traveled))(phase))
        work, size = jax.jit(traveled), 1e-6
        differences = [
            float(work(phase.at[0, i].add(size)) - work(phase.at[0, i].add(-size))) / (2 * size) for i in (0, 1)
        ]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], differences, rtol=1e-4, atol=1e-7)


def test_roots_and_shares_have_slopes_where_there_is_nothing():
    number = jnp.float32

    def gradients(function, *at):
        with differentiable_trace():
            value, gradient = jax.value_and_grad(function, tuple(range(len(at))))(*map(number, at))
        assert float(value) == float(function(*map(number, at)))
        return [float(part) for part in gradient]

    assert gradients(root, 0.0) == [0.0]
    assert gradients(root, 4.0) == [0.25]
    assert gradients(inverse_root, 0.0) == [0.0]
    assert gradients(inverse_root, 4.0) == pytest.approx([-1 / 16])
    assert gradients(share_of, 0.0, 0.0) == [0.0, 0.0]
    assert gradients(share_of, 2.0, 0.0) == [0.0, 0.0]
    assert gradients(share_of, 1.0, 2.0) == [0.5, -0.25]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("world: {terrain: sand}", "'differentiable' moves one robot on its ground"),
        (
            "robot: {body: {shape: a, engine: evogym, materials: {a: {actuation: horizontal}}}}",
            "'differentiable' knows no evogym",
        ),
        ("robot: {body: {shape: a, engine: points, materials: {a: {yield_force: 9.0}}}}", "springs break at once"),
    ],
)
def test_what_has_no_slopes_is_refused(changes, reason):
    text = "robot: {body: {shape: a}}\n" if not changes.startswith("robot") else ""
    with pytest.raises(ConfigError, match=f"physics.implementation: .*{reason}"):
        parse_scene(f"{text}{changes}\nphysics: {{implementation: differentiable}}\n")

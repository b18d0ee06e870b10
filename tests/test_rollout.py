"""A whole life: when control is called, what is measured, how failure is told."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.population import repeat, rollout_population, stack
from vsr import (
    MLP,
    Body,
    Development,
    Driving,
    Flat,
    Locomotion,
    Material,
    Physics,
    Placement,
    Robot,
    Scene,
    Sense,
    Sine,
    World,
    simulate,
)
from vsr.environment import Environment
from vsr.episode import Schedule, record, rollout
from vsr.physics.squares.assembly import assemble
from vsr.physics.squares.materials import SquareMaterials
from vsr.tasks import evaluate, place

pytestmark = pytest.mark.usefixtures("quickly_compiled")
BIPED = Body(shape=("aaaa", "a..a"))
SHORT = Schedule(duration=0.5, time_step=1 / 60, control_interval=1, substeps=4)


def scene(**changes):
    fields = {
        "robot": Robot(body=BIPED, controller=Sine(phase=((0.0, 1.0, 2.0, 3.0), (1.0, None, None, -2.0)))),
        "task": Locomotion(duration=0.5),
    }
    return Scene(**{**fields, **changes})


def test_schedule_counts_steps():
    assert Schedule(duration=60.0).steps == 3600
    assert Schedule(duration=60.0, time_step=0.0333).steps == 1802
    assert Schedule(duration=1e-9).steps == 1
    assert Schedule(duration=1.01, time_step=0.5).total_time == 1.5


def test_control_is_called_after_every_interval_and_not_before():
    """The control in force during each recorded interval is the one computed at its start; at first it is zero."""
    model, controller, environment, state = scene().build()
    schedule = replace(SHORT, control_interval=2)
    _, trajectory = jax.jit(record, static_argnames="schedule")(model, controller, environment, state, schedule)
    interval = 3 / 60
    np.testing.assert_allclose(trajectory.time, interval * np.arange(11), atol=1e-6)
    for call in range(11):
        wanted = 0.0 if call < 2 else np.sin(2 * np.pi * (call - 1) * interval + 1.0)
        assert float(trajectory.control[call, 0, 0]) == pytest.approx(wanted, abs=1e-5)


def test_measures_of_a_flying_robot_are_known():
    """No gravity, no damping: it keeps its velocity."""
    body = Body(shape=("aa",), materials={"a": Material(linear_damping=0.0)})
    outcome = simulate(
        Scene(
            robot=Robot(body=body),
            world=World(gravity=0.0),
            task=Locomotion(duration=1.0, placement=Placement(left=50.0, clearance=2.0, velocity=(3.0, 0.5))),
        )
    )
    assert not outcome.failed
    assert outcome.measures["travel_velocity"] == pytest.approx(3.0, abs=1e-3)
    assert outcome.measures["relative_velocity"] == pytest.approx(0.5, abs=1e-3)
    assert outcome.measures["average_height"] == pytest.approx(3.5 + 0.25, abs=0.02)
    assert outcome.measures["average_squared_control"] == 0.0


def test_average_squared_control_counts_clipped_values_of_voxels_only():
    controller = Development(amplitude=0.0, start=2.0, end=2.0)
    assert simulate(scene(robot=Robot(body=BIPED, controller=controller))).measures["average_squared_control"] == 1.0


def test_only_the_asked_measures_are_told():
    asked = Locomotion(duration=0.5, measures=("average_height", "travel_velocity"))
    assert list(simulate(scene(task=asked)).measures) == ["average_height", "travel_velocity"]


def test_the_same_scene_gives_the_same_numbers():
    assert simulate(scene()).measures == simulate(scene()).measures


def test_float64_is_selectable_and_near_float32():
    single, double = (simulate(scene(physics=Physics(precision=p))) for p in ("float32", "float64"))
    assert double.measures["average_height"] == pytest.approx(single.measures["average_height"], abs=1e-3)
    assert double.measures != single.measures
    assert jnp.zeros(1).dtype == jnp.float32


def test_a_state_that_is_not_finite_or_explodes_is_a_failure():
    model, controller, environment, state = scene().build()
    run, schedule = jax.jit(rollout, static_argnames="schedule"), scene().schedule()
    for broken in (
        replace(state, position=state.position.at[0, 0, 0, 0].set(jnp.nan)),
        replace(state, velocity=state.velocity + 1e4),
    ):
        episode = run(model, controller, environment, broken, schedule)
        assert bool(episode.failed)
        assert np.isnan(float(evaluate(episode, ("travel_velocity",))["travel_velocity"]))
    assert not bool(run(model, controller, environment, state, schedule).failed)


TABLE = SquareMaterials.of([Material()])
GROUND = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())


@jax.jit
def live_anybody(cells):
    model = assemble(cells, TABLE, 3.0)
    controller = Sine().build(Body(shape=("aaa", "aaa")))
    state = place(model, GROUND.terrain, Placement())
    return rollout(model, controller, GROUND, state, replace(SHORT, duration=0.8))


@given(arrays(np.int32, (2, 3), elements=st.integers(-1, 0)))
def test_any_body_lives_or_is_told_to_fail(cells):
    """Empty, single, diagonal and disconnected bodies through one compilation."""
    episode = live_anybody(jnp.asarray(cells))
    voxels = int((cells >= 0).sum())
    assert bool(episode.failed) == (voxels == 0)
    assert live_anybody._cache_size() == 1
    if voxels:
        assert bool(jnp.isfinite(episode.end).all())
        assert -0.1 < float(episode.end[1]) < float(episode.start[1]) + 0.5


def test_a_population_equals_its_robots_one_by_one():
    senses = (Sense(quantity="area_ratio", reading="mean"), Sense(quantity="touching"))
    count = MLP(senses=senses, weights=()).weight_count(BIPED)
    random = np.random.default_rng(0)
    specs = [MLP(senses=senses, weights=tuple(random.uniform(-1, 1, count)), driving=Driving()) for _ in range(3)]
    model, _, environment, state = scene().build()
    built = [spec.build(BIPED) for spec in specs]
    many = rollout_population(repeat(model, 3), stack(built), environment, repeat(state, 3), SHORT)
    one = jax.jit(rollout, static_argnames="schedule")
    for i, controller in enumerate(built):
        alone = one(model, controller, environment, state, SHORT)
        np.testing.assert_allclose(many.end[i], alone.end, atol=1e-3)
        np.testing.assert_allclose(many.mean_squared_control[i], alone.mean_squared_control, atol=1e-3)


def test_substeps_that_would_blow_up_are_refused():
    with pytest.raises(ValueError, match="would blow up"):
        scene(physics=Physics(substeps=1))

"""Measures of how robots walk: their rhythm, and when feet touch."""

import jax
import numpy as np
import pytest

from vsr import Body, Locomotion, Robot, Scene, Sine, World, simulate
from vsr.episode import reset, rollout
from vsr.tasks.measures import MEASURES, NEED_GAIT

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def measures(frequency, *, gravity=9.8, amplitude=0.1, terrain="flat"):
    """Of two voxels with an arch between them, all driven alike."""
    body = Body(shape=["aaa", "a.a"], materials={"a": {}})
    scene = Scene(
        robot=Robot(body=body, controller=Sine(frequency=frequency, amplitude=amplitude)),
        world=World(gravity=gravity, terrain=terrain),
        task=Locomotion(duration=8.0, measures=tuple(sorted(NEED_GAIT))),
    )
    return simulate(scene).measures


@pytest.mark.slow
@pytest.mark.parametrize("frequency", [0.8, 1.73])
def test_rhythm_is_that_of_the_drive(frequency):
    assert measures(frequency)["gait_frequency"] == pytest.approx(frequency, abs=0.05)


@pytest.mark.slow
def test_who_does_nothing_has_no_rhythm_and_stands():
    found = measures(1.0, amplitude=0.0)
    assert found["gait_frequency"] == 0
    assert found["contact_time"] > 0.8  # it falls at first
    assert found["rear_duty"] == found["front_duty"] > 0.8
    # The middle column never touches: two of three feet stand.
    assert found["mean_duty"] == pytest.approx(2 / 3 * found["rear_duty"])


@pytest.mark.slow
def test_in_free_space_nothing_touches():
    found = measures(1.0, gravity=0.0, terrain=None)
    assert [found[name] for name in ("contact_time", "rear_duty", "front_duty", "mean_duty")] == [0, 0, 0, 0]


@pytest.mark.slow
def test_an_episode_that_was_not_followed_says_so():

    scene = Scene(robot=Robot(body=Body(shape=["a"], materials={"a": {}})), task=Locomotion(duration=0.1))
    scenario, controller = scene.build()

    episode = rollout(scenario, controller, reset(jax.random.key(0), scenario))
    with pytest.raises(ValueError, match="not followed"):
        MEASURES["gait_frequency"](episode)
    assert np.isfinite(MEASURES["average_height"](episode))

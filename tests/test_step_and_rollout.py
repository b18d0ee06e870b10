"""The same actions through `step` and `finish`, and through `rollout`: every measure is the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr import Scene
from vsr.controllers import decide, first_memory
from vsr.episode import finish, observe, reset, rollout, step
from vsr.tasks.measures import NEED_GAIT

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SINE = {"type": "sine", "amplitude": 0.9, "frequency": 2.0}
CASES = {
    "squares locomotion": ("squares", "aa\na.", {"type": "locomotion", "duration": 0.35}),
    "squares jump": ("squares", "aa", {"type": "jump", "duration": 0.3}),
    "points push": ("points", "aa", {"type": "push", "duration": 0.3}),
    "points 3-D": ("points", ["a", "a"], {"type": "locomotion", "duration": 0.35}),
    # In the air: EvoGym's contact makes 0.02 m/s of rounding in that time.
    "evogym hurdler": ("evogym", "hs\nvh", {"type": "Hurdler-v0", "duration": 0.06}),
}
OFTEN = ("squares locomotion", "points push")


def stepped(scenario, controller, start):
    """The summary of an episode whose actions a loop outside of `rollout` makes."""
    one = jax.jit(step)
    state, action, memory = start, start.action, first_memory(controller)
    for _ in range(scenario.limit):
        state, came = one(scenario, state, action)
        read = observe(scenario, state) if controller.sensors else None
        values, memory = decide(controller, memory, state.world.time, read)
        action = jnp.clip(values, -1, 1) * scenario.model.present
        if scenario.task.needs_every_step and bool(state.ended):
            break
    assert bool(came.truncated) or bool(state.ended)
    return jax.jit(finish)(scenario, start, state, action)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_step_and_rollout_measure_alike(name):
    masses, shape, task = CASES[name]
    robot = {"body": {"shape": shape, "engine": masses}, "controller": SINE}
    scene = Scene.model_validate({"robot": robot, "task": task})
    scenario, controller = scene.build()
    start = jax.jit(reset)(jax.random.key(3), scenario)
    names = tuple(name for name in scene.task.known_measures() if name not in NEED_GAIT)
    by_hand, whole = (
        scene.task.evaluate(summary, names)
        for summary in (stepped(scenario, controller, start), jax.jit(rollout)(scenario, controller, start))
    )
    assert float(whole["average_squared_control"]) > 0.01
    for measure in names:
        # Programs of one step and of a whole episode round differently: a position of 0.2 m by 1.5e-8 m,
        # which over 0.06 s and a body length of 0.2 m is 1.2e-6 body lengths per second.
        np.testing.assert_allclose(by_hand[measure], whole[measure], rtol=2e-5, atol=1e-5, err_msg=measure)

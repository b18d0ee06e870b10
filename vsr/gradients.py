"""Truncated back-propagation through an episode: gradients flow through short windows of it.

Gradients through a whole episode of a walking robot explode: contact makes its motion chaotic (docs/do/learning.md).
So they flow through short windows only; what was before a window is taken as given.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import Array

from vsr.controllers import Controller
from vsr.episode import (
    EpisodeState,
    RolloutCarry,
    Scenario,
    control_step,
    finish,
    init_carry,
    rematerialize,
    summarize,
    with_effort,
)
from vsr.tasks import Summary

Worth = Callable[[Summary], Array]
"""From what is known of an episode, or of a part of it, to a number."""


def rollout_truncated(
    scenario: Scenario, controller: Controller, start: EpisodeState, worth: Worth, length: int, count: int
) -> tuple[Summary, Array]:
    """The summary of an episode, which has no gradients, and what each window was worth, which has them, (count,).

    length: of a window in control calls; count: of windows. Each is at the end of an equal part of the episode. Raises
    ValueError if they do not fit.
    """
    calls = scenario.schedule.calls
    if not 1 <= length * count <= calls:
        raise ValueError(f"{count} windows of {length} control calls do not fit into an episode of {calls}")
    part, fixed = calls // count, jax.lax.stop_gradient(controller)

    def several(controller: Controller, now: RolloutCarry, calls: int) -> RolloutCarry:
        def call(now: RolloutCarry, _: None) -> tuple[RolloutCarry, None]:
            return control_step(scenario, controller, now), None

        return jax.lax.scan(rematerialize(scenario.schedule, call), now, length=calls)[0]

    def counted(now: RolloutCarry) -> EpisodeState:
        return with_effort(scenario, now.state, now.action)

    def window(now: RolloutCarry, _: None) -> tuple[RolloutCarry, Array]:
        first = jax.lax.stop_gradient(several(fixed, now, part - length) if part > length else now)
        last = several(controller, first, length)
        return jax.lax.stop_gradient(last), worth(summarize(scenario, *map(counted, (first, last))))

    now, worths = jax.lax.scan(window, init_carry(scenario, fixed, start), length=count)
    now = several(fixed, now, calls - count * part) if calls > count * part else now
    return jax.tree.map(jax.lax.stop_gradient, finish(scenario, start, now.state, now.action)), worths

"""Truncated back-propagation through an episode: gradients flow through short windows of it.

Slopes through a whole episode of a walking robot explode: contact makes its motion chaotic (docs/learning.md). So they
flow through short windows only; what was before a window is taken as given.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import Array

from vsr.controllers import Controller
from vsr.episode import (
    Decided,
    EpisodeState,
    Scenario,
    decided_next,
    finish,
    remembering_little,
    summarise,
    undecided,
    with_effort,
)
from vsr.tasks import Summary

Worth = Callable[[Summary], Array]
"""From what is known of an episode, or of a part of it, to a number."""


def rollout_truncated(
    scenario: Scenario, controller: Controller, start: EpisodeState, worth: Worth, length: int, count: int
) -> tuple[Summary, Array]:
    """The summary of an episode, which has no slopes, and what each window was worth, which has them, (count,).

    length: of a window in control calls; count: of windows. Each is at the end of an equal part of the episode. Raises
    ValueError if they do not fit.
    """
    calls = scenario.schedule.calls
    if not 1 <= length * count <= calls:
        raise ValueError(f"{count} windows of {length} control calls do not fit into an episode of {calls}")
    part, fixed = calls // count, jax.lax.stop_gradient(controller)

    def several(controller: Controller, now: Decided, calls: int) -> Decided:
        def call(now: Decided, _: None) -> tuple[Decided, None]:
            return decided_next(scenario, controller, now), None

        return jax.lax.scan(remembering_little(scenario.schedule, call), now, length=calls)[0]

    def counted(now: Decided) -> EpisodeState:
        return with_effort(scenario, now.state, now.action)

    def window(now: Decided, _: None) -> tuple[Decided, Array]:
        first = jax.lax.stop_gradient(several(fixed, now, part - length) if part > length else now)
        last = several(controller, first, length)
        return jax.lax.stop_gradient(last), worth(summarise(scenario, *map(counted, (first, last))))

    now, worths = jax.lax.scan(window, undecided(scenario, fixed, start), length=count)
    now = several(fixed, now, calls - count * part) if calls > count * part else now
    return jax.tree.map(jax.lax.stop_gradient, finish(scenario, start, now.state, now.action)), worths

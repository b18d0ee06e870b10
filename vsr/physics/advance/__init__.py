"""`advance`: many substeps under one actuation. The seam between what is fast and what is flexible.

There are two implementations of one contract, and one set of tests for both: `xla` is plain JAX, runs everywhere and is
the reference; `fused` is one GPU kernel that keeps a robot on chip through all substeps and all intervals.
`interpreted` is the fused kernel run step by step without a GPU, for tests.
"""

from __future__ import annotations

from functools import partial

from jax import Array

from vsr.physics.advance.choice import Implementation, chosen
from vsr.physics.advance.watch import Watch
from vsr.physics.model import Environment, Model, State

__all__ = ["Implementation", "Watch", "advance", "advance_through", "chosen"]


def advance(
    model: Model,
    environment: Environment,
    state: State,
    control: Array,
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> State:
    """The state `count` substeps later.

    control: one value per voxel, clipped to [-1, 1], (rows, columns); substep: [s].
    """
    return advance_through(
        model, environment, state, control[None], substep=substep, count=count, implementation=implementation
    )[0]


def advance_through(
    model: Model,
    environment: Environment,
    state: State,
    controls: Array,
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> tuple[State, Watch]:
    """The state after several intervals of `count` substeps each, and what was seen at their ends.

    controls: one value per interval and voxel, clipped to [-1, 1], (intervals, rows, columns); substep: [s].
    """
    name = chosen(implementation, state.position.dtype)
    if name == "xla":
        from vsr.physics.advance.xla import advance_through as work
    else:
        from vsr.physics.advance.fused import advance_through as fused

        work = partial(fused, interpret=name == "interpreted")
    return work(model, environment, state, controls, float(substep), int(count))

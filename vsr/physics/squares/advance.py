"""`advance`: many substeps under one actuation. The seam between what is fast and what is flexible.

Implementations of one contract, and one set of tests for all: `xla` is plain JAX, runs everywhere and is the
reference; `fused` is one GPU kernel that keeps a robot on chip through all substeps and all intervals;
`differentiable` is the reference without whatever has no gradients. `interpreted` is the fused kernel run step by step
without a GPU, for tests.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from jax import Array

from vsr.compute.implementation import KERNELS, Implementation, chosen
from vsr.environment.model import Environment, as_exact
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.telemetry import Telemetry


def advance(
    model: SquareModel,
    environment: Environment,
    state: SquareState,
    control: Array,
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> SquareState:
    """The state `count` substeps later.

    control: one value per voxel, clipped to [-1, 1], (rows, columns); substep: [s].
    """
    return advance_through(
        model, environment, state, control[None], substep=substep, count=count, implementation=implementation
    )[0]


def prepared(
    model: SquareModel, environment: Environment, substep: float, implementation: Implementation = "auto"
) -> SquareModel:
    """See vsr.physics.contract.KernelLayout.prepared."""
    dtype = model.mass.dtype
    if chosen(implementation, dtype) not in KERNELS:
        return model
    from vsr.physics.squares.gpu.numbers import fused_numbers

    return replace(model, fused=fused_numbers(model, as_exact(environment, dtype), float(substep)))


def advance_through(
    model: SquareModel,
    environment: Environment,
    state: SquareState,
    controls: Array,
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> tuple[SquareState, Telemetry]:
    """See vsr.physics.contract.Engine.advance; controls: (intervals, rows, columns)."""
    environment = as_exact(environment, state.position.dtype)
    name = chosen(implementation, state.position.dtype)
    if name not in KERNELS:
        from vsr.physics.squares.reference import advance_through as plain

        work = partial(plain, differentiable=name == "differentiable")
    else:
        from vsr.physics.squares.gpu.launch import advance_through as fused

        work = partial(fused, interpret=name == "interpreted")
    return work(model, environment, state, controls, float(substep), int(count))

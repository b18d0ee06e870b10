"""Many substeps of a body of point masses: which implementation runs, and the loop over control intervals.

`xla` is plain JAX (vsr.physics.points.reference), and `differentiable` the same with gradients; `fused` is a GPU
kernel for all substeps of a control interval (vsr.physics.points.kernel), and `interpreted` the same without a GPU, for
tests.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import KERNELS, Implementation, chosen
from vsr.environment.model import Environment, as_exact
from vsr.lattice.integrators import FORCE_EVALUATION_OFFSET
from vsr.physics.points.geometry import telemetry
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.reference import batched_advance, plain_advance, step_inputs, target_side
from vsr.physics.telemetry import Telemetry, through_intervals


def advance_through(
    model: PointModel,
    environment: Environment,
    state: PointState,
    controls: Array,
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> tuple[PointState, Telemetry]:
    """See vsr.physics.contract.Engine.advance."""
    environment = as_exact(environment, model.mass.dtype)
    obstacle = beyond_kernel(model.integrator, model.yield_force is not None)
    advance = _implementation(chosen(implementation, model.mass.dtype, obstacle), model, substep, count)

    def interval(state: PointState, control: Array) -> tuple[PointState, Telemetry]:
        state = advance(model, environment, state, control)
        return state, telemetry(model, state, substep)

    return through_intervals(interval, state, controls)


def beyond_kernel(integrator: str, breaks: bool) -> str | None:
    """Why the kernel cannot move a body, if so; breaks: whether springs can."""
    if integrator not in FORCE_EVALUATION_OFFSET:
        known = ", ".join(FORCE_EVALUATION_OFFSET)
        return f"the kernel knows the integrators {known}, and {integrator} was asked for"
    if breaks:
        return "springs do not break in the kernel, and a material has a yield_force"
    return None


def _implementation(name: Implementation, model: PointModel, substep: float, count: int) -> Callable[..., PointState]:
    if name not in KERNELS:
        return plain_advance(substep, count) if name == "differentiable" else batched_advance(substep, count)
    from vsr.physics.points import kernel

    joints = kernel.joints_of(model)

    def advance(model: PointModel, environment: Environment, state: PointState, control: Array) -> PointState:
        control = jnp.clip(control, -1, 1)
        side, inputs = target_side(model, control), step_inputs(model, environment, substep)
        interpret = name == "interpreted"
        return kernel.advance(model, joints, inputs, state, control, side, substep, count, interpret=interpret)

    return advance

"""One voxel: its area ratio against the original's.

The original's step of 1/60 s is a quarter of the period in which a default voxel breathes (14 Hz), and its implicit
springs damp that motion much too strongly: for three steps after a jump of the control its own scheme is off by 0.07,
as running it with smaller steps shows (docs/physics.md). So the figure to judge by, `worst_area_ratio_error`, compares
means over a quarter of a second; `worst_instant_error` has the raw difference at single steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.body import Body
from vsr.controllers import Reflexive
from vsr.episode import begin, record, scenario_of
from vsr.experiments.validate.original import control_of_note, material_of
from vsr.physics.engine import assemble_body
from vsr.physics.squares.geometry import area_ratio, mass_motion
from vsr.physics.squares.stability import longest_substep
from vsr.physics.substeps import choose_substeps
from vsr.terrain import Flat
from vsr.world.placement import Placement, place
from vsr.world.schedule import Schedule
from vsr.world.spec import World

WINDOW = 0.25
"""Area ratios are averaged over this time [s] before they are compared; see the module's text."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Held:
    """A controller called every step whose value changes only at the original's calls, and is 0 before the first."""

    inner: Reflexive
    interval: jax.Array
    """between two of the original's calls [s]"""
    first_call: jax.Array
    """time of the first call that has an effect [s]"""
    senses: tuple = field(default=(), metadata={"static": True})

    def control(self, time, readings):
        last_call = jnp.floor(time / self.interval + 1e-3) * self.interval
        return jnp.where(last_call >= self.first_call - 1e-3, self.inner.control(last_call, readings), 0)


def validate_single(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """Largest difference of area ratio over all steps, and its root mean square."""
    material = material_of(case["material"])
    body = Body(shape=("a",), materials={"a": material}, voxel_side=case["material"]["sideLength"])
    path = np.array(case["trajectory_every_step"])
    dt = case["dt"]
    calls_every = case["controlStepInterval_c"] + 1
    # One call per step, so that every step is recorded; the control is held between the original's calls.
    schedule = Schedule(
        duration=len(path) * dt,
        time_step=dt,
        control_interval=0,
        substeps=choose_substeps(longest_substep(material), dt),
    )
    spec, start = control_of_note(case["note"])
    first_call = first_effective_call(start, dt, calls_every)
    controller = Held(
        spec.build(body),  # pyright: ignore[reportArgumentType]
        jnp.float32(calls_every * dt),
        jnp.float32(first_call),
    )
    world = World(gravity=abs(case["gravity"]), terrain=Flat() if case["flat_ground_y0"] else None)
    environment = world.build()
    model = assemble_body(body)
    center_x, center_y = case["initial_center"]
    half = body.voxel_side / 2
    state = _place(model, None, Placement(left=center_x - half, clearance=center_y - half))
    ours = np.asarray(_areas(model, controller, environment, state, schedule))[1 : len(path) + 1]
    error = ours - path[:, 3]
    window = max(1, round(WINDOW / dt))
    mean_error = np.convolve(error, np.full(window, 1 / window), "valid")
    return {
        "name": name,
        "worst_area_ratio_error": float(np.abs(mean_error).max()),
        "worst_instant_error": float(np.abs(error).max()),
        "rms_instant_error": float(np.sqrt((error**2).mean())),
        "final_area_ratio": float(ours[-1]),
        "original_final_area_ratio": float(path[-1, 3]),
    }


def first_effective_call(start: float, time_step: float, steps_per_call: int) -> float:
    """Time of the original's first call at or after `start` [s].

    The original adds up its time step by step, and its round-off decides: 120 steps of 1/60 s fall just short of 2 s.
    """
    time, step = 0.0, 0
    while True:
        time += time_step
        step += 1
        if step % steps_per_call == 0 and time >= start:
            return step * time_step


@partial(jax.jit, static_argnames="schedule")
def _areas(model, controller, environment, state, schedule):
    scenario = scenario_of(model, environment, schedule)
    _, trajectory = record(scenario, controller, begin(scenario, state))
    return jax.vmap(lambda moment: area_ratio(model, mass_motion(model, moment))[0, 0])(trajectory.state)


_place = partial(jax.jit, static_argnames="placement")(place)

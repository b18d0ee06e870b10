"""A beam of voxels held by a wall: tip displacement at rest under a load, and over time after a blow.

The original integrates an outer force before it applies the damping factor, so that a force F acts as F (1 - dt d) there
(29.5 N for 30 N at 1/60 s); each comparison loads our beam with the force that acted in the data it is compared with.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.population import stack
from experiments.validation.original import material_of, scaffolding_of
from vsr.body import Body, Material, assemble_body
from vsr.physics.advance import advance
from vsr.physics.exchange import clusters_of_masses
from vsr.physics.geometry import mass_motion, rest_state
from vsr.physics.model import Environment, Model, State
from vsr.physics.stability import choose_substeps

TIME_STEP = 1 / 60


def material_of_case(case: dict[str, Any]) -> Material:
    """The beam's one material."""
    return material_of(
        case.get("material", {}),
        spring_frequency=case["springF"],
        scaffolding=scaffolding_of(case["scaffolding"]),
        **({"mass": case["mass_kg"]} if "mass_kg" in case else {}),
    )


def tip_paths(cases: list[dict[str, Any]], steps: int, loaded_steps: int, load_factor: float) -> np.ndarray:
    """Tip displacement of each beam after every step of 1/60 s [m], (cases, steps); equal grids run as one batch."""
    paths = np.zeros((len(cases), steps))
    batches: dict[tuple[int, int, int], list[int]] = {}
    for i, case in enumerate(cases):
        substeps = choose_substeps([material_of_case(case)], TIME_STEP)
        batches.setdefault((case["w"], case["h"], substeps), []).append(i)
    for (width, height, substeps), members in batches.items():
        models = stack([_beam(width, height, material_of_case(cases[i])) for i in members])
        force = jnp.asarray([cases[i]["force_N"] * load_factor for i in members], jnp.float32)
        paths[members] = np.asarray(_bend(models, force, steps, loaded_steps, substeps))
    return paths


def _beam(width: int, height: int, material: Material) -> Model:
    held = np.zeros((4, height, width), bool)
    held[[0, 3], :, 0] = True
    return assemble_body(Body(shape=("a" * width,) * height, materials={"a": material}), anchored=held)


@partial(jax.jit, static_argnames=("steps", "loaded_steps", "substeps"))
def _bend(models: Model, force: jax.Array, steps: int, loaded_steps: int, substeps: int) -> jax.Array:
    def bend(model: Model, force: jax.Array) -> jax.Array:
        rows = model.present.shape[0]
        share = jnp.zeros((4, *model.present.shape)).at[1:3, :, -1].set(1 / (2 * rows))
        downward = -force * clusters_of_masses(share, model.in_second_layer, model.cluster_mass.shape[0])
        load = jnp.stack([jnp.zeros_like(downward), downward], -1)
        passive = jnp.zeros_like(model.present)

        def tip(state: State) -> jax.Array:
            return mass_motion(model, state).center[:, :, -1, 1].mean()

        def step(state: State, index: jax.Array):
            now = Environment(gravity=jnp.zeros(()), load=jnp.where(index < loaded_steps, load, 0))
            state = advance(model, now, state, passive, substep=TIME_STEP / substeps, count=substeps)
            return state, tip(state)

        start = rest_state(model)
        return jax.lax.scan(step, start, jnp.arange(steps))[1] - tip(start)

    return jax.vmap(bend)(models, force)


def load_factor(case: dict[str, Any], time_step: float) -> float:
    """Share of an outer force that acts in the original."""
    return 1 - time_step * material_of_case(case).linear_damping


def validate_static(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Final tip displacements."""
    results = []
    for case, path in zip(cases, _static_paths(cases), strict=True):
        ours, original = float(path[-1]), case["final_dy_mean_rightmost_voxels"]
        results.append(
            {
                "name": _name(case),
                "displacement_m": ours,
                "original_displacement_m": original,
                "relative_error": abs(ours / original - 1),
            }
        )
    return results


def _static_paths(cases: list[dict[str, Any]]) -> np.ndarray:
    steps = {round(case.get("finalT", 60.0) / TIME_STEP) for case in cases}
    factors = {round(load_factor(case, case.get("dt", TIME_STEP)), 12) for case in cases}
    if len(steps) == len(factors) == 1:
        return tip_paths(cases, steps.pop(), 10**9, factors.pop())
    return np.array([_static_paths([case])[0][-1:] for case in cases])


def validate_dynamic_plain(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Distance from the original's run at 1/60 s, which carries that run's own discretisation error."""
    return [
        {
            "name": _name(case),
            "rms_to_original": _rms(path - np.array(case["dy_mean_rightmost_every_step"])),
            "peak_m": float(path.min()),
            "original_peak_m": min(case["dy_mean_rightmost_every_step"]),
            "path_m": [round(float(value), 6) for value in path],
        }
        for case, path in zip(cases, validate_dynamic(cases, TIME_STEP), strict=True)
    ]


def validate_dynamic(cases: list[dict[str, Any]], time_step: float) -> np.ndarray:
    """Paths after a blow, for data made at the given time step."""
    key = "dy_mean_rightmost_at_60Hz" if "dy_mean_rightmost_at_60Hz" in cases[0] else "dy_mean_rightmost_every_step"
    steps = len(cases[0][key])
    # The original re-applies the force while t <= duration: 7 steps for the paper's 0.1 s.
    loaded = cases[0].get("steps_with_force", round(cases[0]["force_duration_s"] / TIME_STEP))
    return tip_paths(cases, steps, loaded, load_factor(cases[0], time_step))


def validate_dynamic_fine(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Distance from the original's refined run, beside that of the original's own run at 1/60 s."""
    pairs: dict[str, dict[str, dict[str, Any]]] = {}
    for case in cases:
        pairs.setdefault(_name(case), {})[case["dt"]] = case
    results = []
    for name, by_step in pairs.items():
        coarse = by_step.get("1/60")
        fine_step, fine = min(((_seconds(dt), case) for dt, case in by_step.items()), key=lambda item: item[0])
        if coarse is None or fine is coarse:
            continue
        target = np.array(fine["dy_mean_rightmost_at_60Hz"])
        ours = validate_dynamic([fine], fine_step)[0]
        results.append(
            {
                "name": name,
                "rms_to_fine": _rms(ours - target),
                "original_rms_to_fine": _rms(np.array(coarse["dy_mean_rightmost_at_60Hz"]) - target),
                "path_m": [round(float(value), 6) for value in ours],
            }
        )
    return results


def _name(case: dict[str, Any]) -> str:
    return f"{case['w']}x{case['h']} {case['springF']:g} Hz {case['scaffolding']}"


def _seconds(text: str | float) -> float:
    if isinstance(text, str) and "/" in text:
        over, under = text.split("/")
        return float(over) / float(under)
    return float(text)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))

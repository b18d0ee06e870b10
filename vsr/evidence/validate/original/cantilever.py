"""A beam of voxels clamped to a wall: tip displacement at rest under a load, and over time after a blow.

The original integrates an outer force before it applies the damping factor, so that a force F acts as F (1 - dt d)
there (29.5 N for 30 N at 1/60 s); each comparison loads our beam with the force that acted in the data it is compared
with.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vsr.environment import Environment
from vsr.evidence.validate.original.files import material_of, scaffolding_of
from vsr.experiments.population import stack
from vsr.physics.engine import assemble_body
from vsr.physics.squares.advance import advance
from vsr.physics.squares.geometry import clusters_of_masses, mass_motion, rest_state
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.stability import longest_substep
from vsr.physics.substeps import choose_substeps
from vsr.robot import Body, Material

TIME_STEP = 1 / 60


def material_of_case(case: dict[str, Any]) -> Material:
    """The beam's one material."""
    return material_of(
        case.get("material", {}),
        spring_frequency=case["springF"],
        scaffolding=scaffolding_of(case["scaffolding"]),
        **({"mass": case["mass_kg"]} if "mass_kg" in case else {}),
    )


class Bend(NamedTuple):
    """One beam's loading."""

    case: dict[str, Any]
    steps: int
    """of 1/60 s"""
    loaded_steps: int
    """how many of them the force acts"""
    force: float
    """at the tip, downwards [N]"""


def tip_paths(bends: list[Bend]) -> list[np.ndarray]:
    """Tip displacement of each beam after every step [m]; what is equally long and large runs as one batch."""
    paths: dict[int, np.ndarray] = {}
    batches: dict[tuple[int, ...], list[int]] = {}
    for i, bend in enumerate(bends):
        substeps = choose_substeps(longest_substep(material_of_case(bend.case)), TIME_STEP)
        key = bend.case["w"], bend.case["h"], bend.steps, bend.loaded_steps, substeps
        batches.setdefault(key, []).append(i)
    for (_, _, steps, loaded_steps, substeps), members in batches.items():
        models = stack([_beam(bends[i].case) for i in members])
        force = jnp.asarray([bends[i].force for i in members], jnp.float32)
        paths.update(zip(members, np.asarray(_bend(models, force, steps, loaded_steps, substeps)), strict=True))
    return [paths[i] for i in range(len(bends))]


def _beam(case: dict[str, Any]) -> SquareModel:
    width, height = case["w"], case["h"]
    held = np.zeros((4, height, width), bool)
    held[[0, 2], :, 0] = True
    side = case.get("material", {}).get("sideLength", 3.0)
    body = Body(shape=("a" * width,) * height, materials={"a": material_of_case(case)}, voxel_side=side)
    return assemble_body(body, anchored=held)


@partial(jax.jit, static_argnames=("steps", "loaded_steps", "substeps"))
def _bend(models: SquareModel, force: jax.Array, steps: int, loaded_steps: int, substeps: int) -> jax.Array:
    def bend(model: SquareModel, force: jax.Array) -> jax.Array:
        rows = model.present.shape[0]
        share = jnp.zeros((4, *model.present.shape)).at[1:3, :, -1].set(1 / (2 * rows))
        downward = -force * clusters_of_masses(share, model.in_second_layer, model.cluster_mass.shape[0])
        load = jnp.stack([jnp.zeros_like(downward), downward], -1)
        passive = jnp.zeros_like(model.present)

        def tip(state: SquareState) -> jax.Array:
            return mass_motion(model, state).center[:, :, -1, 1].mean()

        def step(state: SquareState, index: jax.Array):
            now = Environment(gravity=jnp.zeros(()), load=jnp.where(index < loaded_steps, load, 0))
            state = advance(model, now, state, passive, substep=TIME_STEP / substeps, count=substeps)
            return state, tip(state)

        start = rest_state(model)
        return jax.lax.scan(step, start, jnp.arange(steps))[1] - tip(start)

    return jax.vmap(bend)(models, force)


def acting_force(case: dict[str, Any], time_step: float) -> float:
    """The part of the outer force that acts in the original [N]."""
    return case["force_N"] * (1 - time_step * material_of_case(case).linear_damping)


def validate_static(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Final tip displacements."""
    bends = []
    for case in cases:
        steps = round(case.get("finalT", 60.0) / TIME_STEP)
        bends.append(Bend(case, steps, steps, acting_force(case, _seconds(case.get("dt", TIME_STEP)))))
    results = []
    for case, path in zip(cases, tip_paths(bends), strict=True):
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


def _blow(case: dict[str, Any], steps: int, time_step: float) -> Bend:
    """A beam that is hit, for data made with a time step [s].

    The original re-applies the force while t <= duration: 7 steps of 1/60 s for the paper's 0.1 s.
    """
    loaded = case.get("steps_with_force") or round(case["force_duration_s"] / TIME_STEP)
    return Bend(case, steps, int(loaded), acting_force(case, time_step))


def validate_dynamic(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Distance from the original's run at 1/60 s, which carries that run's own discretization error."""
    key = "dy_mean_rightmost_every_step"
    paths = tip_paths([_blow(case, len(case[key]), TIME_STEP) for case in cases])
    return [
        {
            "name": _name(case),
            "rms_to_original": _rms(path - np.array(case[key])),
            "peak_m": float(path.min()),
            "original_peak_m": min(case[key]),
            "path_m": [round(float(value), 6) for value in path],
        }
        for case, path in zip(cases, paths, strict=True)
    ]


def validate_dynamic_fine(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Distance from the original's refined run, beside that of the original's own coarse run."""
    key = "dy_mean_rightmost_at_60Hz"
    runs: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for case in cases:
        runs.setdefault(f"{_name(case)} {case['force_N']:g} N", []).append((_seconds(case["dt"]), case))
    pairs = []
    for name, found in runs.items():
        (fine_step, fine), *_, (coarse_step, coarse) = sorted([*found, found[0]], key=lambda run: run[0])
        if fine_step < coarse_step:
            pairs.append((name, fine_step, fine, coarse))
    paths = tip_paths([_blow(fine, len(fine[key]), step) for _, step, fine, _ in pairs])
    return [
        {
            "name": name,
            "rms_to_fine": _rms(path - np.array(fine[key])),
            "original_rms_to_fine": _rms(np.array(coarse[key]) - np.array(fine[key])),
            "path_m": [round(float(value), 6) for value in path],
        }
        for (name, _, fine, coarse), path in zip(pairs, paths, strict=True)
    ]


def _name(case: dict[str, Any]) -> str:
    return f"{case['w']}x{case['h']} {case['springF']:g} Hz {case['scaffolding']}"


def _seconds(text: str | float) -> float:
    if isinstance(text, str) and "/" in text:
        over, under = text.split("/")
        return float(over) / float(under)
    return float(text)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))

"""Robots against the original's: one voxel, landings, locomotion ensembles and populations.

One voxel: its area ratio. The original's step of 1/60 s is a quarter of the period in which a default voxel breathes
(14 Hz), and its implicit springs damp that motion much too strongly: for three steps after a jump of the control its
own scheme is off by 0.07, as running it with smaller steps shows (docs/understand/physics.md). So the judged metric,
`worst_area_ratio_error`, compares means over a quarter of a second; `worst_instant_error` has the raw difference at
single steps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.stats import rankdata

from vsr.controllers import ControllerSpec, Reflexive
from vsr.environment import Environment
from vsr.environment.model import Sticking
from vsr.episode import begin, record, scenario_of
from vsr.evidence.validate.original.files import (
    body_of,
    control_of_note,
    controller_of,
    material_of,
    placed_low_left,
    terrain_of,
)
from vsr.experiments.population import repeat, rollout_population, stack
from vsr.physics.engine import assemble_body
from vsr.physics.squares.geometry import area_ratio, bounding_box, center, mass_motion, rest_state
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.physics.squares.stability import longest_substep
from vsr.physics.substeps import choose_substeps
from vsr.robot import Body
from vsr.tasks import Summary
from vsr.tasks.measures import travel_velocity
from vsr.terrain import Flat
from vsr.world.placement import Placement, move_rigidly, place
from vsr.world.schedule import Schedule
from vsr.world.spec import World

ENSEMBLE_SPACING = 1e-4
"""Start heights of an ensemble differ by this [m], as in the data."""
ENSEMBLE_SIZE = 16
POPULATION_TRIALS = {"cpu": 3}
"""Trials of every robot of a population, by device; on others 12."""
POPULATION_SPACING = 1e-5
"""Start heights of a population's runs differ by this [m]."""


class Case:
    """An input block of the original, built once."""

    def __init__(self, case: dict[str, Any], sticking: Sticking = "resting"):
        self.body: Body = body_of(case)
        self.model: SquareModel = assemble_body(self.body)
        terrain = terrain_of(case).build()
        self.environment = Environment(gravity=jnp.float32(9.8), terrain=terrain, sticking=sticking)
        self.schedule = Schedule(
            duration=case["finalT"],
            time_step=case["dt"],
            control_every=case["controlStepInterval_c"] + 1,
            substeps=choose_substeps(min(map(longest_substep, self.body.materials.values())), case["dt"]),
        )

    def run(self, controllers: list[ControllerSpec], states: list[SquareState]) -> Summary:
        """One batch: one episode for each controller and state."""
        built = stack([controller.build(self.body) for controller in controllers])
        return rollout_population(
            repeat(self.model, len(states)), built, self.environment, stack(states), self.schedule
        )

    def at(self, left: float, bottom: float) -> SquareState:
        """The upright body with its box's lower left corner there [m]."""
        return _upright(self.model, jnp.asarray([left, bottom]))


@jax.jit
def _upright(model: SquareModel, corner: Array) -> SquareState:
    """At rest, its box's lower left corner there [m], (2,)."""
    low, _ = bounding_box(model, mass_motion(model, rest_state(model)))
    return move_rigidly(model, rest_state(model), shift=corner - low)


@jax.jit
def _thrown(model: SquareModel, tilt: Array, middle: Array, velocity: Array) -> SquareState:
    """Tilted [rad], its center there [m], moving [m/s]; each (2,) but the tilt."""
    tilted = move_rigidly(model, rest_state(model), tilt=tilt)
    now = center(model, mass_motion(model, tilted))
    return move_rigidly(model, tilted, shift=middle - now, velocity=velocity)


def validate_landing(name: str, data: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Height of the center at the end of a landing; at rest only for a passive robot."""
    case = Case(data["input"], memory.sticking)
    path = np.array(data["com_every_step_[t,x,y]"])
    tilt, velocity = jnp.float32(np.radians(data["tilt_deg"])), jnp.asarray([data["vx"], 0.0], jnp.float32)
    start = _thrown(case.model, tilt, jnp.asarray(path[0, 1:], jnp.float32), velocity)
    episode = case.run([controller_of(data["input"])], [start])
    return {
        "name": name,
        "passive": isinstance(data["input"]["controller"], str),
        "final_height_m": float(episode.end[0, 1]),
        "original_final_height_m": float(path[-1, 2]),
        "height_error_m": abs(float(episode.end[0, 1]) - float(path[-1, 2])),
        "x_error_m": abs(float(episode.end[0, 0]) - float(path[-1, 1])),
    }


class Memory:
    """Results of inputs already run: the data holds the same inputs with and without continuous detection.

    sticking: which corners may stick, for all of them.
    """

    def __init__(self, sticking: Sticking = "resting"):
        self.sticking: Sticking = sticking
        self._known: dict[str, np.ndarray] = {}

    def velocities(self, key: Any, compute) -> np.ndarray:
        text = json.dumps(key, sort_keys=True)
        if text not in self._known:
            self._known[text] = np.asarray(compute())
        return self._known[text]


def _same_input(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key not in ("name", "note", "continuousDetectionMode")}


def validate_locomotion(
    name: str, data: dict[str, Any], ensemble: dict[str, Any] | None, memory: Memory
) -> dict[str, Any] | None:
    """Mean travel velocity of an ensemble of trials beside the original's mean and spread."""
    original = _original_spread(data, ensemble)
    if original is None:
        return None

    def compute() -> np.ndarray:
        case = Case(data["input"], memory.sticking)
        left, bottom = placed_low_left(data["input"])
        starts = [case.at(left, bottom + ENSEMBLE_SPACING * k) for k in range(1, ENSEMBLE_SIZE + 1)]
        episode = case.run([controller_of(data["input"])] * ENSEMBLE_SIZE, starts)
        return travel_velocities(episode)

    ours = memory.velocities(_same_input(data["input"]), compute)
    mean, deviation, count = original
    return {
        "name": name,
        "mean_m_per_s": float(np.nanmean(ours)),
        "sd_m_per_s": float(np.nanstd(ours, ddof=1)),
        "failed": int(np.isnan(ours).sum()),
        "original_mean_m_per_s": mean,
        "original_sd_m_per_s": deviation,
        "original_runs": count,
        "within_3_sd_or_0.05": bool(abs(float(np.nanmean(ours)) - mean) <= max(3 * deviation, 0.05)),
    }


def _original_spread(data: dict[str, Any], ensemble: dict[str, Any] | None) -> tuple[float, float, int] | None:
    if ensemble is not None:
        return ensemble["mean"], ensemble["sd"], len(ensemble["v"])
    runs = next((value for key, value in data.items() if key.startswith("travel_x_velocity_with_initial_dy")), None)
    if not runs:
        return None
    return (
        data.get("perturbed_mean", float(np.mean(runs))),
        data.get("perturbed_sd", float(np.std(runs, ddof=1))),
        len(runs),
    )


def validate_population(name: str, data: dict[str, Any], memory: Memory) -> dict[str, Any]:
    """Rank and linear correlation of travel velocities over a population, all of it one batch.

    Sixty seconds of walking are chaotic: two runs of the same population whose initial conditions differ by less than a
    hair give rank correlations that differ by 0.03. So all robots run in a few trials, each trial is correlated on its
    own, and the means and extremes of these correlations are reported."""
    template = data["template_input_for_first_individual"]
    individuals = data["individuals"]
    trials = POPULATION_TRIALS.get(jax.default_backend(), 12)

    def compute() -> np.ndarray:
        case = Case(template, memory.sticking)
        controllers = [controller_of(_with_genes(template, individual)) for individual in individuals]
        left, bottom = placed_low_left(template)
        starts = [case.at(left, bottom + POPULATION_SPACING * k) for k in range(trials)]
        states = [start for start in starts for _ in controllers]
        return travel_velocities(case.run(controllers * trials, states))

    genes = [individual.get("phases_rowmajor_filled_cells", individual.get("weights")) for individual in individuals]
    ours = memory.velocities([_same_input(template), genes], compute).reshape(trials, -1)
    result = {"name": name, "n": len(individuals), "trials": trials, "failed": int(np.isnan(ours).sum())}
    for key, suffix in (("travel_x_velocity", ""), ("travel_x_velocity_fine", "_fine")):
        if all(key in individual for individual in individuals):
            theirs = np.array([individual[key] for individual in individuals])
            for kind, rank in (("spearman", ranks), ("pearson", lambda values: values)):
                found = [correlation(rank(run), rank(theirs)) for run in ours]
                result[f"{kind}{suffix}"] = float(np.mean(found))
                result[f"{kind}{suffix}_range"] = [min(found), max(found)]
    return result


def _with_genes(template: dict[str, Any], individual: dict[str, Any]) -> dict[str, Any]:
    controller = dict(template["controller"])
    if "weights" in individual:
        controller["weights_flat"] = individual["weights"]
    else:
        genes = iter(individual["phases_rowmajor_filled_cells"])
        cells = template["body_rows_bottom_first"]
        controller["phase_rows_bottom_first"] = [[next(genes) if cell >= 0 else 0.0 for cell in row] for row in cells]
    return {**template, "controller": controller}


def travel_velocities(episode: Summary) -> np.ndarray:
    """Per robot [m/s], not a number where it failed."""
    return np.where(episode.failed, np.nan, jax.vmap(travel_velocity)(episode))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's, over the pairs that are numbers."""
    known = np.isfinite(a) & np.isfinite(b)
    return float(np.corrcoef(a[known], b[known])[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    """Mean ranks, so that ties share theirs; not a number where a value is not finite."""
    return rankdata(np.where(np.isfinite(values), values, np.nan), nan_policy="omit")


# One voxel

WINDOW = 0.25
"""Area ratios are averaged over this time [s] before they are compared; see the module's text."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ZeroOrderHold:
    """A controller called every step whose value changes only at the original's calls, and is 0 before the first."""

    inner: Reflexive
    interval: jax.Array
    """between two of the original's calls [s]"""
    first_call: jax.Array
    """time of the first call that has an effect [s]"""
    sensors: tuple = field(default=(), metadata={"static": True})

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
        control_every=1,
        substeps=choose_substeps(longest_substep(material), dt),
    )
    spec, start = control_of_note(case["note"])
    first_call = first_effective_call(start, dt, calls_every)
    controller = ZeroOrderHold(
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


def first_effective_call(start: float, time_step: float, control_every: int) -> float:
    """Time of the original's first call at or after `start` [s].

    The original adds up its time step by step, and its round-off decides: 120 steps of 1/60 s fall just short of 2 s.
    """
    time, step = 0.0, 0
    while True:
        time += time_step
        step += 1
        if step % control_every == 0 and time >= start:
            return step * time_step


@partial(jax.jit, static_argnames="schedule")
def _areas(model, controller, environment, state, schedule):
    scenario = scenario_of(model, environment, schedule)
    _, trajectory = record(scenario, controller, begin(scenario, state))
    return jax.vmap(lambda moment: area_ratio(model, mass_motion(model, moment))[0, 0])(trajectory.state)


_place = partial(jax.jit, static_argnames="placement")(place)

"""`vsr bench evolve`: what a generation costs, what the search itself costs, and what a second start saves.

The generation is the paper's: 250 bipeds with evolved phases, 60 s on flat ground with a time step of 1/30 s.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.compute.implementation import Implementation, chosen
from vsr.evidence.bench.timing import device_peak_bytes, spread, timed
from vsr.evo import Evaluation, MuPlusLambda
from vsr.experiments.config import parse_experiment
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.experiment import Experiment

BIPEDS = """
robot:
  body: {shape: [aaaa, a..a]}
  controller: phases
task: {duration: 60}
physics: {time_step: 1/30}
ea: {n_pop: 250}
"""

START = """
import sys
from vsr.evidence.bench.evolve import bipeds
from vsr.experiments.devices import prepare
from vsr.experiments.evolve.generation import compile_evolution
prepare(sys.argv[1] or None)
evolution = compile_evolution(bipeds(sys.argv[2]))
evolution.start()
"""
"""All that comes before the first generation."""


def bipeds(implementation: Implementation = "auto") -> Experiment:
    """The experiment that is timed."""
    experiment = parse_experiment(BIPEDS)
    physics = experiment.physics.model_copy(update={"implementation": implementation})
    return experiment.model_copy(update={"physics": physics})


def bench_evolve(repeats: int, device: str | None, implementation: Implementation = "auto") -> dict[str, Any]:
    """All figures of this benchmark, times in seconds."""
    starts = time_starts(device, implementation)
    return {"generation": time_generation(repeats, implementation), "search": time_search(repeats), "start": starts}


def time_generation(repeats: int, implementation: Implementation = "auto") -> dict[str, Any]:
    """One generation of bipeds."""
    experiment = bipeds(implementation)
    began = time.perf_counter()
    evolution = compile_evolution(experiment)
    compiled = time.perf_counter() - began
    searches = evolution.start()
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        searches, reports = evolution.step(searches)
        jax.block_until_ready(reports)
        seconds.append(time.perf_counter() - began)
    schedule = experiment.schedule()
    robots = experiment.ea.n_pop
    voxels = int(experiment.robot.body.possible.sum())
    middle = float(np.median(seconds[1:]))
    return {
        "robots": robots,
        "voxels": voxels,
        "simulated_s": schedule.total_time,
        "time_step_s": schedule.time_step,
        "substeps": schedule.substeps,
        "implementation": chosen(schedule.implementation, jnp.dtype(experiment.physics.precision)),
        "compile_s": compiled,
        **spread(seconds[1:]),
        "svsps": robots * voxels * schedule.steps / middle,
        "host_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "device_peak_bytes": device_peak_bytes(),
    }


def time_search(repeats: int, individuals: int = 250, genes: int = 400) -> dict[str, Any]:
    """Ask and tell without any robot."""
    optimiser = MuPlusLambda(n_pop=individuals)

    def sample(key: Any, count: int) -> Any:
        return jax.random.uniform(key, (count, genes))

    @jax.jit
    def generation(search: Any) -> Any:
        asked = optimiser.ask(search, sample)
        fitness = -(asked.genes**2).sum(1)
        return optimiser.tell(search, asked, Evaluation(fitness, failed=jnp.zeros(fitness.shape, bool)))

    search = generation(jax.jit(partial(optimiser.start, sample=sample))(jax.random.key(0)))
    return {"individuals": individuals, "genes": genes, **timed(lambda: generation(search), max(20, repeats))}


def time_starts(device: str | None, implementation: Implementation) -> dict[str, Any]:
    """Everything before the first generation, in two fresh processes that share a store of compiled programs."""
    with tempfile.TemporaryDirectory() as store:
        environment = {**os.environ, "XDG_CACHE_HOME": store}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        seconds = []
        for _ in range(2):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", START, device or "", implementation], env=environment, check=True)
            seconds.append(time.perf_counter() - began)
    return {"first_s": seconds[0], "second_s": seconds[1], "ratio": seconds[0] / seconds[1]}

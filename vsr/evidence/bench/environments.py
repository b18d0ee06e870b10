"""`vsr bench environments`: environment steps per second of many walkers, with observations, rewards and resets.

Actions are drawn at random in every step, as a learner's first ones are. EvoGym's figure to compare with was measured
with its own simulator: a robot of 5x5 voxels in Walker-v0, one process, one core.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.body import Masses
from vsr.compute.implementation import Implementation, chosen
from vsr.evidence.bench.timing import device_peak_bytes, peak_bytes, spread
from vsr.experiments.population import on_all_devices, repeat
from vsr.gym import Environment, Params, make
from vsr.physics.engine import ENGINES

EVOGYM = 250.0
"""Steps of EvoGym's Walker-v0 with a 5x5 robot in a second of one core (version 2.0.0, g++ -O3, aarch64)."""


@dataclass(frozen=True)
class BenchEnvironment:
    """One thing to time."""

    name: str
    masses: Masses
    symbol: str
    """of every voxel"""
    task: str = "Walker-v0"
    size: int = 5
    """voxels along both sides"""
    robots: tuple[int, int] = (256, 4096)
    """on the CPU and on an accelerator"""
    steps: tuple[int, int] = (30, 200)
    """of every environment, likewise"""
    everywhere: bool = True
    """or on a CPU only if it is named"""

    def environment(self, implementation: Implementation = "auto") -> Environment:
        """Of one robot without holes."""
        shape = (self.symbol * self.size,) * self.size
        if ENGINES[self.masses].fixed_substep is not None:  # EvoGym's physics has no kernel
            implementation = "auto"
        return make(self.task, body=shape, masses=self.masses, physics={"implementation": implementation})


ENVIRONMENTS = (
    BenchEnvironment("walker-squares", "squares", "a"),
    BenchEnvironment("walker-points", "points", "a"),
    BenchEnvironment("walker-squares-16k", "squares", "a", robots=(16384, 16384), everywhere=False),
    BenchEnvironment("walker-evogym", "evogym", "h", steps=(5, 50)),
)


def bench_environment(scene: BenchEnvironment, repeats: int, implementation: Implementation = "auto") -> dict[str, Any]:
    """Compile and time one scene; times in seconds."""
    place = 0 if jax.default_backend() == "cpu" else 1
    robots, steps = scene.robots[place], scene.steps[place]
    env = scene.environment(implementation)
    params = repeat(env.default_params, robots)
    keys = jax.random.split(jax.random.key(0), robots)
    at_once = env.at_once(math.ceil(robots / jax.device_count()))

    def played(given: tuple[Array, Params]) -> tuple[Array, Array]:
        return play(env, *given, steps)

    began = time.perf_counter()
    program = jax.jit(lambda given: on_all_devices(played, given, at_once)).lower((keys, params)).compile()
    compile_s = time.perf_counter() - began
    wall, busy = timed_twice(lambda: program((keys, params)), repeats)
    total = robots * steps
    return {
        "scene": scene.name,
        "robots": robots,
        "voxels": scene.size**2,
        "steps": steps,
        "substeps": env.schedule.substeps * env.schedule.steps_per_call,
        "interval_s": env.schedule.interval,
        "implementation": _implementation(env),
        "steps_per_s": total / wall["median_s"],
        "steps_per_cpu_s": total / busy["median_s"] if place == 0 else None,
        "times_evogym": total / (busy if place == 0 else wall)["median_s"] / EVOGYM,
        "compile_s": compile_s,
        "peak_bytes": peak_bytes(program),
        "device_peak_bytes": device_peak_bytes(),
        **wall,
    }


def _implementation(env: Environment) -> str:
    """Which one ran: EvoGym's physics has no kernel."""
    kernel = ENGINES[env.scene.robot.body.masses].fixed_substep is None
    return chosen(env.schedule.implementation, env.dtype) if kernel else "xla"


def play(env: Environment, key: Array, params: Params, steps: int) -> tuple[Array, Array]:
    """Sums of rewards and of all numbers observed by one robot that acts at random, so that both are computed."""
    first, state = env.reset(key, params)
    space = env.action_space(params)

    def act(now: tuple[Any, Array, Array], key: Array) -> tuple[tuple[Any, Array, Array], None]:
        state, earned, seen = now
        acting, stepping = jax.random.split(key)
        observation, state, reward, *_ = env.step(stepping, state, space.sample(acting), params)
        return (state, earned + reward, seen + observation.sum()), None

    start = state, jnp.zeros((), env.dtype), first.sum()
    (_, earned, seen), _ = jax.lax.scan(act, start, jax.random.split(key, steps))
    return earned, seen


def timed_twice(function: Any, repeats: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Time that passed, and time of all cores that this process used, after one call that does not count [s]."""
    jax.block_until_ready(function())
    wall, busy = [], []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        wall.append(time.perf_counter() - began[0])
        busy.append(time.process_time() - began[1])
    return spread(wall), spread(busy)

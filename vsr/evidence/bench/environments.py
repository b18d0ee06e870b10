"""`vsr bench environments`: environment steps per second of many walkers, with observations, rewards and resets.

Actions are drawn at random in every step, as a learner's first ones are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import Implementation, chosen
from vsr.envs import Environment, Params, make
from vsr.evidence.bench.benchmark import (
    Benchmark,
    Metrics,
    Settings,
    compiled,
    costs_shown,
    here,
    on_cpu,
    time_calls,
)
from vsr.experiments.population import on_all_devices, repeat
from vsr.robot import EngineName


@dataclass(frozen=True)
class BenchEnvironment(Benchmark):
    """Many environments of one kind."""

    engine: EngineName
    symbol: str
    """of every voxel"""
    task: str = "Walker-v0"
    size: int = 5
    """voxels along both sides"""
    robots: tuple[int, int] = (256, 4096)
    """on the CPU and on an accelerator"""
    steps: tuple[int, int] = (30, 200)
    """of every environment, likewise"""

    def environment(self, implementation: Implementation = "auto") -> Environment:
        """Of one robot without holes."""
        shape = (self.symbol * self.size,) * self.size
        return make(self.task, body=shape, engine=self.engine, physics={"implementation": implementation})

    def measure(self, settings: Settings) -> Metrics:
        robots, steps = here(self.robots), here(self.steps)
        env = self.environment(settings.implementation)
        given = jax.random.split(jax.random.key(0), robots), repeat(env.default_params, robots)
        at_once = env.at_once(math.ceil(robots / jax.device_count()))

        def played(one: tuple[Array, Params]) -> tuple[Array, Array]:
            return play(env, *one, steps)

        done = compiled(lambda given: on_all_devices(played, given, at_once), given)
        wall, cpu = time_calls(lambda: done.program(given), settings.repeats)
        total = robots * steps
        return {
            "robots": robots,
            "voxels": self.size**2,
            "steps": steps,
            "substeps": env.schedule.substeps * env.schedule.control_every,
            "interval_s": env.schedule.interval,
            "implementation": chosen(env.schedule.implementation, env.dtype),
            "steps_per_s": total / wall["median_s"],
            "steps_per_cpu_s": total / cpu["median_s"] if on_cpu() else None,
            **done.costs(),
            **wall,
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        name = f"{self.name:16} {metrics['robots']:5} robots x {metrics['steps']} steps of {metrics['substeps']}"
        per_core = metrics["steps_per_cpu_s"]
        each = "" if per_core is None else f", {per_core:,.0f} a CPU-second"
        return [(name, f"{metrics['steps_per_s']:,.0f} environment steps/s{each}; {costs_shown(metrics)}")]


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


SCENES = (
    BenchEnvironment("walker-squares", "squares", "a"),
    BenchEnvironment("walker-points", "points", "a"),
    BenchEnvironment("walker-squares-16k", "squares", "a", robots=(16384, 16384), everywhere=False),
    BenchEnvironment("walker-evogym", "evogym", "h", steps=(5, 50)),
    BenchEnvironment("upstepper-evogym", "evogym", "h", "UpStepper-v0", steps=(5, 50), everywhere=False),
    BenchEnvironment("carrier-evogym", "evogym", "h", "Carrier-v0", steps=(5, 100), everywhere=False),
    BenchEnvironment("catcher-evogym", "evogym", "h", "Catcher-v0", steps=(5, 100), everywhere=False),
    BenchEnvironment("beamslider-evogym", "evogym", "h", "BeamSlider-v0", steps=(5, 100), everywhere=False),
    BenchEnvironment("cavecrawler-evogym", "evogym", "h", "CaveCrawler-v0", steps=(5, 100), everywhere=False),
)

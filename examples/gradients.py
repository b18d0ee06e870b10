"""How far slopes through a walking robot can be trusted: reverse mode against finite differences, by length of window.

A biped walks with random phases for a while; then the distance that it travels in a window is differentiated with
respect to the phases of its voxels. Tiny differences say whether the gradients are right, larger ones whether they say
anything about steps that a search would take.

    python examples/gradients.py
    python examples/gradients.py --engine squares --gaits 8
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from command_line import run, show

import vsr
from vsr.controllers import Sine
from vsr.episode import EpisodeState, Scenario, rematerialize, reset, step
from vsr.physics.engine import engine_of
from vsr.scene import Physics

TINY, STEP = 1e-6, 0.1
"""By which phases differ in the finite differences [rad]."""
NONE = 1e-6
"""A slope less than this [m/rad] is none: robots that friction holds do not move, whatever their phases."""


def main(engine: str = "points", gaits: int = 8, settle: float = 2.0, windows: str = "0.1 0.3 1 3") -> dict[str, float]:
    """Of each window [s]: how large slopes are, how wrong they are, and how well they agree with steps of 0.1 rad.

    engine: squares or points; gaits: how many random ones; settle: how long robots walk before the window [s]; windows:
    their lengths [s].
    """
    lengths = [float(window) for window in windows.split()]
    with jax.enable_x64(True):
        scenario, controller = _walker(engine)
        interval = scenario.schedule.interval
        calls = [max(1, round(window / interval)) for window in lengths]
        phases = jax.random.uniform(jax.random.key(0), (gaits, *controller.phase.shape), jnp.float64, -np.pi, np.pi)

        def traveled(phase: jax.Array, begun: EpisodeState) -> jax.Array:
            """After each control call of the longest window [m]."""
            return _walk(scenario, replace(controller, phase=phase), begun, max(calls))[1]

        first = reset(jax.random.key(0), scenario)
        before = round(settle / interval)
        begun = jax.jit(jax.vmap(lambda p: _walk(scenario, replace(controller, phase=p), first, before)[0]))(phases)
        gradient = jax.jit(jax.vmap(jax.grad(lambda p, s, n: traveled(p, s)[n - 1]), (0, 0, None)))
        gradients = [np.asarray(gradient(phases, begun, n)) for n in calls]
        differ = {size: _differences(jax.jit(jax.vmap(traveled)), phases, begun, size) for size in (TINY, STEP)}
    numbers: dict[str, float] = {}
    for window, count, found in zip(lengths, calls, gradients, strict=True):
        exact, coarse = (differ[size][..., count - 1] for size in (TINY, STEP))
        found, exact, coarse = (values.reshape(gaits, -1) for values in (found, exact, coarse))
        length = np.linalg.norm(found, axis=1)
        wrong = np.linalg.norm(found - exact, axis=1) / np.maximum(np.linalg.norm(exact, axis=1), NONE)
        agreement = (found * coarse).sum(1) / np.maximum(length * np.linalg.norm(coarse, axis=1), NONE**2)
        numbers[f"{window:g} s: slope, median [m/rad]"] = float(np.median(length))
        numbers[f"{window:g} s: slope, largest [m/rad]"] = float(length.max())
        numbers[f"{window:g} s: relative error, median"] = float(np.median(wrong))
        numbers[f"{window:g} s: relative error, largest"] = float(wrong.max())
        numbers[f"{window:g} s: cosine with steps, median"] = float(np.median(agreement))
        numbers[f"{window:g} s: cosine with steps, least"] = float(agreement.min())
    show(f"slopes of {engine} masses, {gaits} gaits", list(numbers.items()))
    return numbers


def _walker(engine: str) -> tuple[Scenario, Sine]:
    robot = vsr.Robot(body=vsr.Body(shape=["aaaa", "a..a"], engine=engine), controller=Sine(frequency=1.0))
    physics = Physics(implementation="differentiable", precision="float64")
    return vsr.Scene(robot=robot, physics=physics, task=vsr.Locomotion(duration=60.0)).build()


def _walk(scenario: Scenario, controller: Sine, begun: EpisodeState, calls: int) -> tuple[EpisodeState, jax.Array]:
    """The state after some control calls, and how far the center has come along x after each [m], (calls,)."""
    model = scenario.model
    start = engine_of(model).center(model, begun.world.robots[0])[0]

    def call(state: EpisodeState, _: None) -> tuple[EpisodeState, jax.Array]:
        after, _ = step(scenario, state, controller.control(state.world.time, None))
        return after, engine_of(model).center(model, after.world.robots[0])[0] - start

    return jax.lax.scan(rematerialize(scenario.schedule, call), begun, length=calls)


def _differences(traveled, phases: jax.Array, begun: EpisodeState, size: float) -> np.ndarray:
    """Central differences, (gaits, *cells, calls)."""
    found = np.zeros((*phases.shape, len(traveled(phases, begun)[0])))
    for cell in np.ndindex(phases.shape[1:]):
        up, down = (traveled(phases.at[(slice(None), *cell)].add(way * size), begun) for way in (1, -1))
        found[(slice(None), *cell)] = np.asarray(up - down) / (2 * size)
    return found


if __name__ == "__main__":
    run(main)

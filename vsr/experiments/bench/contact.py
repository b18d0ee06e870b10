"""`vsr bench contact`: how much longer worlds take in which robots touch themselves and things.

The same robots stand on flat ground with nothing else, and with a box in front of them, with self-contact, and with
both. Robots differ in where they start, so that not all touch at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.body import Body, Masses
from vsr.compute.implementation import Implementation, chosen
from vsr.controllers import Sine
from vsr.episode import begin, rollout
from vsr.experiments.bench.timing import spread
from vsr.scene import Physics, Scene
from vsr.tasks import Locomotion
from vsr.world.placement import Placement, place
from vsr.world.spec import Object, Robot, World

DURATION = 1.0
"""Of episodes [s]."""
LEFT = 30.0
"""Of the first robot [m]: between the walls of the ground."""
GAP = 1.0
"""From the box to the robot that is farthest from it [m]."""
WORLDS = {"nothing": (False, False), "box": (True, False), "self": (False, True), "both": (True, True)}
"""Whether there is a box, and self-contact."""


@dataclass(frozen=True)
class BenchContact:
    """Robots of one kind."""

    name: str
    shape: tuple[str, ...] | tuple[tuple[str, ...], ...]
    masses: Masses
    robots: tuple[int, int] = (64, 4096)
    """on the CPU and on an accelerator"""

    def scene(self, world: str, implementation: Implementation) -> Scene:
        """One robot in one of WORLDS."""
        body = Body(shape=self.shape, masses=self.masses)
        with_box, self_contact = WORLDS[world]
        width = body.voxel_side * len(self.shape[0] if body.dimension == 2 else self.shape[0][0])
        side = 3 * body.voxel_side
        size = (side, *(side,) * (body.dimension - 2), 2 * body.voxel_side)
        position = (LEFT + width + GAP + side / 2, *(side / 2,) * (body.dimension - 2), body.voxel_side)
        box = Object(name="box", shape={"type": "box", "size": size}, position=position)  # pyright: ignore[reportArgumentType]
        return Scene(
            robot=Robot(body=body, controller=Sine(amplitude=1.0)),
            world=World(objects=(box,) if with_box else (), self_contact=self_contact),
            task=Locomotion(duration=DURATION, placement=Placement(left=LEFT, clearance=0.5)),
            # Worlds in which things touch are no kernel alone.
            physics=Physics(
                implementation="auto" if implementation == "fused" and world != "nothing" else implementation  # pyright: ignore[reportArgumentType]
            ),
        )


CONTACTS = (
    BenchContact("contact-squares", ("aaaaa",) * 5, "squares"),
    BenchContact("contact-points", ("aaaaa",) * 5, "points"),
    BenchContact("contact-3d", (("aaaa",), ("aaaa",)), "points"),
)
"""Robots of 25 voxels in 2-D, of 8 in 3-D."""


def bench_contact(scene: BenchContact, repeats: int, implementation: Implementation = "auto") -> dict[str, Any]:
    """Compile and time all worlds of robots of one kind; times in seconds, and as multiples of that of nothing."""
    robots = scene.robots[0 if jax.default_backend() == "cpu" else 1]
    worlds = {name: _timed(scene.scene(name, implementation), robots, repeats) for name in WORLDS}
    alone = worlds["nothing"]["median_s"]
    return {
        "scene": scene.name,
        "robots": robots,
        "implementation": chosen(implementation),
        "worlds": {name: {**figures, "times": figures["median_s"] / alone} for name, figures in worlds.items()},
    }


def _timed(scene: Scene, robots: int, repeats: int) -> dict[str, Any]:
    scenario, controller = scene.build()
    start = place(scenario.model, scenario.world.environment.terrain, scene.task.placement)

    def end(shift: Array) -> Array:
        way = jnp.zeros(start.position.shape[-1]).at[0].set(shift)
        return rollout(scenario, controller, begin(scenario, replace(start, position=start.position + way))).end

    shifts = jnp.linspace(0, GAP, robots)
    began = time.perf_counter()
    program = jax.jit(jax.vmap(end)).lower(shifts).compile()
    compile_s = time.perf_counter() - began
    program(shifts).block_until_ready()
    # On a CPU the time of the process: what others do on it counts less than in that of the clock.
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    seconds = []
    for _ in range(repeats):
        began = clock()
        program(shifts).block_until_ready()
        seconds.append(clock() - began)
    return {"substeps": scene.schedule().substeps, "compile_s": compile_s, **spread(seconds)}

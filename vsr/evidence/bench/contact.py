"""`vsr bench contact`: how much longer worlds take in which robots touch themselves and objects.

The same robots stand on flat ground with nothing else, and with a box in front of them, with self-contact, and with
both. Robots differ in where they start, so that not all touch at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import Implementation, chosen
from vsr.controllers import Sine
from vsr.episode import begin, rollout
from vsr.evidence.bench.benchmark import Benchmark, Metrics, Settings, compiled, here, on_cpu, time_calls, times_shown
from vsr.robot import Body, EngineName
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
class BenchContact(Benchmark):
    """Robots of one kind."""

    shape: tuple[str, ...] | tuple[tuple[str, ...], ...]
    engine: EngineName
    robots: tuple[int, int] = (64, 4096)
    """on the CPU and on an accelerator"""

    def scene(self, world: str, implementation: Implementation) -> Scene:
        """One robot in one of WORLDS."""
        body = Body(shape=self.shape, engine=self.engine)
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
            # Worlds in which objects touch are no kernel alone.
            physics=Physics(
                implementation="auto" if implementation == "fused" and world != "nothing" else implementation  # pyright: ignore[reportArgumentType]
            ),
        )

    def measure(self, settings: Settings) -> Metrics:
        """All worlds; times also as multiples of that of nothing."""
        robots = here(self.robots)
        worlds = {name: _timed(self.scene(name, settings.implementation), robots, settings.repeats) for name in WORLDS}
        alone = worlds["nothing"]["median_s"]
        return {
            "robots": robots,
            "implementation": chosen(settings.implementation),
            "worlds": {name: {**metrics, "times": metrics["median_s"] / alone} for name, metrics in worlds.items()},
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        return [
            (
                f"{self.name:16} {metrics['robots']:5} robots, {world}",
                f"{found['times']:.3g} x; {times_shown(found)}; {found['substeps']} substeps",
            )
            for world, found in metrics["worlds"].items()
        ]


def _timed(scene: Scene, robots: int, repeats: int) -> Metrics:
    scenario, controller = scene.build()
    start = place(scenario.model, scenario.world.environment.terrain, scene.task.placement)

    def end(shift: Array) -> Array:
        way = jnp.zeros(start.position.shape[-1]).at[0].set(shift)
        return rollout(scenario, controller, begin(scenario, replace(start, position=start.position + way))).end

    shifts = jnp.linspace(0, GAP, robots)
    done = compiled(jax.vmap(end), shifts)
    times = time_calls(lambda: done.program(shifts), repeats)
    # On a CPU the time of the process: what others do on it counts less than in wall-clock time.
    return {
        "substeps": scene.schedule().substeps,
        "compile_s": done.compile_s,
        **(times.cpu if on_cpu() else times.wall),
    }


SCENES = (
    BenchContact("contact-squares", ("aaaaa",) * 5, "squares"),
    BenchContact("contact-points", ("aaaaa",) * 5, "points"),
    BenchContact("contact-3d", (("aaaa",), ("aaaa",)), "points"),
)
"""Robots of 25 voxels in 2-D, of 8 in 3-D."""

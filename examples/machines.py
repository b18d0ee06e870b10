"""Machines among grains at work by a fixed plan: what they move, what they feel, and a strip of pictures.

python examples/machines.py [--machine bulldozing] [--grains 1000] [--seconds 5] [--out FILE.png]

machine: `bulldozing` drives straight through its heap, `gear_tower` lets all gears turn, `excavation` takes a bucketful
out of its bed. Fewer grains are larger ones. The plans close no loop: for policies see `vsr train`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from command_line import run, show
from PIL import Image

from vsr.envs.machines import bulldozing, excavation, gear_tower
from vsr.envs.machines.cameras import Eye, looking, paint
from vsr.envs.machines.excavation import SEVEN_JOINTS, planar_angles

MOMENTS = 4
"""Pictures in a strip."""
DIG = (
    (0.08, 0.68, 0.36, -0.3),
    (0.2, 0.68, 0.25, -0.3),
    (0.4, 0.56, 0.25, 0.0),
    (0.55, 0.5, 0.26, 0.45),
    (0.7, 0.5, 0.32, 1.1),
    (0.85, 0.53, 0.42, 1.4),
    (1.0, 0.58, 0.48, 1.4),
)
"""Where the bucket's joint should be: share of the time, ahead and up [m], pitch beyond straight down [rad]."""
VIEWS = {
    "bulldozing": (Eye((190, 400), 0.45, near=3.0, far=14.0), (-0.9, -6.4, 4.2), (-0.5, 0.0, 0.0), 0.4),
    "gear_tower": (Eye((440, 260), 0.27, near=1.2, far=8.0), (1.7, -2.3, 1.6), (0.0, 0.0, 0.72), 1.2),
    "excavation": (Eye((300, 340), 0.4, near=0.6, far=4.0), (1.1, -1.3, 1.0), (0.5, 0.0, 0.2), 0.3),
}
"""Camera, its place, where it looks [m], and the height of the brightest grains [m]."""


def dozer(grains: int, seconds: float) -> tuple[Any, Any, Callable[[Any], jax.Array], Callable[[Any], tuple]]:
    """Scenario, first state, plan, and bodies to draw."""
    scenario = bulldozing.scenario(grains, radius=0.02 * (10_000 / grains) ** (1 / 3), duration=seconds)
    state = bulldozing.reset(jax.random.key(0), scenario)
    state = replace(state, place=state.place.at[1:].set(0.0))

    def drawn(state: Any) -> tuple:
        return tuple((body, bulldozing.pose_at(state.place)) for body in scenario.grains.bodies[3:])

    return scenario, state, lambda state: jnp.array([1.0, 0.0]), drawn


def tower(grains: int, seconds: float) -> tuple[Any, Any, Callable[[Any], jax.Array], Callable[[Any], tuple]]:
    """Likewise."""
    scenario = gear_tower.scenario(2, grains, radius=0.02 * (2_500 / grains) ** (1 / 3), duration=seconds)

    def drawn(state: Any) -> tuple:
        poses = gear_tower.poses_of(scenario, state, jnp.zeros(scenario.gears))
        return tuple(zip(scenario.grains.bodies[2:], poses, strict=True))

    return scenario, gear_tower.reset(jax.random.key(0), scenario), lambda state: jnp.ones(scenario.gears), drawn


def digger(grains: int, seconds: float) -> tuple[Any, Any, Callable[[Any], jax.Array], Callable[[Any], tuple]]:
    """Likewise."""
    scenario = excavation.scenario(grains, radius=0.015 * (2_500 / grains) ** (1 / 3), duration=seconds)
    state = excavation.reset(jax.random.key(0), scenario)
    limit, interval = scenario.pace.limit, scenario.pace.interval

    def plan(state: Any) -> jax.Array:
        calls = int(state.calls)
        share, ahead, up, pitch = next(row for row in DIG if calls < row[0] * limit - 1e-6)
        left = max(1, round(share * limit) - calls)
        way = planar_angles(ahead, up, np.pi + pitch) - np.asarray(state.angle)
        return jnp.asarray(way / (left * interval * np.array(SEVEN_JOINTS.speed)), jnp.float32)

    def drawn(state: Any) -> tuple:
        return tuple(zip(scenario.grains.bodies[3:], excavation.links_at(state.angle), strict=True))

    return scenario, state, plan, drawn


KINDS = {"bulldozing": (bulldozing, dozer), "gear_tower": (gear_tower, tower), "excavation": (excavation, digger)}


def work(rules: Any, scenario: Any, state: Any, plan: Callable[[Any], jax.Array]) -> Iterator[tuple[Any, float]]:
    """States from the first on, each with the reward of the step that led there."""
    step = jax.jit(rules.step)
    yield state, 0.0
    for _ in range(scenario.pace.limit):
        state, transition = step(scenario, state, plan(state))
        yield state, float(transition.reward)
        if bool(transition.terminated):
            return


def main(*, machine: str = "bulldozing", grains: int = 1000, seconds: float = 5.0, out: str = "") -> dict[str, float]:
    """Lets one machine work."""
    if machine not in KINDS:
        raise SystemExit(f"--machine {machine}: one of {', '.join(KINDS)}")
    rules, build = KINDS[machine]
    scenario, first, plan, drawn = build(grains, seconds)
    seen, rewards, strongest = [], [], 0.0
    shown = {round(share * scenario.pace.limit) for share in np.linspace(0, 1, MOMENTS)}
    state = first
    for state, reward in work(rules, scenario, first, plan):
        rewards.append(reward)
        strongest = max(strongest, float(jnp.linalg.norm(state.felt.force, axis=-1).max()))
        if out and int(state.calls) in shown:
            camera, at, target, tall = VIEWS[machine]
            picture = paint(camera, looking(at, target), scenario.grains, state.grains, drawn(state), tall=tall)
            seen.append(np.asarray(picture))
    if out:
        Image.fromarray(np.concatenate(seen, 1)).save(out)
    numbers = {
        "grains": float(grains),
        "actions": float(state.calls),
        "failure": float(state.failure),
        "last reward": rewards[-1],
        "strongest force on a body [N]": strongest,
    }
    if machine == "bulldozing":
        numbers["moved on the mean [m]"] = float((state.grains.position - first.grains.position)[0].mean())
        numbers["share in the goal"] = float(bulldozing.share_in_goal(state))
    elif machine == "gear_tower":
        numbers["went through"] = float(state.flowed)
    else:
        numbers["load [kg]"] = float(excavation.load(scenario.grains, state))
        numbers["weight of the load [N]"] = 9.81 * numbers["load [kg]"]
        numbers["felt by the bucket [N]"] = -float(state.felt.force[2, 2])
    show(f"{machine} for {seconds:g} s", list(numbers.items()))
    return numbers


if __name__ == "__main__":
    run(main)

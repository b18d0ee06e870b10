"""A loaded cantilever that loses the springs it needs least, while it is being simulated.

python examples/topology.py [--columns 17] [--rows 5] [--stages 12] [--chosen random]

A stage takes some springs away, lets the body swing until it is calm (a breakpoint), and measures how far its tip
hangs. While the device runs a stage, the host plans the next: it orders the springs by the tension of the stage before
and leaves those without which the body would fold. Nothing is compiled twice, and only tensions leave the device.
"""

from __future__ import annotations

import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from command_line import run, show

from vsr.compute.vector import split
from vsr.lattice import (
    Environment,
    GraphSprings,
    Lattice,
    State,
    Stiffness,
    advance,
    advance_until,
    choose_step,
    loads,
    of_graph,
    of_pairs,
    rest_state,
)
from vsr.lattice.editing import Editable, editable, remove_springs
from vsr.lattice.graph import as_graph
from vsr.lattice.springs import tensions

SIDE, YOUNG_MODULUS, AREA, DENSITY, JOINT_MASS = 0.1, 1e7, 1e-4, 1000.0, 0.1
"""Between nodes [m]; of the rods [Pa], [m²], [kg/m³]; of a node [kg]: rods are light, so the mass stays where it is."""
LOAD = 5.0
"""At the tip, downwards [N]."""
LEAST_REDUNDANCY = 0.05
"""Of a rod that may go; a rod without which the body would fold has 0."""


def build(columns: int, rows: int) -> Lattice:
    """A truss of square cells with both diagonals, clamped at its left end."""
    grid = as_graph(of_pairs((rows, columns), SIDE, Stiffness(1.0, 1.0), 1.0))
    position = np.asarray(grid.rest_position, float)
    pairs = np.stack([grid.springs.first, grid.springs.second], 1)
    return of_graph(
        position,
        pairs,
        young_modulus=YOUNG_MODULUS,
        area=AREA,
        mass=JOINT_MASS,
        damping=12.0,
        anchored=position[:, 0] == 0,
    )


def calm(state: State) -> jax.Array:
    """The breakpoint of a stage: nothing moves any more."""
    return jnp.abs(state.velocity).max() < 1e-4


@jax.jit
def tensions_of(body: Editable) -> jax.Array:
    """Of every spring [N]."""
    return tensions(body.springs, split(body.state.position, 1), body.state.time)  # pyright: ignore


def materialize(body: Editable, environment: Environment, step: float) -> Editable:
    """The body once it is calm. Returns at once; the device has the work."""
    # A body that was at rest is calm until what was taken away begins to tell.
    state = advance(body.lattice, environment, body.state, step=step, count=100)
    state = advance_until(body.lattice, environment, state, calm, time=state.time + 20.0, step=step, check_every=50)
    return replace(body, state=state)


class Plan:
    """What the host knows of the body: its rods, and which of them it can spare."""

    def __init__(self, lattice: Lattice) -> None:
        springs = lattice.springs
        assert isinstance(springs, GraphSprings)
        self.stiffness = np.asarray(springs.stiffness, float)
        self.length = np.asarray(springs.rest_length, float)
        self.there = self.stiffness > 0
        position, free = np.asarray(lattice.rest_position, float), np.asarray(lattice.inverse_mass) > 0
        first, second = np.asarray(springs.first), np.asarray(springs.second)
        along = (position[second] - position[first]) / self.length[:, None]
        stretch = np.zeros((len(first), len(position), lattice.dimension))
        each = np.arange(len(first))
        stretch[each, second], stretch[each, first] = along, -along
        self.stretch = stretch[:, free].reshape(len(first), -1)
        """of every rod per shift of every free node along every axis"""

    @property
    def material(self) -> float:
        """Mass of all rods that are left [kg]."""
        return float(DENSITY * AREA * self.length[self.there].sum())

    @property
    def flexibility(self) -> np.ndarray:
        """How far small forces shift the free nodes [m/N]: the inverse of the rods' stiffness."""
        rods = self.stretch[self.there]
        return np.linalg.inv((rods * self.stiffness[self.there, None]).T @ rods)

    def choose(self, order: np.ndarray, number: int) -> np.ndarray:
        """The first rods of an order that can go, taken out of the plan; -1 where there are too few, (number,)."""
        chosen: list[int] = []
        flexibility = self.flexibility
        for rod in order[self.there[order]]:
            if len(chosen) == number:
                break
            answer = flexibility @ self.stretch[rod]
            redundancy = 1 - self.stiffness[rod] * (self.stretch[rod] @ answer)
            if redundancy > LEAST_REDUNDANCY:
                # Sherman and Morrison: what the body yields without this rod.
                flexibility += np.outer(answer, answer) * (self.stiffness[rod] / redundancy)
                chosen.append(int(rod))
        self.there[chosen] = False
        return np.array(chosen + [-1] * (number - len(chosen)), np.int32)


def main(
    *, columns: int = 17, rows: int = 5, stages: int = 12, share: float = 0.03, chosen: str = "least stressed"
) -> dict[str, float]:
    """Takes a share of the springs away at every stage: the 'least stressed', or for comparison some at 'random'."""
    lattice = build(columns, rows)
    tip = np.asarray(lattice.rest_position)[:, 0] > SIDE * (columns - 1.5)
    environment = Environment(gravity=0.0, load=loads(lattice, tip, [0.0, -LOAD]))
    step = choose_step(lattice)
    plan, random = Plan(lattice), np.random.default_rng(0)
    number = max(1, round(share * len(plan.length)))

    push = np.asarray(environment.load, float)[np.asarray(lattice.inverse_mass) > 0].ravel()

    def hanging(body: Editable) -> float:
        return -float((body.state.position - lattice.rest_position)[tip, 1].mean())

    def ordered(strain: np.ndarray) -> np.ndarray:
        return random.permutation(len(strain)) if chosen == "random" else np.argsort(np.abs(strain))

    body = materialize(editable(lattice, rest_state(lattice)), environment, step)
    before, material = hanging(body), plan.material
    known = np.asarray(tensions_of(body))
    removal = plan.choose(ordered(known), number)
    rows_of_table, ahead, yields = [], 0, before
    for stage in range(stages):
        body = materialize(remove_springs(body, removal), environment, step)
        coming = tensions_of(body)
        material_now, yields = plan.material, push @ plan.flexibility @ push / LOAD
        # From here to where `coming` is read the device is at work, and so is the host.
        started = time.perf_counter()
        removal = plan.choose(ordered(known), number)
        planned = time.perf_counter() - started
        ahead += not coming.is_ready()
        known = np.asarray(coming)
        rows_of_table.append((stage + 1, 1 - material_now / material, 1 - before / hanging(body), planned))
    print(f"A cantilever of {columns} × {rows} nodes; {chosen} springs are taken away")
    print("  stage   material saved   stiffness lost   planned in [ms]")
    for stage, saved, lost, planned in rows_of_table:
        print(f"  {stage:5}{saved:17.1%}{lost:17.1%}{1e3 * planned:18.1f}")
    _, saved, lost, _ = rows_of_table[-1]
    numbers = {
        "material saved": saved,
        "stiffness lost": lost,
        "stiffness over material": (1 - lost) / (1 - saved),
        "tip hangs by [m]": hanging(body),
        "by statics, if little [m]": yields,
        "stages planned before the device was done": float(ahead),
        "edits refused": float(body.refused),
    }
    show("In all", list(numbers.items()))
    return numbers


if __name__ == "__main__":
    run(main)

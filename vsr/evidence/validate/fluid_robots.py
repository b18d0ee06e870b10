"""Voxel robots with chambers: forces against the energy, Laplace's law, weight on a floor, volume, gas, momentum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import split
from vsr.environment import Environment
from vsr.environment.obstacles import plane
from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.fluid import law, voxels
from vsr.physics.points.energy import potential_energy
from vsr.physics.points.fluid import chamber_drive
from vsr.physics.points.geometry import corners_of_nodes
from vsr.physics.points.model import PointModel
from vsr.physics.points.springs import spring_corners
from vsr.physics.statics import Equilibrium, equilibrium
from vsr.physics.statics.voxels import Resting, energy, free_coordinates, resting, voxel_system
from vsr.robot import Body, Fluid, Material

SIDE = 0.03
GRAVITY = 9.81
ENGINE = ENGINES["points"]
SILICONE: dict[str, Any] = {"young_modulus": 2e4, "density": 1000.0}


def body_of(shape: Sequence, solid: Material | None = None, **fluid: Any) -> Body:
    """Of silicone (a) and a fluid (w)."""
    materials = {"a": solid or Material(**SILICONE), "w": Material(**SILICONE, fluid=Fluid(**fluid))}  # pyright: ignore[reportArgumentType]
    return Body(shape=tuple(shape), materials=materials, voxel_side=SIDE, engine="points")


def model_of(body: Body) -> PointModel:
    return assemble_body(body, dtype=jnp.float64)


def corners(model: PointModel, position: Array) -> tuple[Array, ...]:
    """Of the voxels, by components, each (corners, c)."""
    return split(corners_of_nodes(position, model.layer[..., None], model.dimension), 1 + model.dimension)


def rest(given: Resting, start: Array | None = None) -> Equilibrium:
    """Where a robot rests."""
    model = given.model
    start = ENGINE.rest_state(model).position if start is None else start
    size = max(model.present.shape) * SIDE
    return jax.jit(lambda place, held: equilibrium(voxel_system(), place, free_coordinates(model), held, size=size))(
        start, given
    )


def check_laplace() -> Findings:
    """A bag of gas: the tension of its skin over its curvature is the pressure, in 2-D and 3-D."""
    note = "a bag of 4 voxels a side, its skin softer than the pressure; mean tension from the springs' virial"
    rows = []
    for dimension in (2, 3):
        shape = ["wwww"] * 4 if dimension == 2 else [["wwww"] * 4] * 4
        body = body_of(shape, kind="gas", membrane="own", pressure=(0, 2000))
        model = _held_at_a_corner(model_of(body))
        found = rest(resting(model, Environment(gravity=0.0), drive=jnp.array([1500.0])))
        tension = _virial(model, found.position)
        volume = float(voxels.volumes(model.chambers, corners(model, found.position))[0])  # pyright: ignore[reportArgumentType]
        rows += [
            absolute(f"bag in {dimension}-D: largest force that is left", float(found.residual), 0, 1e-9, "N", note),
            relative(
                f"bag in {dimension}-D: pull of the skin against {dimension} p V",
                tension,
                dimension * 1500 * volume,
                1e-6,
                "J",
                note,
            ),
        ]
        if dimension == 2:
            rows += _ring(model, found.position, note)
    return Findings(rows)


def _ring(model: PointModel, position: Array, note: str) -> list:
    """In 2-D every spring of the skin has the tension p r, and the skin is a polygon on a circle."""
    place, edges = _skin(model, position)
    middle = place[np.unique(edges)].mean(0)
    radius = np.linalg.norm(place[np.unique(edges)] - middle, axis=1)
    length = np.linalg.norm(place[edges[:, 1]] - place[edges[:, 0]], axis=1)
    tension = float(model.stiffness[0].max()) * (length - SIDE)
    half = 0.5 * length / radius.mean()
    # Of a polygon: two sides of tension T meet at an angle and hold what presses on half of each.
    expected = 1500 * radius.mean() * np.sqrt(1 - half**2).mean()
    return [
        absolute("ring: spread of its radius, over the mean", float(radius.std() / radius.mean()), 0, 1e-6, "", note),
        relative("ring: tension against p r, of a polygon", float(tension.mean()), float(expected), 1e-6, "N", note),
        absolute("ring: spread of tension over the mean", float(tension.std() / tension.mean()), 0, 1e-6, "", note),
    ]


def _skin(model: PointModel, position: Array) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, and those of them that springs of the skin join, (edges, 2)."""
    slot = ENGINE.rigid_parts(model).slot
    there = np.asarray(model.springs)[:, np.asarray(model.present) > 0] > 0
    pairs = [
        slot[voxel, [first, second]]
        for number, (_, first, second) in enumerate(spring_corners(model.dimension))
        for voxel in np.flatnonzero(there[number])
    ]
    return np.asarray(position).reshape(-1, model.dimension), np.array(pairs)


def _virial(model: PointModel, position: Array) -> float:
    """Sum of force times length of all springs [J]: how the elastic energy grows if all grows alike."""
    space, still = Environment(gravity=0.0), jnp.zeros_like(model.mass)
    hollow = replace(model, chambers=None)
    return float(jax.jvp(lambda s: potential_energy(hollow, space, s * position, still), (1.0,), (1.0,))[1])


def _held_at_a_corner(model: PointModel) -> PointModel:
    """Clamped so that it cannot drift: its first node in 3-D, which a bag at rest does not pull at."""
    first = jnp.zeros_like(model.inverse_mass).reshape(-1).at[0].set(1).reshape(model.inverse_mass.shape)
    return replace(model, inverse_mass=model.inverse_mass * (1 - first))


def check_weight() -> Findings:
    """A box full of water on a floor: the floor bears everything, and pressure grows with depth."""
    body = body_of([["aaa"] * 3, ["aaa", "awa", "aaa"], ["aaa", "awa", "aaa"], ["aaa"] * 3], drive="volume")
    model = model_of(body)
    floor = Environment(gravity=GRAVITY, bodies=(plane((0.0, 0.0, 0.0), (0.0, 0.0, 1.0)),))
    given = resting(model, floor)
    found = rest(given)
    lifted = jax.grad(energy)(found.position, given._replace(environment=Environment(gravity=GRAVITY)))
    borne = float(lifted[..., -1].sum())
    assert model.chambers is not None
    corner = corners(model, found.position)
    volume = float(voxels.volumes(model.chambers, corner)[0])
    solid = float((model.node_mass - model.chambers.fluid_mass).sum())
    note = "3 x 3 x 4 voxels of 3 cm, 2 of them water; equilibrium with contact"
    return Findings(
        [
            absolute("box of water on a floor: largest force that is left", float(found.residual), 0, 1e-9, "N", note),
            relative("what the floor bears", borne, GRAVITY * (solid + 1000 * volume), 1e-9, "N", note),
            absolute(
                "volume over that at rest, less p / K",
                volume / 2 / SIDE**3 - 1 + _yielding(model, found),
                0,
                1e-9,
                "",
                note,
            ),
        ]
    )


def _yielding(model: PointModel, found: Equilibrium) -> float:
    """Pressure over bulk modulus."""
    assert model.chambers is not None
    drive = chamber_drive(model, jnp.zeros_like(model.mass))
    pressure = voxels.pressures(model.chambers, corners(model, found.position), drive)
    return float(pressure[0]) / 1e5


def check_motion() -> Findings:
    """Pumped in free space without damping: momentum, energy and its order, and the gas law."""
    rows = []
    note = "4 x 3 voxels, undamped, one chamber of 2 voxels pumped at once; 50 ms"
    solid = Material(**SILICONE, linear_damping=0.0, spring_damping_ratio=0.0)
    fluids = {
        "liquid by volume": {"drive": "volume", "bulk_modulus": 2e4},
        "gas by volume": {"kind": "gas", "drive": "volume", "outside_pressure": 1e4},
        "pressure": {},
    }
    for name, fluid in fluids.items():
        model = model_of(body_of(["aaaa", "awwa", "aaaa"], solid, **fluid))
        model = replace(model, linear_damping=jnp.zeros_like(model.linear_damping))
        drifts, momentum = zip(*(_pumped(model, substep) for substep in (2e-4, 1e-4, 5e-5)), strict=True)
        order = float(np.log2(abs(drifts[1] / drifts[2])))
        rows += [
            absolute(f"{name}: momentum over that of its parts", max(momentum), 0, 1e-12, "", note),
            absolute(f"{name}: drift of the energy at 0.05 ms, over the kinetic", drifts[2], 0, 2e-3, "", note),
            absolute(f"{name}: order of the drift", order, 2, 0.3, "", note),
        ]
    rows.append(_gas_law())
    return Findings(rows)


def _pumped(model: PointModel, substep: float) -> tuple[float, float]:
    """Drift of the energy over the kinetic, and momentum over that of all nodes."""
    space = Environment(gravity=jnp.zeros(()), terrain=None)
    control = jnp.full((1, *model.present.shape), -0.5)
    start = ENGINE.rest_state(model)
    state, _ = ENGINE.advance(model, space, start, control, substep=substep, count=round(0.05 / substep))
    kinetic = 0.5 * (model.node_mass[..., None] * state.velocity**2).sum()
    before, after = (potential_energy(model, space, one.position, control[0]) for one in (start, state))
    speed = jnp.sqrt(2 * kinetic * model.node_mass.sum())
    return float((after + kinetic - before) / kinetic), float(abs(ENGINE.momentum(model, state)).max() / speed)


def _gas_law():
    model = model_of(body_of(["aaa", "awa", "aaa"], kind="gas", drive="volume"))
    assert model.chambers is not None
    numbers, volume = model.chambers.numbers, model.chambers.rest_volume
    ratios = np.array([0.5, 0.8, 1.0, 1.5, 2.0])
    products = [float(((law.pressure(numbers, volume, volume, r * volume) + 101325) * r)[0]) for r in ratios]
    note = "absolute pressure times volume, over that at rest, at half to twice the volume"
    return relative("gas: p V", max(products, key=lambda value: abs(value - 101325)), 101325, 1e-12, "Pa", note)

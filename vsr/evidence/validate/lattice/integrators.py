"""Integrators of the lattice.

Integrators must converge with their order, keep momentum, and (explicit Euler) gain energy as predicted.

The order is the logarithm of the ratio of errors when the step is halved, against Runge-Kutta with a much shorter
step. Explicit Euler multiplies the energy of a mode of angular frequency ω by 1 + (ω h)² each step.

Energy after release: what is exchanged between springs, height and motion must not grow or shrink.

The scale is the largest kinetic energy after the release. Drift is the slope of a line through the total, times one
second; oscillation is the largest distance from that line. Semi-implicit Euler keeps a neighboring energy that
differs by h/2 times the power of the forces, so its total oscillates with an amplitude that goes with h and does not
drift."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.lattice.bar import Bar, Oscillation, oscillate
from vsr.lattice import INTEGRATORS, Environment, Lattice, State, energy, isotropic, longest_step, of_cells, record
from vsr.lattice.modes import highest_mode

ORDERS = {"semi_implicit_euler": 1, "explicit_euler": 1, "verlet": 2, "rk4": 4}
ORDER_TOLERANCE = 0.15
SIDE, YOUNG_MODULUS, DENSITY = 0.01, 4e6, 1000.0
GRAVITY = 9.81


def block(dimension: int) -> Lattice:
    """A small free one."""
    cells = np.ones((1, 2, 3)[:dimension], bool)
    return of_cells(cells, SIDE, isotropic(YOUNG_MODULUS, SIDE, dimension), DENSITY, dtype=jnp.float64)


def disturbed(lattice: Lattice, size: float, seed: int = 1) -> State:
    """Nodes shifted by some share of a cell, and moving."""
    random = np.random.default_rng(seed)
    shift, velocity = (random.normal(size=lattice.rest_position.shape) for _ in range(2))
    return State(
        lattice.rest_position + jnp.asarray(size * SIDE * shift),
        jnp.asarray(size * (YOUNG_MODULUS / DENSITY) ** 0.5 * velocity),
        jnp.zeros(()),
    )


def positions(lattice: Lattice, environment: Environment, state: State) -> jnp.ndarray:
    """The quantities that `record` returns."""
    return state.position


def convergence_order(integrator: str, dimension: int) -> float:
    """Found by halving a step three times."""
    lattice = block(dimension)
    around = Environment(gravity=jnp.asarray(GRAVITY))
    start = disturbed(lattice, 0.02)
    steps = 16
    time = 2 * longest_step(lattice)

    def end(method: str, count: int) -> np.ndarray:
        _, path = record(
            lattice, around, start, positions, step=time / count, every=count, samples=1, integrator=method
        )
        return np.asarray(path[0])

    exact = end("rk4", 64 * steps)
    errors = [float(np.abs(end(integrator, steps * 2**halving) - exact).max()) for halving in range(4)]
    return -float(np.polyfit(np.arange(4), np.log2(errors), 1)[0])


def momenta(lattice: Lattice, environment: Environment, state: State) -> tuple[jnp.ndarray, jnp.ndarray]:
    """Linear [kg m/s], (dimension,), and, about the center of mass, angular [kg m²/s], (dimension, dimension)."""
    weight = lattice.mass[..., None]
    axes = tuple(range(lattice.node_axes))
    middle = (weight * state.position).sum(axes) / lattice.mass.sum()
    linear = (weight * state.velocity).sum(axes)
    turning = ((state.position - middle)[..., :, None] * (weight * state.velocity)[..., None, :]).sum(axes)
    return linear, turning - turning.T


def momentum_errors(dimension: int = 3, steps: int = 2000) -> tuple[float, float]:
    """Of free flight under gravity with Verlet: relative to what gravity gave, and to the angular momentum at first."""
    lattice = block(dimension)
    around = Environment(gravity=jnp.asarray(GRAVITY))
    start = disturbed(lattice, 0.02)
    step = 0.5 * longest_step(lattice)
    end, path = record(lattice, around, start, momenta, step=step, every=steps // 20, samples=20, integrator="verlet")
    linear, angular = (np.asarray(value) for value in momenta(lattice, around, start))
    given = np.zeros(dimension)
    given[-1] = -float(lattice.mass.sum()) * GRAVITY * float(end.time)
    lost = np.abs(np.asarray(path[0][-1]) - linear - given).max() / np.abs(given).max()
    return float(lost), float(np.abs(np.asarray(path[1]) - angular).max() / np.linalg.norm(angular))


def explicit_growth(dimension: int = 3, share: float = 0.2) -> tuple[float, float]:
    """Energy after over before a step of explicit Euler in the highest mode, and 1 + (ω h)²; share: ω h."""
    lattice = block(dimension)
    highest = highest_mode(lattice)
    angular = 2 * np.pi * float(highest.frequency[0])
    around = Environment(gravity=jnp.asarray(0.0))
    state = State(lattice.rest_position + jnp.asarray(1e-8 * SIDE * highest.shape[0]), *_still(lattice))
    count = 100
    before = float(energy(lattice, around, state).total)
    end, _ = record(
        lattice, around, state, positions, step=share / angular, every=count, samples=1, integrator="explicit_euler"
    )
    return (float(energy(lattice, around, end).total) / before) ** (1 / count), 1 + share**2


def _still(lattice: Lattice) -> tuple[jnp.ndarray, jnp.ndarray]:
    return jnp.zeros_like(lattice.rest_position), jnp.zeros(())


def check_integrators(dimension: int = 3) -> Findings:
    """Orders, momenta, and what explicit Euler does."""
    findings = Findings()
    for integrator in INTEGRATORS:
        measured = convergence_order(integrator, dimension)
        findings.rows.append(absolute(f"order of {integrator}", measured, ORDERS[integrator], ORDER_TOLERANCE))
    linear, angular = momentum_errors(dimension)
    note = "Verlet, 2000 steps of free flight"
    findings.rows.append(absolute("linear momentum, relative", linear, 0, 1e-10, "", note))
    findings.rows.append(absolute("angular momentum, relative", angular, 0, 1e-10, "", note))
    growth, expected = explicit_growth(dimension)
    findings.rows.append(
        relative(
            "explicit Euler, energy over a step", growth, expected, 1e-3, "", "highest mode, ω h = 0.2: it never holds"
        )
    )
    return findings


# Energy after release

RELEASED = Bar(height=4, width=4, length=20, room=(4, 4, 20))
DEFLECTION = 0.01
"""of the tip under its load [m]"""
SHARE_OF_BOUND = 0.5
"""Steps over the longest stable ones, as `choose_step` has it."""
DRIFT = 0.1
"""[%]"""


def oscillation_with_gravity(bar: Bar, integrator: str, seconds: float) -> Oscillation:
    """Release under gravity, traced for some time after it [s]."""
    force = 3 * bar.bending_stiffness * DEFLECTION / bar.span**3
    return oscillate(
        bar.lattice(),
        (0.0, 0.0, -force),
        bar.frequency,
        integrator=integrator,
        gravity=9.81,
        free_periods=int(np.ceil(seconds * bar.frequency)),
        share_of_bound=SHARE_OF_BOUND,
    )


def drift_and_oscillation(path: Oscillation) -> tuple[float, float]:
    """Of the total after release [%/s, %], against the largest kinetic energy."""
    total, scale = path.energy[path.free].sum(1), path.energy[path.free, 0].max()
    time = path.time[path.free]
    line = np.polyfit(time, total, 1)
    return float(100 * line[0] / scale), float(100 * np.abs(total - np.polyval(line, time)).max() / scale)


def check_energy(bar: Bar = RELEASED, seconds: float = 1.0) -> Findings:
    """Verlet and semi-implicit Euler at the default step."""
    findings = Findings()
    for integrator in ("verlet", "semi_implicit_euler"):
        path = oscillation_with_gravity(bar, integrator, seconds)
        drift, oscillation = drift_and_oscillation(path)
        note = f"{bar.name}, step {1e6 * path.step:.1f} µs"
        findings.rows.append(absolute(f"drift in 1 s {integrator}", drift, 0, DRIFT, "%", note))
        asked = DRIFT if integrator == "verlet" else None
        findings.rows.append(absolute(f"oscillation {integrator}", oscillation, 0, asked, "%", note))
        findings.series[f"energy_{integrator}"] = {"time": path.time.tolist(), "energy": path.energy.tolist()}
    return findings

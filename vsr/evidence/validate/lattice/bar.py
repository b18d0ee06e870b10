"""Bars clamped at their left end, and frequencies of traced motion.

A bar clamped at its left end: building it, loading it, letting it come to rest, tracing it.

The clamp holds all nodes of the leftmost plane. A load is shared out over the right end as the faces of its cells
share it: a node at a corner gets a quarter of what an inner one gets. Everything is in double precision, which the
caller opens (`vsr.scene.precision`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.lattice import Environment, Lattice, State, Stiffness, energy, isotropic, longest_step, of_cells, record
from vsr.physics.statics.lattices import rest

FIRST_MODE = 3.5160
"""(β L)² of a cantilever's lowest mode."""
SAMPLES = 64
"""per period of the lowest mode"""
SHARE_OF_BOUND = 0.7
"""Steps over the longest stable ones: small oscillations need no more."""


@dataclass(frozen=True)
class Bar:
    """A block of cells along x, of an isotropic material."""

    height: int
    """[cells], as width and length"""
    width: int
    length: int
    side: float = 0.01
    """of a cell [m]"""
    young_modulus: float = 4e6
    """[Pa]"""
    density: float = 1000.0
    """[kg/m³]"""
    room: tuple[int, int, int] | None = None
    """of the grid it lies in, at the right end: height, width, length [cells]; equal rooms share compilations"""

    @property
    def name(self) -> str:
        """Length by width by height."""
        return f"{self.length}x{self.width}x{self.height}"

    @property
    def span(self) -> float:
        """From the clamp to the tip [m]."""
        return self.length * self.side

    @property
    def bending_stiffness(self) -> float:
        """E I for bending up and down [N m²]."""
        return self.young_modulus * self.width * self.height**3 * self.side**4 / 12

    @property
    def line_density(self) -> float:
        """Mass over length [kg/m]."""
        return self.density * self.width * self.height * self.side**2

    @property
    def frequency(self) -> float:
        """Of the lowest mode up and down by Euler and Bernoulli [Hz]."""
        return FIRST_MODE / (2 * np.pi) * (self.bending_stiffness / self.line_density / self.span**4) ** 0.5

    def lattice(self, springs: Stiffness | None = None) -> Lattice:
        """Undamped; springs: other than the isotropic ones."""
        size = self.height, self.width, self.length
        spare = [(room - own, 0) for room, own in zip(self.room or size, size, strict=True)]
        cells = np.pad(np.ones(size, bool), spare)
        chosen = isotropic(self.young_modulus, self.side, 3) if springs is None else springs
        return clamped(cells, self.side, chosen, self.density)


def clamped(cells: np.ndarray, side: float, springs: Stiffness, density: float) -> Lattice:
    """Any cells; the leftmost plane that has some is clamped."""
    anchored = np.zeros([size + 1 for size in cells.shape], bool)
    anchored[..., np.flatnonzero(cells.any((0, 1)))[0]] = True
    return of_cells(cells, side, springs, density, anchored=anchored, dtype=jnp.float64)


def end_load(lattice: Lattice, force: tuple[float, float, float]) -> Array:
    """A force [N] on the right end, on each node, (*nodes, 3)."""
    # The end belongs to one layer of cells, so its nodes' masses are in the ratio of the faces they hold.
    share = np.zeros(lattice.mass.shape)
    share[..., -1] = np.asarray(lattice.mass)[..., -1]
    return jnp.asarray(share[..., None] / share.sum() * np.asarray(force))


def tip_of(lattice: Lattice, position: Array) -> Array:
    """Middle of the right end [m], (3,)."""
    share = lattice.mass[..., -1, None]
    axes = tuple(range(lattice.node_axes - 1))
    return (share * position[..., -1, :]).sum(axes) / share.sum()


def tip_and_energy(lattice: Lattice, environment: Environment, state: State) -> tuple[Array, Array]:
    """Position of the tip [m], (3,), and kinetic, elastic, gravitational and load's energy [J], (4,)."""
    return tip_of(lattice, state.position), jnp.stack(energy(lattice, environment, state))


class Oscillation(NamedTuple):
    """A bar after its load was taken off, and before."""

    time: np.ndarray
    """since the release, negative before [s], (samples,)"""
    tip: np.ndarray
    """less its place at rest [m], (samples, 3)"""
    energy: np.ndarray
    """kinetic, elastic, gravitational and load's [J], (samples, 4)"""
    step: float
    """[s]"""

    @property
    def free(self) -> np.ndarray:
        """Which samples come after the release, (samples,)."""
        return self.time > 0


def oscillate(
    lattice: Lattice,
    force: tuple[float, float, float],
    frequency: float,
    *,
    integrator: str = "semi_implicit_euler",
    gravity: float = 0.0,
    damped_periods: int = 2,
    free_periods: int = 3,
    samples: int = SAMPLES,
    share_of_bound: float = SHARE_OF_BOUND,
) -> Oscillation:
    """Load the tip, let damping bring the bar to rest, take load and damping off, trace.

    frequency: of the lowest mode, near enough [Hz]; damping is critical for it. samples: per period.
    """
    every = int(np.ceil(1 / (frequency * samples * share_of_bound * step_bound(lattice, integrator))))
    step = 1 / (frequency * samples * every)
    damped = with_damping(lattice, 4 * np.pi * frequency)
    load = end_load(lattice, force)
    state = rest_state(lattice)
    tips, energies = [], []
    for period in range(damped_periods + free_periods):
        now, pushed = (damped, load) if period < damped_periods else (lattice, jnp.zeros_like(load))
        # Of equal shapes and structures in all periods, so that one compilation serves.
        around = Environment(gravity=jnp.asarray(gravity), load=pushed)
        state, (tip, held) = record(
            now, around, state, tip_and_energy, step=step, every=every, samples=samples, integrator=integrator
        )
        tips.append(np.asarray(tip))
        energies.append(np.asarray(held))
    time = (np.arange(1, len(tips) * samples + 1) - damped_periods * samples) * every * step
    return Oscillation(
        time, np.concatenate(tips) - np.asarray(tip_of(lattice, lattice.rest_position)), np.concatenate(energies), step
    )


def step_bound(lattice: Lattice, integrator: str) -> float:
    """The longest stable step [s]; the others' for explicit Euler, for which none is while nothing is damped."""
    return longest_step(lattice, integrator) or longest_step(lattice)


def rest_state(lattice: Lattice) -> State:
    """The lattice as it was built."""
    return State(lattice.rest_position, jnp.zeros_like(lattice.rest_position), jnp.zeros(()))


def with_damping(lattice: Lattice, rate: float) -> Lattice:
    """All velocities decay at a rate [1/s]."""
    # Of the same type as before, or all would be compiled once more.
    return replace(lattice, damping=jnp.asarray(rate, lattice.damping.dtype))


class Rest(NamedTuple):
    """Where a lattice rests."""

    state: State
    residual: float
    """largest force left on a node [N]"""
    converged: bool


def relax(lattice: Lattice, environment: Environment, state: State) -> Rest:
    """The equilibrium next to a state (vsr.physics.statics)."""
    found = rest(lattice, environment, state)
    still = replace(state, position=found.position, velocity=jnp.zeros_like(found.position))
    return Rest(still, float(found.residual), bool(found.converged))


def scaled_stiffness(lattice: Lattice, factor: float) -> Lattice:
    """All springs stiffer by a factor."""
    springs: Any = lattice.springs
    return replace(lattice, springs=replace(springs, stiffness=jax.tree.map(lambda k: factor * k, springs.stiffness)))


# Frequencies

PADDING = 8
"""Zeros after the signal, in its lengths: more points on the same spectrum."""


def frequency_of_crossings(time: np.ndarray, value: np.ndarray) -> float:
    """Of a motion about 0 [Hz]: a line through the times at which it crosses, interpolated between samples."""
    before = np.flatnonzero(np.sign(value[:-1]) * np.sign(value[1:]) < 0)
    if len(before) < 3:
        return float("nan")
    share = value[before] / (value[before] - value[before + 1])
    crossings = time[before] + share * (time[before + 1] - time[before])
    return float(0.5 / np.polyfit(np.arange(len(crossings)), crossings, 1)[0])


def amplitudes(time: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies [Hz] and how strong they are: the Fourier transform under Hann's window, padded with zeros."""
    window = np.hanning(len(value) + 1)[:-1]
    spectrum = np.abs(np.fft.rfft((value - value.mean()) * window, PADDING * len(value)))
    return np.fft.rfftfreq(PADDING * len(value), time[1] - time[0]), 2 * spectrum / window.sum()


def frequency_of_peak(time: np.ndarray, value: np.ndarray, near: float, within: float = 0.3) -> float:
    """Of the highest peak in a band [Hz], with a parabola through the logarithms about it.

    near: middle of the band [Hz]; within: half its width, as a share of the middle.
    """
    frequency, strength = amplitudes(time, value)
    band = np.flatnonzero(np.abs(frequency / near - 1) < within)
    if not np.isfinite(strength).all() or len(band) == 0:
        return float("nan")
    top = band[np.argmax(strength[band])]
    left, middle, right = np.log(strength[top - 1 : top + 2])
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    return float(frequency[top] + shift * (frequency[1] - frequency[0]))

"""All checks of the lattice, and the figures of their curves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vsr.evidence.validate.checks import Checks
from vsr.evidence.validate.lattice.beams import INTEGRATORS, check_beams, check_modes, check_thin_beams
from vsr.evidence.validate.lattice.integrators import check_energy, check_integrators
from vsr.evidence.validate.lattice.statics import check_cylinder, check_elastica, check_moduli

Series = dict[str, Any]
NAMES = {"semi_implicit_euler": "semi-implicit Euler", "verlet": "Verlet", "rk4": "Runge-Kutta 4"}
MARKS = {"semi_implicit_euler": "o", "verlet": "x", "rk4": "+"}


def draw(series: Series) -> Iterator[tuple[str, Figure]]:
    """Every figure there are curves for."""
    for name, drawn, needed in (
        ("frequencies", _frequencies, "beams_verlet"),
        ("energy", _energy, "energy_verlet"),
        ("spectrum", _spectrum, "spectrum_small_2"),
        ("elastica", _elastica, "elastica_theory"),
        ("cylinder", _cylinder, "cylinder_scanned"),
    ):
        if needed in series:
            yield f"lattice_{name}", drawn(series)


def _frequencies(series: Series) -> Figure:
    """Lowest frequency over length, width and height."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = figure.subplots(1, 3)
    first = next(value for name, value in series.items() if name.startswith("beams_"))
    for axes, axis in zip(panels, ("length", "width", "height"), strict=True):
        points = first[axis]
        size, expected = (np.array([point[key] for point in points]) for key in ("size", "expected"))
        power = {"length": -2, "width": 0, "height": 1}[axis]
        line = np.linspace(size.min(), size.max(), 50)
        axes.plot(100 * line, expected[0] * (line / size[0]) ** power, color="0.4", label="Euler-Bernoulli")
        for number, integrator in enumerate(NAMES):
            if f"beams_{integrator}" in series:
                swung = [point["measured"] for point in series[f"beams_{integrator}"][axis]]
                axes.plot(100 * size, swung, MARKS[integrator], mfc="none", color=f"C{number}", label=NAMES[integrator])
        axes.set(xlabel=f"{axis} [cm]", ylim=(0, 1.15 * expected.max()))
    panels[0].set_ylabel("lowest frequency [Hz]")
    panels[0].legend()
    return figure


def _energy(series: Series) -> Figure:
    """Energies before and after release, and the total's deviation after it."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    time, energy = (np.array(series["energy_verlet"][key]) for key in ("time", "energy"))
    released = int(np.flatnonzero(time > 0)[0]) - 1
    energy = 1e3 * (energy - [0, 0, energy[released, 2], 0])
    shown = time < 0.4
    for column, label in enumerate(("kinetic", "elastic", "gravitational, from the release")):
        left.plot(time[shown], energy[shown, column], label=label)
    left.plot(time[shown], energy[shown, :3].sum(1), color="k", label="total without the load's")
    left.axvline(0, color="0.6", lw=0.8)
    left.set(xlabel="time since release [s]", ylabel="energy [mJ]", title="Verlet: damped until 0, then free")
    left.set_ylim(None, 1.45 * energy[shown, :3].max())
    left.legend(ncols=2, loc="upper left")
    for number, integrator in enumerate(("semi_implicit_euler", "verlet")):
        time, energy = (np.array(series[f"energy_{integrator}"][key]) for key in ("time", "energy"))
        free = time > 0
        total, scale = energy[free].sum(1), energy[free, 0].max()
        right.plot(time[free], 100 * (total - total.mean()) / scale, color=f"C{number}", label=NAMES[integrator])
    right.set(xlabel="time since release [s]", ylabel="total - mean [% of largest kinetic]", ylim=(-0.3, 0.45))
    right.legend(loc="upper left", ncols=2)
    return figure


def _spectrum(series: Series) -> Figure:
    """Spectra of the tip after small and large deflections, with the eigenvalues."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    for axes, size in zip(figure.subplots(1, 2), ("small", "large"), strict=True):
        for axis, way in ((1, "sideways"), (2, "up and down")):
            curve = series[f"spectrum_{size}_{axis}"]
            axes.semilogy(curve["frequency"], 1e3 * np.array(curve["strength"]), color=f"C{axis - 1}", label=way)
            for solved in curve["solved"]:
                axes.axvline(solved, color=f"C{axis - 1}", ls=":", lw=1)
        axes.set(
            xlabel="frequency [Hz]", ylabel="tip's amplitude [mm]", title=f"{size} deflection; dotted: eigenvalues"
        )
        axes.legend()
    return figure


def _elastica(series: Series) -> Figure:
    """Shapes of the sagging bar."""
    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    axes = figure.subplots()
    theory = series["elastica_theory"]
    axes.plot(theory["reach"], [-drop for drop in theory["drop"]], color="0.4", lw=2.5, label="heavy elastica")
    smaller_steps = sorted(
        int(name.split("_")[1]) for name in series if name.startswith("elastica_") and name[9:].isdigit()
    )
    for number, across in enumerate(smaller_steps):
        shape = series[f"elastica_{across}"]
        axes.plot(
            shape["reach"],
            [-drop for drop in shape["drop"]],
            ".-",
            ms=3,
            lw=0.8,
            color=f"C{number}",
            label=f"{across} cells across",
        )
    axes.set(xlabel="x / L", ylabel="z / L", aspect="equal")
    axes.legend()
    return figure


def _cylinder(series: Series) -> Figure:
    """Centerlines of Marchal's cylinder."""
    figure = Figure(figsize=(4.6, 4), layout="constrained")
    axes = figure.subplots()
    for number, (name, label) in enumerate(
        (("calibrated", "lattice, E calibrated"), ("60 kPa", "lattice, E = 60 kPa"))
    ):
        line = np.array(series[f"cylinder_{name}"])
        axes.plot(line[:, 0], -line[:, 1], color=f"C{number}", label=label)
    scanned = np.array(series["cylinder_scanned"])
    axes.plot(scanned[:, 0], -scanned[:, 1], "o", mfc="none", color="k", label="CT scan (Marchal et al.)")
    axes.set(xlabel="x [mm]", ylabel="z [mm]", aspect="equal")
    axes.legend()
    return figure


SUITE = Checks(
    "lattice",
    {
        "moduli": check_moduli,
        "integrators": check_integrators,
        **{f"beams, {integrator}": partial(check_beams, integrator) for integrator in INTEGRATORS},
        "beams, two cells": check_thin_beams,
        "energy": check_energy,
        "modes": check_modes,
        "elastica": check_elastica,
        "cylinder": check_cylinder,
    },
    "float64",
    draw,
    longest_first=("beams, rk4", "cylinder", "beams, verlet", "beams, semi_implicit_euler", "elastica"),
)

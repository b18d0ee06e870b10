"""Proof by numbers: our physics against data of the original simulator, other parts against theory and measurement.

A suite is a module here with `SUITE` (command.py). A new one is its file and its line below.
This file loads no JAX, so that help is instant.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import click

from vsr.experiments.options import Device, Json, Option

SUITES = {
    "2d": "original.suite",
    "lattice": "lattice.suite",
    "sand": "sand.suite",
    "fluid": "fluid",
    "evogym": "evogym",
    "reality": "reality.suite",
    "trust": "trust.suite",
}
"""Modules of this package by the name that `--suite` takes."""


@dataclass(frozen=True)
class ValidateOptions:
    """Options of the comparisons; all but `suite`, `json` and `device` only for suites that take them."""

    suite: Annotated[
        str,
        Option(
            "Voxel robots against the original simulator's data, mass-spring lattices against theory and measurement, "
            "grains against the laws of granular matter, fluid in chambers against hydrostatics, EvoGym's physics "
            "against traces of EvoGym, grains and gas against measurements on real ones, or thousands of difficult "
            "robots, none of which may break without being reported as failed.",
            type=click.Choice([*SUITES]),
        ),
    ] = "2d"
    reference: Annotated[
        str | None,
        Option("Folder of reference data, 2d and evogym; by default the small set that is shipped.", metavar="DIR"),
    ] = None
    json: Json = None
    plots: Annotated[
        str | None,
        Option(
            "Draw the figures. 2d: Figures 5 and 6 of the paper with the original's points, and how random robots "
            "travel; lattice: frequencies, energies, spectra, the heavy elastica and the silicone cylinder; sand: "
            "silo, hourglass, heap, plate and drag; fluid: how the errors of columns fall; evogym: how errors grow; "
            "reality: a swimmer, plates and membranes beside what was measured.",
            metavar="DIR",
        ),
    ] = None
    large: Annotated[
        bool,
        Option(
            "For a GPU. sand: larger 3-D scenes, each in three packings, instead of the default checks; trust: robots "
            "of up to 400 voxels, instead of small ones for some minutes on two cores."
        ),
    ] = False
    sticking: Annotated[
        Literal["resting", "in_contact", "approaching"] | None,
        Option("For 2d: which corners may stick to the ground (world.sticking)."),
    ] = None
    device: Device = None

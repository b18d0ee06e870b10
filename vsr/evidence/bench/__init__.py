"""Benchmarks: they print metrics and never fail for being slow.

A suite is a module here with `SCENES`, each a `Benchmark` (benchmark.py). A new one is its file and its line below.
This file loads no JAX, so that help is instant.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import click

from vsr.experiments.options import Argument, Device, Json, Option, plot_option

SUITES = {
    "2d": "planar",
    "3d": "lattice",
    "sand": "sand",
    "fluid": "fluid",
    "contact": "contact",
    "environments": "environments",
    "evolve": "evolve",
    "archives": "archives",
    "growth": "growth",
}
"""Modules of this package by the name that `vsr bench` takes."""


@dataclass(frozen=True)
class BenchOptions:
    """Options of the benchmarks."""

    suite: Annotated[str, Argument(type=click.Choice([*SUITES, "all"]))] = "all"
    scenes: Annotated[tuple[str, ...], Option("Time only this scene; may be repeated.", "--scene", metavar="NAME")] = ()
    repeats: Annotated[int, Option("Timed repetitions after a warm-up.", type=click.IntRange(1, 1000), metavar="N")] = 3
    implementation: Annotated[
        Literal["auto", "xla", "fused"],
        Option("The inner loop: plain JAX, one GPU kernel, or (auto) the kernel where it can run."),
    ] = "auto"
    json: Json = None
    """the file is whole after every scene"""
    against: Annotated[
        str | None, Option("Print times as multiples of those in this file of --json.", metavar="FILE.json")
    ] = None
    plot: Annotated[str | None, plot_option("how cost grows (growth, all)")] = None
    device: Device = None

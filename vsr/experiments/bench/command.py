"""The work of `vsr bench`: run benchmarks, print their figures, write and draw them if asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax

from vsr.compute.implementation import Implementation, chosen
from vsr.experiments.bench.archives import archive_rows, bench_archives
from vsr.experiments.bench.contact import CONTACTS, BenchContact, bench_contact
from vsr.experiments.bench.environments import ENVIRONMENTS, BenchEnvironment, bench_environment
from vsr.experiments.bench.evolve import bench_evolve
from vsr.experiments.bench.fluid import FLUIDS, BenchFluid, bench_fluid
from vsr.experiments.bench.formatting import (
    contact_rows,
    device_shown,
    environment_row,
    evolve_rows,
    fluid_row,
    growth_rows,
    growth_title,
    lattice_row,
    sand_row,
    scene_row,
)
from vsr.experiments.bench.growth import Series, bench_growth, device_series
from vsr.experiments.bench.lattice import LATTICES, ROBOTS, BenchLattice, bench_lattice
from vsr.experiments.bench.planar import SCENES, BenchScene, bench_scene
from vsr.experiments.bench.plot import plot_growth
from vsr.experiments.bench.sand import SANDS, BenchSand, bench_sand
from vsr.experiments.bench.timing import without_compilation_cache
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import show_pairs
from vsr.experiments.devices import prepare
from vsr.experiments.plot.figures import FORMATS
from vsr.experiments.storage.files import target_file, write_json
from vsr.experiments.storage.provenance import describe_start
from vsr.spec import suggest

SUITES = ("2d", "3d", "sand", "fluid", "contact", "environments", "evolve", "archives", "growth")
"""What `all` runs."""
WITH_SCENES = ("2d", "3d", "sand", "fluid", "contact", "environments")


Scene = TypeVar("Scene", BenchScene, BenchLattice, BenchSand, BenchFluid, BenchContact, BenchEnvironment)


@dataclass(frozen=True)
class BenchOptions:
    """What a user asked for."""

    suite: str = "all"
    """one of SUITES or "all" """
    scenes: tuple[str, ...] = ()
    """names; if any, only these scenes are timed"""
    repeats: int = 3
    implementation: Implementation = "auto"
    json_file: str | None = None
    plot: str | None = None
    device: str | None = None


def bench(
    options: BenchOptions,
    scenes: Sequence[BenchScene] = SCENES,
    series: Sequence[Series] | None = None,
    lattices: Sequence[BenchLattice] = LATTICES,
    robots: Sequence[BenchScene] = ROBOTS,
    sands: Sequence[BenchSand] = SANDS,
    fluids: Sequence[BenchFluid] = FLUIDS,
    contacts: Sequence[BenchContact] = CONTACTS,
    environments: Sequence[BenchEnvironment] = ENVIRONMENTS,
) -> None:
    """Run suites and print the figures; series: those of the growth suite, by default chosen for the device."""
    suites = _suites(options)
    known = {
        "2d": scenes,
        "3d": (*lattices, *robots),
        "sand": sands,
        "fluid": fluids,
        "contact": contacts,
        "environments": environments,
    }
    _check_names(options, [scene for suite in suites for scene in known.get(suite, ())])
    requested = _requested(options, scenes)
    target = None if options.json_file is None else target_file("--json", options.json_file)
    figure = None if options.plot is None else target_file("--plot", options.plot, FORMATS)
    prepare(options.device)
    _check_implementation(options)
    where = describe_start(0)
    title = f"on {device_shown(where)}, jax {where['packages']['jax']}"
    report: dict[str, Any] = {"machine": where}
    with without_compilation_cache():
        if "2d" in suites and requested:
            report["scenes"] = bench_scenes(requested, options.repeats, f"bench 2d {title}", options.implementation)
        in_3d = _requested(options, lattices), _requested(options, robots)
        if "3d" in suites and any(in_3d):
            report |= _bench_3d(options, *in_3d, f"bench 3d {title}")
        if "sand" in suites and _requested(options, sands):
            report["sand"] = _bench_sand(options, _requested(options, sands), f"bench sand {title}")
        if "fluid" in suites and _requested(options, fluids):
            report["fluid"] = _bench_fluid(options, _requested(options, fluids), f"bench fluid {title}")
        if "contact" in suites and _requested(options, contacts):
            report["contact"] = _bench_contact(options, _requested(options, contacts), f"bench contact {title}")
        if "environments" in suites and (chosen_ones := _requested(options, environments)):
            report["environments"] = _bench_environments(options, chosen_ones, f"bench environments {title}")
        if "evolve" in suites:
            report |= bench_evolve(options.repeats, options.device, options.implementation)
            show_pairs(f"bench evolve {title}", evolve_rows(report))
        if "archives" in suites:
            report["archives"] = bench_archives(options.repeats)
            show_pairs(f"bench archives {title}", archive_rows(report["archives"]))
        if "growth" in suites:
            report["growth"] = _print_growth(series or device_series(), options, f"bench growth {title}")
    if target is not None:
        write_json(target, report)
    if figure is not None:
        plot_growth(report["growth"], f"How cost grows {title}", figure)


def bench_scenes(
    scenes: Sequence[BenchScene], repeats: int, title: str | None, implementation: Implementation = "auto"
) -> list[dict[str, Any]]:
    """Time scenes one after the other, printing each as it is done."""
    figures = []
    for scene in scenes:
        figures.append(bench_scene(scene, repeats, implementation))
        show_pairs(title if scene is scenes[0] else None, [scene_row(figures[-1])])
    return figures


def _bench_3d(
    options: BenchOptions, lattices: Sequence[BenchLattice], robots: Sequence[BenchScene], title: str
) -> dict[str, Any]:
    """Time lattices and 3-D robots, printing each as it is done."""
    show_pairs(title, [])
    found = []
    for scene in lattices:
        found.append(bench_lattice(scene, options.repeats, options.implementation))
        show_pairs(None, [lattice_row(found[-1])])
    return {"lattices": found, "robots_3d": bench_scenes(robots, options.repeats, None, options.implementation)}


def _bench_sand(options: BenchOptions, sands: Sequence[BenchSand], title: str) -> list[dict[str, Any]]:
    """Time beds and robots on them, printing each as it is done; a CPU takes on the large ones only by name."""
    show_pairs(title, [])
    found = []
    for scene in sands:
        if scene.everywhere or options.scenes or jax.default_backend() != "cpu":
            found.append(bench_sand(scene, options.repeats))
            show_pairs(None, [sand_row(found[-1])])
    return found


def _bench_fluid(options: BenchOptions, fluids: Sequence[BenchFluid], title: str) -> list[dict[str, Any]]:
    """Time cavities and bodies, printing each as it is done."""
    show_pairs(title, [])
    found = []
    for scene in fluids:
        found.append(bench_fluid(scene, options.repeats))
        show_pairs(None, [fluid_row(found[-1])])
    return found


def _bench_contact(options: BenchOptions, contacts: Sequence[BenchContact], title: str) -> list[dict[str, Any]]:
    """Time robots with nothing to touch and with something, printing each kind as it is done."""
    show_pairs(title, [])
    found = []
    for scene in contacts:
        found.append(bench_contact(scene, options.repeats, options.implementation))
        show_pairs(None, contact_rows(found[-1]))
    return found


def _bench_environments(
    options: BenchOptions, environments: Sequence[BenchEnvironment], title: str
) -> list[dict[str, Any]]:
    """Time environments, printing each as it is done; a CPU takes on those for an accelerator only by name."""
    show_pairs(title, [])
    found = []
    for scene in environments:
        if scene.everywhere or options.scenes or jax.default_backend() != "cpu":
            found.append(bench_environment(scene, options.repeats, options.implementation))
            show_pairs(None, [environment_row(found[-1])])
    return found


def _print_growth(series: Sequence[Series], options: BenchOptions, title: str) -> list[dict[str, Any]]:
    """Time all series, printing each as it is done."""
    show_pairs(title, [])
    growth = []
    for figures in bench_growth(series, options.repeats, options.implementation):
        show_pairs(growth_title(figures), growth_rows(figures))
        growth.append(figures)
    return growth


def _suites(options: BenchOptions) -> tuple[str, ...]:
    """What to run; raises UserError where it makes no sense."""
    suites = SUITES if options.suite == "all" else (options.suite,)
    if options.scenes:
        suites = tuple(suite for suite in suites if suite in WITH_SCENES)
        if not suites:
            raise UserError(
                f"--scene {options.scenes[0]}: bench {options.suite} has no scenes to choose from; "
                f"bench {', '.join(WITH_SCENES[:-1])} and {WITH_SCENES[-1]} have"
            )
    if options.plot is not None and "growth" not in suites:
        given = "--scene" if options.scenes else f"bench {options.suite}"
        raise UserError(f"--plot {options.plot}: it draws how cost grows, which {given} leaves out; use bench growth")
    return suites


def _check_names(
    options: BenchOptions,
    scenes: Sequence[BenchScene | BenchLattice | BenchSand | BenchFluid | BenchContact | BenchEnvironment],
) -> None:
    """Raise UserError for a name that there is not."""
    names = list(dict.fromkeys(scene.name for scene in scenes))
    for name in options.scenes:
        if name not in names:
            raise UserError(f"--scene {name}: there is no such scene{suggest(name, names)}")


def _requested(options: BenchOptions, scenes: Sequence[Scene]) -> list[Scene]:
    """Those that were named, or all."""
    return [scene for scene in scenes if not options.scenes or scene.name in options.scenes]


def _check_implementation(options: BenchOptions) -> None:
    """Refuse what cannot run on the device."""
    try:
        chosen(options.implementation)
    except ValueError as error:
        raise UserError(f"--implementation {options.implementation}: {error}") from None

"""The work of `vsr bench`: run benchmarks, print their figures, write them if asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.bench.evolve import bench_evolve
from experiments.bench.planar import SCENES, BenchScene, bench_scene
from experiments.bench.timing import shown
from experiments.devices import prepare
from experiments.files import target_file, write_json
from experiments.runs.meta import describe_start
from experiments.terminal import show_pairs


def bench_command(suite: str, repeats: int, json_file: str | None, device: str | None) -> None:
    """Run a suite and tell the figures."""
    target = None if json_file is None else target_file("--json", json_file)
    prepare(device)
    where = describe_start(0)
    title = f"on {where['device']} x {where['devices']}, jax {where['packages']['jax']}"
    report: dict[str, Any] = {"machine": where}
    if suite in ("2d", "all"):
        report["scenes"] = bench_scenes(SCENES, repeats, f"bench 2d {title}")
    if suite in ("evolve", "all"):
        report |= bench_evolve(repeats, device)
        show_pairs(f"bench evolve {title}", _rows(report))
    if target is not None:
        write_json(target, report)


def bench_scenes(scenes: Sequence[BenchScene], repeats: int, title: str) -> list[dict[str, Any]]:
    """Time scenes one after the other, telling each as it is done."""
    figures = []
    for scene in scenes:
        figures.append(bench_scene(scene, repeats))
        show_pairs(title if scene is scenes[0] else "", [_scene_row(figures[-1])])
    return figures


def _scene_row(figures: dict[str, Any]) -> tuple[str, str]:
    name = f"{figures['scene']:14} {figures['robots']:5} robots, {figures['simulated_s']:g} s x {figures['substeps']}"
    per_core = f"{figures['svsps_per_core']:,.0f} a core, " if figures["svsps_per_core"] else ""
    speed = f"{figures['svsps']:,.0f} SVSPS, {per_core}{figures['spring_updates_per_s']:.3g} springs/s"
    return name, f"{speed}; {shown(figures)}; compile {figures['compile_s']:.1f} s"


def _rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    generation, search, start = figures["generation"], figures["search"], figures["start"]
    life = f"{generation['simulated_s']:g} s at {generation['time_step_s']:.4g} s x {generation['substeps']} substeps"
    memory = f"{generation['host_peak_bytes'] / 1e9:.2f} GB on the host"
    if generation["device_peak_bytes"]:
        memory += f", {generation['device_peak_bytes'] / 1e9:.2f} GB on the device"
    return [
        (f"{generation['robots']} bipeds, {life}", shown(generation)),
        ("  simulated voxel steps per second", f"{generation['svsps']:,.0f}"),
        ("  compile", f"{generation['compile_s']:.2f} s"),
        ("  peak memory", memory),
        (f"search alone, {search['individuals']} x {search['genes']} genes", shown(search)),
        ("first start, nothing compiled before", f"{start['first_s']:.2f} s"),
        ("second start", f"{start['second_s']:.2f} s, {start['ratio']:.1f} times quicker"),
    ]

"""The work of `vsr bench`: run the benchmark, print its figures, write them if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.bench.evolve import bench_evolve
from experiments.config.problems import UserError
from experiments.devices import prepare
from experiments.files import write_json
from experiments.runs.meta import describe_start
from experiments.terminal import show_pairs


def bench_command(repeats: int, json_file: str | None, device: str | None) -> None:
    """Time an evolution and tell the figures."""
    target = None if json_file is None else Path(json_file)
    if target is not None and not target.parent.is_dir():
        raise UserError(f"--json {json_file}: there is no folder {target.parent}")
    prepare(device)
    figures = bench_evolve(repeats, device)
    where = describe_start(0)
    if target is not None:
        write_json(target, {**figures, "machine": where})
    show_pairs(f"bench evolve on {where['device']}, jax {where['packages']['jax']}", _rows(figures))


def _rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    generation, search, start = figures["generation"], figures["search"], figures["start"]
    life = f"{generation['simulated_s']:g} s at {generation['time_step_s']:.4g} s x {generation['substeps']} substeps"
    memory = f"{generation['host_peak_bytes'] / 1e9:.2f} GB on the host"
    if generation["device_peak_bytes"]:
        memory += f", {generation['device_peak_bytes'] / 1e9:.2f} GB on the device"
    return [
        (f"{generation['robots']} bipeds, {life}", _times(generation)),
        ("  simulated voxel steps per second", f"{generation['svsps']:,.0f}"),
        ("  compile", f"{generation['compile_s']:.2f} s"),
        ("  peak memory", memory),
        (f"search alone, {search['individuals']} x {search['genes']} genes", _times(search)),
        ("first start, nothing compiled before", f"{start['first_s']:.2f} s"),
        ("second start", f"{start['second_s']:.2f} s, {start['ratio']:.1f} times quicker"),
    ]


def _times(figures: dict[str, Any]) -> str:
    return (
        f"{figures['median_s']:.4g} s (median of {figures['repeats']}; "
        f"{figures['fastest_s']:.4g} to {figures['slowest_s']:.4g})"
    )

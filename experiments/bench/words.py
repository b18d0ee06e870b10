"""Figures of benchmarks for people."""

from __future__ import annotations

from typing import Any

from experiments.bench.timing import bytes_shown, shown


def scene_row(figures: dict[str, Any]) -> tuple[str, str]:
    """What was timed, and what it came to."""
    name = f"{figures['scene']:14} {figures['robots']:5} robots, {figures['simulated_s']:g} s x {figures['substeps']}"
    per_core = f"{figures['svsps_per_core']:,.0f} a core, " if figures["svsps_per_core"] else ""
    speed = f"{figures['svsps']:,.0f} SVSPS, {per_core}{figures['spring_updates_per_s']:.3g} springs/s"
    memory = f", {bytes_shown(figures['peak_bytes'])}" if figures["peak_bytes"] else ""
    return name, f"{speed}; {shown(figures)}; compile {figures['compile_s']:.1f} s{memory}; {figures['implementation']}"


def evolve_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """All that `vsr bench evolve` finds out."""
    generation, search, start = figures["generation"], figures["search"], figures["start"]
    life = f"{generation['simulated_s']:g} s at {generation['time_step_s']:.4g} s x {generation['substeps']} substeps"
    memory = f"{bytes_shown(generation['host_peak_bytes'])} on the host"
    if generation["device_peak_bytes"]:
        memory += f", {bytes_shown(generation['device_peak_bytes'])} on the device"
    return [
        (f"{generation['robots']} bipeds, {life}", f"{shown(generation)}; {generation['implementation']}"),
        ("  simulated voxel steps per second", f"{generation['svsps']:,.0f}"),
        ("  compile", f"{generation['compile_s']:.2f} s"),
        ("  peak memory of the process", memory),
        (f"search alone, {search['individuals']} x {search['genes']} genes", shown(search)),
        ("first start, nothing compiled before", f"{start['first_s']:.2f} s"),
        ("second start", f"{start['second_s']:.2f} s, {start['ratio']:.1f} times quicker"),
    ]


def device_shown(where: dict[str, Any]) -> str:
    """What computed, from the description of a start."""
    platform, kind = where["device"].split(": ", 1)
    if platform == "cpu":
        return f"{where['devices']} CPU core{'s' if where['devices'] > 1 else ''} ({where['machine']})"
    return kind if where["devices"] == 1 else f"{where['devices']} x {kind}"

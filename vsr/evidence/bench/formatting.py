"""Figures of benchmarks for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vsr.evidence.bench.timing import bytes_shown, shown


def scene_row(figures: dict[str, Any]) -> tuple[str, str]:
    """What was timed, and what it came to."""
    name = f"{figures['scene']:14} {figures['robots']:5} robots, {figures['simulated_s']:g} s x {figures['substeps']}"
    per_core = f"{figures['svsps_per_core']:,.0f} a core, " if figures["svsps_per_core"] else ""
    speed = f"{figures['svsps']:,.0f} SVSPS, {per_core}{figures['spring_updates_per_s']:.3g} springs/s"
    memory = f", {bytes_shown(figures['peak_bytes'])}" if figures["peak_bytes"] else ""
    return name, f"{speed}; {shown(figures)}; compile {figures['compile_s']:.1f} s{memory}; {figures['implementation']}"


def lattice_row(figures: dict[str, Any]) -> tuple[str, str]:
    """What was timed, and what it came to."""
    name = f"{figures['scene']:16} {figures['springs']:,} springs x {figures['steps']} steps"
    memory = f", {bytes_shown(figures['peak_bytes'])}" if figures["peak_bytes"] else ""
    speed = f"{figures['spring_updates_per_s']:.3g} springs/s"
    return name, f"{speed}; {shown(figures)}; compile {figures['compile_s']:.1f} s{memory}; {figures['implementation']}"


def sand_row(figures: dict[str, Any]) -> tuple[str, str]:
    """What was timed, and what it came to."""
    worlds = f" x {figures['worlds']} worlds" if figures["worlds"] > 1 else ""
    name = f"{figures['scene']:16} {figures['grains']:,} grains{worlds} x {figures['steps']} steps"
    memory = f", {bytes_shown(figures['peak_bytes'])}" if figures["peak_bytes"] else ""
    speed = f"{figures['grain_steps_per_s']:.3g} grain-steps/s"
    return name, f"{speed}; {shown(figures)}; compile {figures['compile_s']:.1f} s{memory}"


def fluid_row(figures: dict[str, Any]) -> tuple[str, str]:
    """What was timed, and what it came to."""
    grid = f", {figures['grid']}² columns" if figures["grid"] else ""
    name = f"{figures['scene']:12} {figures['bodies']} x {figures['faces']:,} faces{grid}"
    memory = f", {bytes_shown(figures['peak_bytes'])}" if figures["peak_bytes"] else ""
    speed = f"{duration(figures['round_s'])} for all; {figures['rounds']} rounds in {shown(figures)}"
    return name, f"{speed}; compile {figures['compile_s']:.1f} s{memory}"


def contact_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Of robots of one kind: the time with nothing to touch, and multiples of it."""
    rows = []
    for world, found in figures["worlds"].items():
        name = f"{figures['scene']:16} {figures['robots']:5} robots, {world}"
        rows.append((name, f"{found['times']:.3g} x; {shown(found)}; {found['substeps']} substeps"))
    return rows


def environment_row(figures: dict[str, Any]) -> tuple[str, str]:
    """What was timed, and what it came to."""
    name = f"{figures['scene']:16} {figures['robots']:5} robots x {figures['steps']} steps of {figures['substeps']}"
    per_core = figures["steps_per_cpu_s"]
    each = "" if per_core is None else f"{per_core:,.0f} a CPU-second, "
    speed = f"{figures['steps_per_s']:,.0f} environment steps/s, {each}{figures['times_evogym']:,.3g} x EvoGym"
    memory = f", {bytes_shown(figures['peak_bytes'])}" if figures["peak_bytes"] else ""
    return name, f"{speed}; {shown(figures)}; compile {figures['compile_s']:.1f} s{memory}; {figures['implementation']}"


def evolve_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """All that `vsr bench evolve` finds out."""
    generation, search, start = figures["generation"], figures["search"], figures["start"]
    episode = (
        f"{generation['simulated_s']:g} s at {generation['time_step_s']:.4g} s x {generation['substeps']} substeps"
    )
    memory = f"{bytes_shown(generation['host_peak_bytes'])} on the host"
    if generation["device_peak_bytes"]:
        memory += f", {bytes_shown(generation['device_peak_bytes'])} on the device"
    return [
        (f"{generation['robots']} bipeds, {episode}", f"{shown(generation)}; {generation['implementation']}"),
        ("  simulated voxel steps per second", f"{generation['svsps']:,.0f}"),
        ("  compile", f"{generation['compile_s']:.2f} s"),
        ("  peak memory of the process", memory),
        (f"search alone, {search['individuals']} x {search['genes']} genes", shown(search)),
        ("first start, nothing compiled before", f"{start['first_s']:.2f} s"),
        ("second start", f"{start['second_s']:.2f} s, {start['ratio']:.1f} times quicker"),
    ]


def growth_rows(series: dict[str, Any]) -> list[tuple[str, str]]:
    """A row per point, and the slopes."""
    rows = []
    columns = (series[name] for name in ("x", "s_per_simulated_s", "s_per_voxel_step", "svsps"))
    for x, cost, step, svsps in zip(*columns, strict=True):
        text = f"{duration(cost)} per simulated second, {duration(step)} per voxel step, {svsps:,.0f} SVSPS"
        rows.append((f"{x:6,.4g} {series['over']}", text))
    return [*rows, ("slope", slope_shown(series))]


def growth_title(series: dict[str, Any]) -> str:
    """Which number grows, and what stays."""
    simulated = _once(series["simulated_s"])
    return f"growth over {series['over']}: {fixed_shown(series)}, {simulated} s simulated, {series['implementation']}"


def slope_shown(series: dict[str, Any]) -> str:
    """Over all points, and of the two largest."""
    return f"{series['slope']:.2f}, at the end {series['slope_at_end']:.2f}"


def device_shown(where: dict[str, Any]) -> str:
    """What computed, from the description of a start."""
    platform, kind = where["device"].split(": ", 1)
    if platform == "cpu":
        return f"{where['devices']} CPU core{'s' if where['devices'] > 1 else ''} ({where['machine']})"
    return kind if where["devices"] == 1 else f"{where['devices']} x {kind}"


def fixed_shown(series: dict[str, Any]) -> str:
    """The numbers that stay the same in a series."""
    words = {"voxels": "voxels each", "robots": "robots", "substeps": "substeps"}
    counts = series["fixed"]
    return ", ".join(
        f"{counts[name]:,.4g} {words[name]}" for name in ("robots", "voxels", "substeps") if name in counts
    )


def duration(seconds: float) -> str:
    """A time with three digits and a unit that suits it."""
    units = ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)
    unit, size = next((pair for pair in units if seconds >= pair[1]), units[-1])
    return f"{seconds / size:#.3g}".rstrip(".") + f" {unit}"


def _once(values: Sequence[float]) -> str:
    """A number, or the range of several."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"

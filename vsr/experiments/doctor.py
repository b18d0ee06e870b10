"""The work of `vsr doctor`: what is installed, what computes, and what is missing, each with what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

import vsr
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import cell, console_for_tables, say
from vsr.experiments.installed import CONFIGS, PACKAGE

DISTRIBUTION = "voxel-soft-robots"
EXTRAS = {
    "gym": (("gymnasium",), "environments for gymnasium"),
    "es": (("evosax", "optax"), "evolution strategies"),
    "learning": (("optax",), "policies by vsr train, learning by gradients"),
    "mesh": (("trimesh", "rtree"), "bodies from meshes"),
    "slurm": (("submitit",), "sweeps on a cluster"),
    "video": (("imageio_ffmpeg",), "films as MP4"),
}
"""What can be installed besides: modules, and what for."""
LINKS = ("evo", "experiments", "configs", "cli.py")
"""At the top of a checkout, into the package."""
SPOKEN_OF = ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_COMPILATION_CACHE_DIR", "VSR_TRUST_PLUGINS")
"""Variables of the environment that change what commands do."""
DRIVER = Path("/proc/driver/nvidia/version")


class Finding(NamedTuple):
    """A line of the report."""

    name: str
    value: str
    state: str = ""
    """empty if all is well, "missing" for what commands can do without, "broken" for what `vsr evolve` needs"""
    remedy: str = ""


def doctor() -> int:
    """Print all findings; returns the exit code: 1 if one is broken, else 0."""
    findings = list(examine())
    table = Table(box=None, show_header=False)
    for one in findings:
        remedy = f"; {one.remedy}" if one.remedy else ""
        color = {"missing": "yellow", "broken": "red"}.get(one.state)
        state = f"[{color}]{one.state}[/{color}]" if color else "ok"
        table.add_row(cell(one.name), state, cell(f"{one.value}{remedy}"))
    console_for_tables().print(table, highlight=False)
    broken = [one.name for one in findings if one.state == "broken"]
    say(f"broken: {', '.join(broken)}" if broken else "vsr evolve has all it needs")
    return 1 if broken else 0


def examine() -> Iterator[Finding]:
    """Everything, one after the other."""
    from vsr.experiments.devices import flags_of_user

    yield Finding("vsr", f"{vsr.__version__}, {PACKAGE}")
    yield Finding("python", f"{platform.python_version()}, {sys.executable}")
    yield from _requirements()
    yield from _devices()
    yield from _extras()
    yield _ffmpeg()
    yield _cache()
    yield _shipped()
    yield from _links()
    yield _folder()
    given = {name: os.environ.get(name, "") for name in SPOKEN_OF}
    given["XLA_FLAGS"] = flags_of_user(given["XLA_FLAGS"])
    yield from (Finding(name, value) for name, value in given.items() if value)


def _requirements() -> Iterator[Finding]:
    """Packages that nothing works without."""
    try:
        required = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        yield Finding("installation", "not installed, only found", "missing", "in a checkout: pip install -e .")
        return
    for line in required:
        named = re.match(r"([\w.-]+)\s*([^;]*)$", line)
        if named is None:  # of an extra
            continue
        name, bounds = named[1], named[2].strip("() ")
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding(name, "not installed", "broken", f"pip install '{name}{bounds}'")
            continue
        if within(found, bounds):
            yield Finding(name, found)
        else:
            yield Finding(name, f"{found}, and {bounds} is needed", "broken", f"pip install '{name}{bounds}'")


def within(found: str, bounds: str) -> bool:
    """Whether a version lies within bounds such as `>=0.10.1,<0.13`."""
    own = _numbers(found)
    for bound in filter(None, bounds.replace(" ", "").split(",")):
        at_least, below = bound.removeprefix(">="), bound.removeprefix("<")
        if bound.startswith(">=") and own < _numbers(at_least):
            return False
        if bound.startswith("<") and own >= _numbers(below):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def _devices() -> Iterator[Finding]:
    """What computes, and whether it does."""
    try:
        import jax
        import jax.numpy as jnp

        from vsr.compute.implementation import why_plain
        from vsr.experiments.devices import prepare

        prepare()
        devices = jax.devices()
        total = int(jnp.arange(4).sum())
    except (ImportError, UserError, RuntimeError, OSError) as error:
        yield Finding("devices", (str(error).splitlines() or [type(error).__name__])[0], "broken")
        return
    if total != 6:
        yield Finding("devices", f"0 + 1 + 2 + 3 = {total} on {devices[0]}", "broken")
        return
    kind, number = devices[0].device_kind, len(devices)
    if devices[0].platform == "cpu":
        unused = DRIVER.exists()
        state, remedy = ("missing", _pip("cuda12")) if unused else ("", "")
        with_gpu = ", and an NVIDIA driver that jax does not use" if unused else ""
        yield Finding("devices", f"{number} CPU core{'s' if number > 1 else ''}{with_gpu}", state, remedy)
    else:
        yield Finding("devices", f"{number} x {kind} ({devices[0].platform})")
    reason = why_plain(jnp.dtype(jnp.float32))
    yield Finding(
        "implementation", "GPU kernels" if reason is None else f"plain JAX; a GPU kernel cannot run: {reason}"
    )


def _extras() -> Iterator[Finding]:
    for extra, (modules, purpose) in EXTRAS.items():
        absent = [name for name in modules if importlib.util.find_spec(name) is None]
        if absent:
            yield Finding(f"[{extra}]", f"{purpose}: no {', '.join(absent)}", "missing", _pip(extra))
        else:
            yield Finding(f"[{extra}]", f"{purpose}: {', '.join(modules)}")


def _pip(extra: str) -> str:
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def _ffmpeg() -> Finding:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe  # pyright: ignore[reportMissingImports]

        return Finding("ffmpeg", get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        return Finding("ffmpeg", f"{error}; films can be GIFs", "missing", _pip("video"))


def _cache() -> Finding:
    from vsr.experiments.devices import cache_folder

    chosen = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    folder = cache_folder() if chosen is None else Path(chosen)
    if folder is None:
        return Finding("cache", "no folder of your own to keep compiled programs in", "missing", "set XDG_CACHE_HOME")
    size = sum(entry.stat().st_size for entry in os.scandir(folder)) if folder.is_dir() else 0
    return Finding("cache", f"{folder}, {size / 1e6:.0f} MB of compiled programs")


def _shipped() -> Finding:
    number = sum(1 for _ in CONFIGS.rglob("*.yaml"))
    if not number:
        return Finding("shipped files", f"none in {CONFIGS}", "broken", f"pip install --force-reinstall {DISTRIBUTION}")
    return Finding("shipped files", f"{number}; vsr list configs")


def _links() -> Iterator[Finding]:
    """Only a checkout has them."""
    root = PACKAGE.parent
    if not (root / "pyproject.toml").is_file():
        return
    lost = [name for name in LINKS if (root / name).resolve() != PACKAGE / name]
    if lost:
        remedy = f"git checkout -- {' '.join(lost)}"
        yield Finding("links", f"{', '.join(lost)} at the top of {root}", "missing", remedy)
    else:
        yield Finding("links", f"{', '.join(LINKS)} in {root}")


def _folder() -> Finding:
    try:
        with tempfile.TemporaryFile(dir="."):
            return Finding("this folder", f"{Path.cwd()}, runs go into runs/")
    except OSError as error:
        return Finding("this folder", f"cannot be written: {error.strerror}", "missing", "go elsewhere, or give --out")

"""How a run was made: versions, device, commit and command of every start, and the time they took."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vsr import __version__
from vsr.arrays import CorruptFileError
from vsr.experiments.devices import code_generator, flags_of_user
from vsr.experiments.storage.settings import META, read_meta
from vsr.experiments.storage.statistics import STATISTICS, read_statistics

PACKAGES = ("vsr", "jax", "jaxlib", "numpy")
SHAPE_DIGITS = ("device", "devices", "machine", "python", "packages", "commit", "flags", "code_generator")
"""Properties of a session that can change the last digits of results."""
FLAGS = ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "CUDA_VISIBLE_DEVICES", "JAX_DEFAULT_MATMUL_PRECISION")


def describe_session(generation: int) -> dict[str, Any]:
    """One start of a run, at a generation."""
    device = jax.devices()[0]
    return {
        "generation": generation,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["vsr", *sys.argv[1:]]),
        "device": f"{device.platform}: {device.device_kind}",
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": commit(),
        "flags": _without_own({name: os.environ[name] for name in FLAGS if name in os.environ}),
        "code_generator": code_generator(),
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Differences between two sessions that can change the last digits of results."""
    return [f"{name} was {old.get(name)}, is {new[name]}" for name in SHAPE_DIGITS if old.get(name) != new[name]]


def _without_own(flags: dict[str, str]) -> dict[str, str]:
    """Flags as the user set them."""
    own = {"XLA_FLAGS": flags_of_user(flags["XLA_FLAGS"])} if "XLA_FLAGS" in flags else {}
    return {name: value for name, value in {**flags, **own}.items() if value or name not in own}


def _version(package: str) -> str:
    return __version__ if package == "vsr" else version(package)


def commit() -> str | None:
    """The commit of the source, with + if it was changed since; None outside a repository."""
    root = Path(__file__).resolve().parents[3]

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD") if (root / ".git").exists() else None
    return None if head is None else head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


@dataclass(frozen=True)
class Provenance:
    """How a run was made."""

    sessions: tuple[dict[str, Any], ...]
    """as the run folder lists them"""
    seconds: float
    """all generations together, without compiling and without what was lost in kills [s]"""
    warnings: tuple[str, ...] = ()
    """files that could not be read"""

    @property
    def compiling(self) -> float:
        """All sessions together [s]; a session that was killed while it compiled is not counted."""
        known = (start.get("compile_seconds") for start in self.sessions)
        return sum(seconds for seconds in known if isinstance(seconds, int | float))


def making(run: Path) -> Provenance:
    """The provenance of a run, from its folder."""
    meta, fault = read_meta(run)
    sessions = meta["sessions"]
    if not sessions:
        fault = (
            f"{fault or f'{run / META}: it has no sessions'}; versions, device and command of this run are not known"
        )
    return Provenance(tuple(sessions), _seconds(run / STATISTICS), (fault,) if fault else ())


def _seconds(file: Path) -> float:
    """Of all generations together [s]."""
    try:
        return float(np.nansum(read_statistics(file).seconds))
    except CorruptFileError:
        return 0.0

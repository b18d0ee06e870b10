"""What a run was made with: versions, device, commit, command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from vsr.experiments.devices import code_generator, flags_of_user

PACKAGES = ("vsr", "jax", "jaxlib", "numpy")
SHAPE_DIGITS = ("device", "devices", "machine", "python", "packages", "commit", "flags", "code_generator")
"""What of a start can change the last digits of results."""
FLAGS = ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "CUDA_VISIBLE_DEVICES", "JAX_DEFAULT_MATMUL_PRECISION")


def describe_start(generation: int) -> dict[str, Any]:
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
    """What differs between two starts that can change the last digits of results."""
    return [f"{name} was {old.get(name)}, is {new[name]}" for name in SHAPE_DIGITS if old.get(name) != new[name]]


def _without_own(flags: dict[str, str]) -> dict[str, str]:
    """Flags as the user set them."""
    own = {"XLA_FLAGS": flags_of_user(flags["XLA_FLAGS"])} if "XLA_FLAGS" in flags else {}
    return {name: value for name, value in {**flags, **own}.items() if value or name not in own}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None  # run from a source tree that was never installed


def commit() -> str | None:
    """The commit of the source, with + if it was changed since; None outside a repository."""
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD") if (root / ".git").exists() else None
    return None if head is None else head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")

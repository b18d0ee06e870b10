"""What this computer has: memory that a process may still take, and that of an accelerator."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import jax

MEMORY = Path("/proc/meminfo")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
SHARE_OF_DEVICE = 0.6
BYTES_ON_HOST = 2**30
UNLIMITED = 2**60
"""Groups of processes that are not limited say such a number, or `max`."""


def host_memory() -> float:
    """Memory that this process may still take [bytes]: what is free, and what limits allow."""
    return min(_free(), _left_in_group(), _left_for_process())


def accelerator_memory() -> float | None:
    """What an accelerator's programs may use in all [bytes]; None where processors compute, or it is not known."""
    if jax.default_backend() == "cpu":
        return None
    statistics = jax.local_devices()[0].memory_stats() or {}
    return float(statistics["bytes_limit"]) if "bytes_limit" in statistics else None


def memory_limit() -> float:
    """What a device may use while it runs a generation [bytes]: much of an accelerator, a modest part of a computer."""
    own = accelerator_memory()
    return BYTES_ON_HOST / jax.local_device_count() if own is None else SHARE_OF_DEVICE * own


def _free() -> float:
    try:
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError):
        return float("inf")


def _left_in_group() -> float:
    """Of the memory of a container or a job of a cluster."""
    try:
        lines = [line.split(":", 2) for line in OWN_GROUP.read_text().splitlines()]
    except OSError:
        return float("inf")
    left = float("inf")
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":
            names, folder = ("memory.max", "memory.current"), GROUPS
        elif "memory" in controllers.split(","):
            names, folder = ("memory.limit_in_bytes", "memory.usage_in_bytes"), GROUPS / "memory"
        else:
            continue
        own = folder / path.lstrip("/")
        for group in (own, *own.parents):
            most, used = (_number(group / name) for name in names)
            if most is not None and used is not None and most < UNLIMITED:
                left = min(left, most - used)
            if group == folder:
                break
    return max(left, 0.0)


def _left_for_process() -> float:
    """Of what `ulimit -v` allows."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return float("inf")
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        taken = 0
    return max(float(most - taken), 0.0)


def _number(file: Path) -> float | None:
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return None

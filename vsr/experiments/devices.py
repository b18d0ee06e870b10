"""Which devices compute, and where compiled programs are kept to make a second start quick.

`prepare` must run before anything is computed. Programs are kept by JAX, which finds them by their lowered form: if
anything that a program is made from changes, it is another program. This module loads little, so that devices can start
while others are loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import stat
import threading
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache

from vsr.compute.implementation import why_plain
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import Console, say
from vsr.experiments.launch import Launch, join

if TYPE_CHECKING:
    from vsr.scene import Physics

MOST_KEPT = 2**31
"""Compiled programs that are kept [bytes]; beyond it the oldest half goes."""
GENERATOR_FLAG = "xla_cpu_use_fusion_emitters"
OWN_FLAG = f"--{GENERATOR_FLAG}=false"
UNTIMED = "--xla_gpu_autotune_level=0", "--xla_gpu_enable_triton_gemm=false"
"""Flags that `prepare` may add to the user's XLA_FLAGS."""


def prepare(device: str | None = None, launch: Launch | None = None) -> Any:
    """Choose the device: "cpu" or "gpu"; by default the best there is. launch: to compute with other processes."""
    _configure(device)
    if launch is None:
        _keep_compiled_programs()
    else:  # programs of several processes can only be loaded where all have them
        join(launch)
    try:
        found = jax.devices(device)[0]
    except (RuntimeError, AssertionError) as error:
        asked = f"--device {device}" if device else f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        reason = (str(error).splitlines() or ["jax found no such device"])[0]
        hint = "install jax with CUDA (pip install 'jax[cuda12]' or 'jax[cuda13]') or leave it out"
        raise UserError(f"{asked}: it cannot be used: {reason}; {hint}") from None
    reason = None if found.platform == "cpu" else why_plain(jnp.dtype(jnp.float32))
    if reason is not None:
        say(f"This GPU computes in plain JAX, which is slower than kernels: {reason}.", Console(stderr=True))
    return found


def start_early(device: str | None) -> None:
    """Let devices start in a thread, for the caller to load modules meanwhile; `prepare` waits for them.

    Not where this process will join others, which comes first.
    """
    _configure(device)

    def start() -> None:
        with contextlib.suppress(RuntimeError, AssertionError):  # for `prepare` to report
            jax.devices(device)

    threading.Thread(target=start, name="start of devices").start()


def _configure(device: str | None) -> None:
    """Settings of JAX and XLA that must stand when devices start."""
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    _use_every_core()
    _generate_quick_code()
    if device != "cpu":
        _time_no_kernels()
        _draw_by_kernel()


def check_implementation(physics: Physics) -> None:
    """Refuse what cannot run on the device; after `prepare`."""
    try:
        physics.check_device()
    except ValueError as error:
        raise UserError(f"physics.implementation: {error}") from None


def _use_every_core() -> None:
    """Let every processor core be a device of its own: robots are shared out among devices, and small arrays that stay
    in one core's cache are quicker than large ones that all cores work on."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # the user has chosen
    with contextlib.suppress(RuntimeError):  # jax has begun to compute, and it is too late
        jax.config.update("jax_num_cpu_devices", _cores())
    if version("jaxlib").startswith("0.11."):  # its Shardy ends the process on worlds with blocks; 0.10 and 0.12 do not
        jax.config.update("jax_use_shardy_partitioner", False)


def _generate_quick_code() -> None:
    """Let XLA generate code for processors as it used to: compiled sooner, and 4 to 11 % quicker with robots.

    jaxlib 0.10 has two generators of code for fused loops and takes the newer one by default; 0.11 has one, and ends
    processes that name the flag.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _has_two_generators() and GENERATOR_FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {OWN_FLAG}".strip()


def _time_no_kernels() -> None:
    """Let XLA take its default kernels on a GPU, and not compile several for every sum and product to time them.

    Programs are compiled sooner, and every time alike: what is the quickest by a hair rounds otherwise than the second.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    added = [flag for flag in UNTIMED if flag.split("=")[0] not in flags]
    if added:
        os.environ["XLA_FLAGS"] = " ".join([flags, *added]).strip()


def _draw_by_kernel() -> None:
    """Let JAX's own GPU kernel draw random numbers: the same ones, and a search compiles in a third of the time."""
    if hasattr(jax.config, "jax_threefry_gpu_kernel_lowering"):
        jax.config.update("jax_threefry_gpu_kernel_lowering", True)


def flags_of_user(flags: str) -> str:
    """XLA_FLAGS without what `prepare` adds to them, in this process or in one that started it."""
    own = {OWN_FLAG, *UNTIMED}
    return " ".join(flag for flag in flags.split(" ") if flag not in own).strip()


def code_generator() -> str | None:
    """Which of XLA's two generators of code for processors is asked for, "older" or "newer"; None if it has but one."""
    if not _has_two_generators():
        return None
    asked = re.findall(rf"--{GENERATOR_FLAG}=(\w+)", os.environ.get("XLA_FLAGS", ""))
    return "older" if asked and asked[-1].lower() in ("false", "0") else "newer"


def _has_two_generators() -> bool:
    return version("jaxlib").startswith("0.10.")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _keep_compiled_programs() -> None:
    """Let JAX's compiled programs outlive the process, unless the user's environment configures JAX's cache."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") is not None:
        return
    folder = cache_folder()
    if folder is None:
        return  # a home that cannot be written to only costs time
    _forget_oldest(folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if jax.config.jax_compilation_cache_dir != str(folder):  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()  # or else JAX would not look there once it has looked elsewhere


def cache_folder() -> Path | None:
    """Where compiled programs are kept, one folder per kind of processor: programs for one need not run on another.

    None where it cannot be this user's alone: what is read from it is run.
    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home
        return None
    return private_folder(base / "vsr" / f"compiled-{_processor()}")


def private_folder(path: Path) -> Path | None:
    """The folder, made if need be and closed to others; None if it is a link, somebody else's, or cannot be made.

    The content of a folder that others could write to is removed: it can be made again.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if found.st_mode & 0o077:
            path.chmod(0o700)
        if found.st_mode & 0o022:
            for entry in path.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        return path
    except OSError:
        return None


def _forget_oldest(folder: Path) -> None:
    """Remove the oldest programs once all together take too much."""
    with contextlib.suppress(OSError):
        files = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder)]
        excess = sum(size for _, size, _ in files) - MOST_KEPT
        for _, size, path in sorted(files) if excess > 0 else ():
            os.unlink(path)
            excess -= size
            if excess < -MOST_KEPT / 2:
                return


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    features = sorted(
        {line for line in lines if line.lower().startswith(("flags", "features", "model name", "cpu part"))}
    )
    return hashlib.sha256("\n".join([platform.machine(), *features]).encode()).hexdigest()[:12]

"""A store of compiled programs that also saves tracing: a second start of the same experiment only loads them.

In JAX's own store a program is found by its lowered form, which takes seconds of Python to make. Here it is found by
what it is made from: the experiment, the source of these packages and of plugins, versions, devices and flags.

Loading a program runs it, so that only what this user has written is loaded (experiments.private). Whatever goes wrong
with the store costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from vsr.experiments.config.plugins import digests, plugin_modules
from vsr.experiments.devices import cache_folder
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import PACKAGE
from vsr.experiments.private import private_folder, read_signed, write_signed

NOT_COMPILED = ("generations", "checkpoint_seconds", "seeds")
"""What of an experiment is no part of its programs; of the seeds only the number is."""
SOURCES = (PACKAGE, (PACKAGE / "evo").resolve(), (PACKAGE / "experiments").resolve())
"""In a checkout two of them lie beside the package, behind links."""
KEPT = 40
"""Experiments whose programs are kept."""


def recall(experiment: Experiment) -> tuple[Any, list[Any]] | None:
    """What was remembered of the same experiment: a plain value and its programs, loaded; None if there is nothing."""
    file = _file(experiment)
    if file is None or not os.path.lexists(file):
        return None
    try:
        data = read_signed(file)
        if data is None:
            raise PermissionError(f"{file}: not written by this user")
        value, stored = pickle.loads(data)
        programs = [
            serialize_executable.deserialize_and_load(*program, execution_devices=jax.devices()[:devices])
            for program, devices in stored
        ]
    except Exception:  # written by something else, or torn: as if it were not there
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):
        file.touch()
    return value, programs


def remember(experiment: Experiment, value: Any, programs: Sequence[tuple[Any, int]]) -> None:
    """Keep a plain value and compiled programs, each with the number of devices it runs on."""
    file = _file(experiment)
    if file is None:
        return
    try:
        stored = [(serialize_executable.serialize(program), devices) for program, devices in programs]
        write_signed(file, pickle.dumps((value, stored)))
        for old in sorted(file.parent.glob("*.programs"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError, TypeError, pickle.PicklingError, jax.errors.JaxRuntimeError):
        return


def _file(experiment: Experiment) -> Path | None:
    folder = _folder()
    return None if folder is None else folder / f"{_fingerprint(experiment)}.programs"


def _folder() -> Path | None:
    """None if the user turned the store off or others may write to it; or for JAX's own: what was loaded from that one
    cannot be stored again."""
    enabled = jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
    own = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if not enabled or own or (folder := cache_folder()) is None:
        return None
    return private_folder(folder / "evolutions")


def _fingerprint(experiment: Experiment) -> str:
    plain = experiment.to_plain()
    device = jax.devices()[0]
    made_from = {
        "experiment": {name: value for name, value in plain.items() if name not in NOT_COMPILED},
        "seeds": len(experiment.seeds),
        "source": source_digest(),
        "plugins": digests(plugin_modules(experiment.plugins)),
        "versions": [*map(version, ("jax", "jaxlib")), device.client.platform_version],
        "devices": [device.platform, device.device_kind, jax.device_count()],
        "flags": {name: value for name, value in os.environ.items() if name.startswith(("XLA_", "JAX_", "CUDA_VIS"))},
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:40]


def source_digest() -> str:
    """What the source of this package holds, in short."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()

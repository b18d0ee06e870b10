"""Compiled programs of an experiment, kept between runs: a second start neither traces nor compiles.

The programs follow from what an experiment describes, from this package and those it uses, from the settings of JAX and
XLA, from the devices, and from beds of sand, which are kept apart. A digest of all of these names the file, which is in
the folder of compiled programs (vsr.experiments.devices.cache_folder). Experiments with plugins, or with other code of
the user's own, are not kept. A file that cannot be read is as good as none; the log tells why (docs/do/evolve.md).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import monitoring
from jax.experimental import serialize_executable

from vsr.compute.gpu import nvrtc
from vsr.compute.gpu.language import PROCESSES
from vsr.compute.implementation import why_plain
from vsr.experiments.devices import cache_folder
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import source_digest
from vsr.experiments.run_time import Operations
from vsr.experiments.storage.sources import sources_of
from vsr.world.build import build_beds

HIT = "/jax/compilation_cache/cache_hits"
PACKAGES = ("jax", "jaxlib", "numpy", "scipy")
VARIABLES = ("XLA_FLAGS", PROCESSES, "NVIDIA_TF32_OVERRIDE")
"""Of the environment, besides those that are settings of JAX."""
WITHOUT_EFFECT = ("jax_debug_log_modules", "jax_logging_level")
"""Settings of JAX that no program depends on."""

_logger = logging.getLogger(__name__)
_this_thread = threading.local()
_hits: list[str] = []
"""Of programs of experiments in JAX's own store."""


class Programs(NamedTuple):
    """Compiled programs of an experiment."""

    programs: Sequence[Any]
    at_once: int
    """robots that are simulated together on a device"""
    operations: Operations
    """of the evaluation of a generation, from which its time is estimated"""
    were_kept: bool = False
    """whether an earlier run compiled them"""


def what_programs_depend_on(experiment: Experiment) -> Experiment:
    """The experiment with fixed values for all that its programs do not depend on.

    They are compiled from this one, so that no program can depend on what is not in its key.
    """
    fixed = {"generations": 1, "seeds": tuple(range(len(experiment.seeds))), "checkpoint_seconds": 0.0}
    return experiment.model_copy(update=fixed)


def programs_of(experiment: Experiment, limit: float, compile_all: Callable[[], Programs]) -> Programs:
    """Compiled programs, from the store or from `compile_all`; limit: memory of each device [bytes].

    experiment: as given by `what_programs_depend_on`.
    """
    file = _file(experiment)
    if file is None:
        return compile_all()
    found = _read(file)
    return found if found and _most_memory(found.programs) <= limit else _write(file, *_noting_hits(compile_all))


def compiled(lowered: Any, **options: Any) -> Any:
    """A program of an experiment; whether JAX's own store held it is noted."""
    _this_thread.compiles = True
    try:
        return lowered.compile(**options)
    finally:
        _this_thread.compiles = False


def _most_memory(programs: Sequence[Any]) -> int:
    """[bytes]"""
    known = [program.memory_analysis() for program in programs]
    return max(0 if one is None else one.temp_size_in_bytes for one in known)


def _file(experiment: Experiment) -> Path | None:
    """Where programs of an experiment belong; None if they are not kept."""
    config = cast(Any, jax.config)
    if not config.jax_enable_compilation_cache or experiment.plugins or sources_of(experiment).has_any:
        return None
    folder = cache_folder()
    if folder is None or config.jax_compilation_cache_dir != str(folder):  # the user keeps programs elsewhere
        return None
    return folder / f"experiment-{hashlib.sha256(_key(experiment).encode()).hexdigest()}"


def _key(experiment: Experiment) -> str:
    """All that programs of an experiment without code of the user's own follow from."""
    device, config = jax.devices()[0], cast(Any, jax.config)
    plain = why_plain(jnp.dtype(experiment.physics.precision))
    installed = sorted(path.name for path in Path(str(distribution("jax").locate_file(""))).glob("*.dist-info"))
    settings = {name: repr(getattr(config, name, value)) for name, value in config.values.items()}
    found = {
        "experiment": experiment.to_plain(),
        "beds": _beds(experiment),
        "package": source_digest(),
        "python": sys.version,
        "packages": [*map(version, PACKAGES), *installed],
        "settings": {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT},
        "variables": {name: os.environ.get(name) for name in VARIABLES},
        "devices": [repr((one, one.platform, one.device_kind, one.id, one.process_index)) for one in jax.devices()],
        "device": [repr(getattr(device, name, None)) for name in ("compute_capability", "core_count")],
        "client": device.client.platform_version,
        "kernels": plain or repr(nvrtc.version()),
    }
    return json.dumps(found, sort_keys=True)  # refuses what is no plain data, such as an array


def _beds(experiment: Experiment) -> str | None:
    """Digest of the beds of sand in which robots are evaluated: they are read from files of their own."""
    if not experiment.world.is_loose:
        return None
    dtype, numbers = jnp.dtype(experiment.physics.precision), experiment.bed_numbers(fresh=True)
    beds = build_beds(experiment.world, experiment.robot.body, experiment.schedule(), dtype, numbers)
    digest = hashlib.sha256()
    for leaf in map(np.asarray, jax.tree.leaves(beds)):
        digest.update(f"{leaf.dtype} {leaf.shape}".encode())
        digest.update(leaf.tobytes())
    return digest.hexdigest()


def _read(file: Path) -> Programs | None:
    try:
        programs, at_once, operations = pickle.loads(file.read_bytes())
        os.utime(file)  # the oldest are forgotten first
        with ThreadPoolExecutor() as threads:
            loaded = list(threads.map(lambda one: _loaded(*one), programs))
        return Programs(loaded, at_once, operations, were_kept=True)
    except FileNotFoundError:
        _logger.debug("there is no %s", file)
    except Exception:  # another version of whatever is in it, a file cut short: it is made again
        _logger.debug("%s cannot be read", file, exc_info=True)
    return None


def _loaded(program: bytes, given: Any, returned: Any, devices: int) -> Any:
    trees = jax.tree.structure(given), jax.tree.structure(returned)
    return serialize_executable.deserialize_and_load(program, *trees, execution_devices=jax.devices()[:devices])


def _noting_hits(compile_all: Callable[[], Programs]) -> tuple[Programs, bool]:
    """What it gives, and whether all of it was compiled rather than read by JAX."""
    _listen()
    before = len(_hits)
    programs = compile_all()
    return programs, len(_hits) == before


@cache
def _listen() -> None:
    def count(event: str, **_: Any) -> None:
        if event == HIT and getattr(_this_thread, "compiles", False):
            _hits.append(event)

    monitoring.register_event_listener(count)


def _write(file: Path, programs: Programs, made_here: bool) -> Programs:
    """Keep programs; those that JAX's own store held cannot be written again, so far as the CPU is concerned."""
    if not made_here and jax.default_backend() == "cpu":
        _logger.debug("%s is not written: JAX's store had programs of it", file)
        return programs
    try:
        content = pickle.dumps(([_stored(one) for one in programs.programs], programs.at_once, programs.operations))
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as other:
            other.write(content)
        os.replace(other.name, file)
    except Exception:  # what cannot be kept only costs time
        _logger.debug("%s cannot be written", file, exc_info=True)
    return programs


def _stored(program: Any) -> tuple[bytes, Any, Any, int]:
    """A program with examples of what it takes and gives, because structures of one's own classes cannot be written.

    Last how many devices it runs on. Constants that JAX passes to a program as further arguments are not written.
    """
    assert not getattr(program._params, "const_args", ()), "a program with constants of its own"
    content, given, returned = serialize_executable.serialize(program)
    examples = (jax.tree.unflatten(tree, range(tree.num_leaves)) for tree in (given, returned))
    return content, *examples, len(jax.tree.leaves(program.output_shardings)[0].device_set)

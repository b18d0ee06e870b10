"""Compiled programs of an experiment, kept between runs: a second start neither traces nor compiles.

What a program computes follows from the experiment, the code of this package, the version and settings of JAX, and the
devices; a digest of all of them names the file, which is in the folder of compiled programs
(vsr.experiments.devices.cache_folder). Experiments with code of the user's own are not kept. A file that cannot be read
is as good as none.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
from jax import monitoring
from jax.experimental import serialize_executable

import vsr
from vsr.compute.gpu.language import PROCESSES
from vsr.experiments.devices import cache_folder
from vsr.experiments.experiment import Experiment
from vsr.experiments.run_time import Operations
from vsr.experiments.storage.sources import sources_of

HIT = "/jax/compilation_cache/cache_hits"
_hits = [0]


class Programs(NamedTuple):
    """Compiled programs of an experiment."""

    programs: Sequence[Any]
    at_once: int
    """robots that are simulated together on a device"""
    operations: Operations
    """of the evaluation of a generation, from which its time is estimated"""


def programs_of(experiment: Experiment, limit: float, compile_all: Callable[[], Programs]) -> Programs:
    """Compiled programs, from the store or from `compile_all`; limit: memory of each device [bytes]."""
    file = _file(experiment)
    if file is None:
        return compile_all()
    found = _read(file)
    return found if found and _most_memory(found.programs) <= limit else _write(file, *_noting_hits(compile_all))


def _most_memory(programs: Sequence[Any]) -> int:
    """[bytes]"""
    known = [program.memory_analysis() for program in programs]
    return max(0 if one is None else one.temp_size_in_bytes for one in known)


def _file(experiment: Experiment) -> Path | None:
    """Where programs of an experiment belong; None if they are not kept."""
    own, config = sources_of(experiment), cast(Any, jax.config)
    folder = cache_folder() if config.jax_enable_compilation_cache and not own.has_any else None
    if folder is None or config.jax_compilation_cache_dir != str(folder):  # the user keeps programs elsewhere
        return None
    devices = [(one.platform, one.device_kind, one.id, one.process_index) for one in jax.devices()]
    settings = os.environ.get("XLA_FLAGS"), os.environ.get(PROCESSES), sorted(config.values.items())
    known = experiment.to_plain(), devices, settings, jax.__version__, version("jaxlib"), _code()
    return folder / f"experiment-{hashlib.sha256(repr(known).encode()).hexdigest()}"


@cache
def _code() -> str:
    """Digest of this package's modules."""
    root, digest = Path(vsr.__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(file: Path) -> Programs | None:
    try:
        programs, at_once, operations = pickle.loads(file.read_bytes())
        os.utime(file)  # the oldest are forgotten first
        return Programs([_loaded(*one) for one in programs], at_once, operations)
    except Exception:  # another version of whatever is in it, a file cut short: it is made again
        return None


def _loaded(program: bytes, given: Any, returned: Any, devices: int) -> Any:
    trees = jax.tree.structure(given), jax.tree.structure(returned)
    return serialize_executable.deserialize_and_load(program, *trees, execution_devices=jax.devices()[:devices])


def _noting_hits(compile_all: Callable[[], Programs]) -> tuple[Programs, bool]:
    """What it gives, and whether all of it was compiled rather than read by JAX."""
    _listen()
    before = _hits[0]
    programs = compile_all()
    return programs, _hits[0] == before


@cache
def _listen() -> None:
    def count(event: str, **_: Any) -> None:
        _hits[0] += event == HIT

    monitoring.register_event_listener(count)


def _write(file: Path, programs: Programs, compiled: bool) -> Programs:
    """Keep programs; those that JAX's own store held cannot be written again, so far as the CPU is concerned."""
    if compiled or jax.default_backend() != "cpu":
        try:
            content = pickle.dumps(tuple(programs._replace(programs=[_stored(one) for one in programs.programs])))
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as other:
                other.write(content)
            os.replace(other.name, file)
        except Exception:  # what cannot be kept only costs time
            pass
    return programs


def _stored(program: Any) -> tuple[bytes, Any, Any, int]:
    """A program with examples of what it takes and gives, because structures of one's own classes cannot be written.

    Last how many devices it runs on. Constants that JAX passes to a program as further arguments are not written.
    """
    assert not getattr(program._params, "const_args", ()), "a program with constants of its own"
    content, given, returned = serialize_executable.serialize(program)
    examples = (jax.tree.unflatten(tree, range(tree.num_leaves)) for tree in (given, returned))
    return content, *examples, len(jax.tree.leaves(program.output_shardings)[0].device_set)

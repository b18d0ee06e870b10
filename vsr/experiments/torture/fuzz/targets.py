"""What inputs are given to, in a worker: everything that reads, up to where computing would begin."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from vsr.experiments.config import UserError, dump_yaml, load, load_experiment, load_scene, parse_scene
from vsr.experiments.devices import prepare
from vsr.experiments.evaluate.matrix import RobotGroup, combinations_of, group_of, read_whole
from vsr.experiments.evaluate.sets import load_set
from vsr.experiments.experiment import Experiment
from vsr.experiments.reach.command import load_reach
from vsr.experiments.reproduce.study import load_study
from vsr.experiments.runs.lineage import read_lineage
from vsr.experiments.runs.meta import describe_start
from vsr.experiments.shipped import SET, find_config
from vsr.experiments.torture.fuzz import corpus
from vsr.experiments.torture.here import Ended, run_here
from vsr.experiments.verify import read as read_robot
from vsr.scene import Scene
from vsr.spec import Impractical

SECONDS = 10.0
"""What is not refused or read in this time of the processor is a fault [s]."""
MEMORY = 2_000_000_000
"""What may be used beyond what a worker has before its first input [bytes]."""
MEASURED = Path("/proc/self/statm")


class TooLong(BaseException):
    """The time is up."""


def limit_memory() -> None:
    """Let this process have so much more than it has now; where the computer does not tell, nothing is limited.

    Threads of devices reserve memory that they never use, on many cores more than that: they are begun before.
    """
    prepare("cpu")
    jax.block_until_ready(jax.numpy.zeros(jax.device_count()) + 1)
    if MEASURED.is_file():
        now = int(MEASURED.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))


def try_input(target: str, file: str, arguments: list[str], folder: Path) -> Ended:
    """Read one input: code 0 if it is sound, 2 if it is refused in words, 1 with a traceback otherwise."""
    began = time.monotonic()
    with _at_most(SECONDS):
        try:
            if target == "command":
                return run_here(arguments, folder)
            TARGETS[target](file, arguments)
            code, output = 0, ""
        except TooLong:
            code, output = 1, traceback.format_exc()
        except REFUSALS.get(target, (UserError, Impractical)) as error:
            code, output = 2, str(error)
        except OSError as error:  # as the command tells it
            code, output = (1, traceback.format_exc()) if error.filename is None else (2, f"{error.filename}: {error}")
        except BaseException:
            code, output = 1, traceback.format_exc()
    return Ended(code, output, time.monotonic() - began)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def end(*_: Any) -> None:
        raise TooLong(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _document(file: str, arguments: list[str]) -> None:
    """An experiment or a scene, as `vsr check` and `vsr evolve` read it, and what they write of it."""
    described = load(file, arguments)
    described.schedule()
    written = described.resolved() if isinstance(described, Experiment) else described
    again = dump_yaml(written)
    if isinstance(described, Scene):
        assert parse_scene(again, file) == described, "what is written does not read back"


def _study(file: str, arguments: list[str]) -> None:
    study = load_study(file)
    for name in study.study.experiments:
        study.experiment(name, arguments)


def _evolved(file: str, arguments: list[str]) -> None:
    """The best robot of a run, as `vsr evaluate` and `vsr verify` read it."""
    combinations_of(_groups([Path(file)]), load_set(find_config("transfer", SET)))
    read_robot(Path(file), _now())


def _set(file: str, arguments: list[str]) -> None:
    """What `vsr evaluate` makes of a set before it simulates anything."""
    combinations_of(_some_groups(), load_set(file))


def _groups(files: list[Path]) -> list[RobotGroup]:
    """Robots without their arrays, which would have to be compiled."""
    return [group_of([robot], source, (None, None)) for source, file in enumerate(files) for robot in read_whole(file)]


@functools.cache
def _some_groups() -> list[RobotGroup]:
    """Of several kinds."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.yaml" for number in range(len(corpus.ROBOTS))]
        for file, text in zip(files, corpus.ROBOTS, strict=True):
            file.write_text(text, encoding="utf-8")
        return _groups(files)


@functools.cache
def _now() -> dict[str, Any]:
    """Device and versions of this process."""
    return describe_start(0)


def _mesh(file: str, arguments: list[str]) -> None:
    from vsr.lattice.mesh import cells_inside, read_mesh

    mesh = read_mesh(file)
    if (mesh.highest - mesh.lowest).max() < 10:
        cells_inside(mesh, 0.25)


def _arrays(file: str, arguments: list[str]) -> None:
    """The lineage of a run."""
    read_lineage(Path(file).parents[1], 0, 2)


def _json_lines(file: str, arguments: list[str]) -> None:
    """The statistics of a run."""
    from vsr.experiments.files import read_json_lines
    from vsr.experiments.runs.rows import is_statistics

    for _, row in read_json_lines(Path(file)):
        if row is not None and is_statistics(row):
            json.dumps(row)


TARGETS: dict[str, Callable[[str, list[str]], None]] = {
    "experiment": _document,
    "scene": _document,
    "setting": lambda file, arguments: _keep(load_experiment(file, arguments)),
    "robot": lambda file, _: _keep(load_scene(file)),
    "study": _study,
    "reach": lambda file, _: _keep(load_reach(file)),
    "evolved": _evolved,
    "set": _set,
    "mesh": _mesh,
    "arrays": _arrays,
    "statistics": _json_lines,
}
REFUSALS: dict[str, tuple[type[BaseException], ...]] = {"mesh": (ValueError, FileNotFoundError, ImportError)}
"""What may be raised instead of UserError by what is called from Python only."""


def _keep(_: object) -> None:
    """Made, and that is all."""


def options_of_commands() -> dict[str, list[tuple[str, bool]]]:
    """Every command with its options and whether each takes a value."""
    main = importlib.import_module("vsr.cli").main
    return {
        name: [
            (option, not getattr(parameter, "is_flag", False))
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("-")
        ]
        for name, command in sorted(main.commands.items())
    }


if __name__ == "__main__":  # one file by hand: python -m vsr.experiments.torture.fuzz.targets TARGET FILE [WORDS]
    sys.stdout.write(f"{try_input(sys.argv[1], sys.argv[2], sys.argv[3:], Path.cwd())}\n")

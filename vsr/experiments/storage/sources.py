"""Code of the user's own that an experiment depends on: its plugins, the modules they import, and components that were
registered in Python.

A module is the user's own if its file belongs neither to Python, nor to an installed package, nor to vsr. Imports are
found by reading the source, so that one inside a function counts too, and by looking at what importing a plugin loaded.
A resumed run compares the SHA-256 of every such file, and the run folder keeps copies of them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsr.controllers import CONTROLLERS
from vsr.evo import OPTIMIZERS
from vsr.experiments.config.plugins import file_of, is_own, modules_of, place_of
from vsr.experiments.descriptors import BODY_DESCRIPTORS, CONTROLLER_DESCRIPTORS
from vsr.experiments.encodings import BODIES
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.files import write_bytes
from vsr.sensors import QUANTITIES
from vsr.tasks import MEASURES, TASKS
from vsr.tasks.measures import PYTHON, Combined
from vsr.terrain import TERRAINS
from vsr.world.spec import SHAPES

REGISTRIES: dict[str, tuple[Mapping[str, Any], ...]] = {
    "body": (BODIES,),
    "controller": (CONTROLLERS, EVOLVED_CONTROLLERS),
    "optimizer": (OPTIMIZERS,),
    "terrain": (TERRAINS,),
    "task": (TASKS,),
    "measure": (MEASURES,),
    "shape": (SHAPES,),
    "sensor": (QUANTITIES,),
    "descriptor": (BODY_DESCRIPTORS, CONTROLLER_DESCRIPTORS),
}
"""Where components are registered, by what they are called."""
SCRIPT = "__main__"


@dataclass(frozen=True)
class Sources:
    """Code that an experiment depends on, besides vsr and installed packages."""

    files: dict[str, Path]
    """of modules, by their names"""
    unkept: tuple[str, ...] = ()
    """components of no plugin: those of a script, a notebook, a prompt, or an installed package"""
    scripts: tuple[Path, ...] = ()
    """files in which such components, and the function of the fitness, are defined"""
    fitness: str | None = None
    """text of the function that the fitness is, where it is one in Python; empty where there is none to read"""

    @property
    def has_any(self) -> bool:
        """Whether what is computed depends on code of the user's own."""
        return bool(self.files or self.unkept or self.fitness is not None)

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of every module's file."""
        return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in self.files.items()}

    def copy_to(self, folder: Path) -> None:
        """Keep all files, so that robots can be simulated wherever the folder is taken."""
        copies = {folder / place_of(name, file): file for name, file in self.files.items()}
        copies |= {folder / file.name: file for file in self.scripts}
        for copy, file in copies.items():
            if file.resolve() != copy.resolve():
                copy.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(copy, file.read_bytes())

    def changed_since(self, digests: Any) -> str | None:
        """A module that has changed; None if all are the same. digests: from files."""
        now, digests = self.digests, digests if isinstance(digests, dict) else {}
        return next((name for name in digests if digests[name] != now.get(name)), None)


def sources_of(experiment: Experiment) -> Sources:
    """Of an experiment whose plugins are loaded."""
    files = modules_of(experiment.plugins)
    unkept, scripts = [], set()
    plugins = {name.split(".")[0] for name in experiment.plugins}
    function = function_of(experiment)
    if function is not None:
        module = _module_of(function)
        file = file_of(module)
        scripts |= {file} if file is not None and (module == SCRIPT or is_own(module, file)) else set()
    for component, module in _registered(experiment):
        if module not in files and module.split(".")[0] not in plugins:
            file = file_of(module)
            unkept.append(component)
            scripts |= {file} if file is not None and module == SCRIPT else set()
    return Sources(files, tuple(unkept), tuple(sorted(scripts)), None if function is None else _text_of(function))


def function_of(experiment: Experiment) -> Callable[..., Any] | None:
    """The function in Python that the fitness is, if it is one."""
    name = experiment.fitness.measure
    measure = MEASURES[name] if name.startswith(PYTHON) and name in MEASURES else None
    return measure.function if isinstance(measure, Combined) else None


def _text_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):  # typed at a prompt, or no function but something that can be called
        return ""


def with_registered(experiment: Experiment) -> Experiment:
    """The same, with the modules that registered its components among its plugins, so that others can read it."""
    known, more = modules_of(experiment.plugins), list[str]()
    for _, module in _registered(experiment):
        file = file_of(module)
        if module not in {*known, *more, SCRIPT} and file is not None and is_own(module, file):
            more.append(module)
    return experiment.model_copy(update={"plugins": (*experiment.plugins, *more)}) if more else experiment


def _registered(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Components that an experiment names and vsr does not bring: what they are called, and their modules."""
    words = set(_texts(experiment.to_plain()))
    for kind, registries in REGISTRIES.items():
        for registry in registries:
            for name in sorted(word for word in words.intersection(registry) if not word.startswith(PYTHON)):
                module = _module_of(registry[name])
                if module.split(".")[0] != "vsr":
                    yield f"{kind} '{name}'", module


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict | list | tuple):
        for item in plain.values() if isinstance(plain, dict) else plain:
            yield from _texts(item)


def _module_of(component: Any) -> str:
    """Where a class or function is defined."""
    while isinstance(component, functools.partial):
        component = component.func
    component = inspect.unwrap(component)
    return getattr(component, "__module__", None) or type(component).__module__

"""Components of the user's own: modules named under `plugins` are imported, and what they register becomes known.

A plugin adds to a registry when it is imported, for example `vsr.terrain.TERRAINS["moon"] = Moon`. Modules are looked
for beside the file that names them, in the run folder that file belongs to, in the current folder, and where Python
looks. Importing runs them, so that it is done only for those who ask for it; everyone else gets `NeedsPlugins`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from vsr.experiments.config.modules import own_modules, place_of
from vsr.experiments.config.parts import part_reader
from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml_values import Document
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.experiment import Experiment
from vsr.scene import Scene
from vsr.world.spec import Robot, World

PLUGINS_FOLDER = "plugins"
"""Where a run folder keeps copies of the plugins it was made with."""


def load_plugins(document: Document) -> None:
    """Import what a document names under `plugins`; raises ConfigError if that cannot be done."""
    names, beside = named_plugins(document), _folder(document)
    with _search(beside):
        for index, name in enumerate(names):
            fault = _another(name, beside) or _import(name)
            if fault is not None:
                raise ConfigError([document.problem(fault, ("plugins", index))])
    if names:
        _keep_searching(names)
        learn_components()


def import_plugins(names: Sequence[str]) -> None:
    """Import modules named on the command line; raises UserError if that cannot be done."""
    with _search(Path.cwd()):
        for name in names:
            fault = _import(name)
            if fault is not None:
                raise UserError(f"--plugin {name}: {fault}")
    if names:
        learn_components()


def named_plugins(document: Document) -> list[str]:
    """What a document names under `plugins`; nothing if that is malformed, which is reported when it is checked."""
    names = document.data.get("plugins") if isinstance(document.data, dict) else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []


def missing_plugins(document: Document) -> dict[str, Path | None]:
    """The plugins of a document that this process has not run, with their files where these are known."""
    beside = _folder(document)
    return {
        name: _file_of(name, beside)
        for name in named_plugins(document)
        if name not in sys.modules or _another(name, beside) is not None
    }


class NeedsPlugins(UserError):
    """What was asked for cannot be had without running code that a file brings."""

    def __init__(self, file: str, missing: dict[str, Path | None]):
        """missing: plugins that were not run, with their files where these are known."""
        self.missing = missing
        named = ", ".join(name if where is None else f"{name} ({where})" for name, where in missing.items())
        plural = "s" if len(missing) > 1 else ""
        super().__init__(
            f"{file}: this needs the plugin{plural} {named}: code, which reading does not run; --trust-plugins runs it"
        )


def require_plugins(document: Document) -> None:
    """Raise NeedsPlugins if this process has not run all plugins that a document names."""
    if missing := missing_plugins(document):
        raise NeedsPlugins(document.file, missing)


def plugin_files(document: Document) -> list[Path]:
    """What would be run for a document, as far as it is found beside it, in its run folder or in the current one."""
    found = (_file_of(name, _folder(document)) for name in named_plugins(document))
    return [file for file in found if file is not None]


def modules_of(names: Sequence[str]) -> dict[str, Path]:
    """Files of plugins that are loaded and of all modules of the user's own that they import, by module."""
    return own_modules([*names, *(module for name in names for module in _LOADED_WITH.get(name, ()))])


_LOADED_WITH: dict[str, frozenset[str]] = {}
"""Modules that importing a plugin loaded, by the plugin's name: what its source does not name is known from here."""


def learn_components() -> None:
    """Make descriptions accept what was registered since they were defined."""
    for description in (Robot, World, Scene, EvolvedRobot, Experiment):
        description.model_rebuild(force=True)
    part_reader.cache_clear()


def _import(name: str) -> str | None:
    """Run a module; returns why that was not possible. Ctrl-C is not its fault."""
    before = set(sys.modules)
    try:
        importlib.import_module(name)
        if name not in before:
            _LOADED_WITH[name] = frozenset(set(sys.modules) - before)
        return None
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        code = "" if error.code is None else repr(error.code)
        return f"plugin '{name}' ends the program on import (sys.exit({code}))"
    except BaseException as error:  # whatever a stranger's module raises
        if isinstance(error, ModuleNotFoundError) and error.name in (name, name.split(".")[0]):
            return f"there is no module '{name}' beside the file, in the current folder or among the installed packages"
        return f"plugin '{name}' failed on import: {type(error).__name__}: {error}"


def _another(name: str, beside: Path) -> str | None:
    """Of a plugin that is loaded and is not the one a file in the folder `beside` means: what to say of it."""
    meant = _file_of(name, beside)
    if meant is None or name.split(".")[0] not in sys.modules:
        return None
    root = meant.parents[1] if meant.stem == "__init__" else meant.parent
    for module, loaded in modules_of([name]).items():
        own = root / place_of(module, loaded)
        if own.is_file() and own.read_bytes() != loaded.read_bytes():
            return f"another plugin '{module}' is loaded ({loaded}) than {own}; give such files one at a time"
    return None


def _file_of(name: str, beside: Path) -> Path | None:
    """Where a plugin of a file in the folder `beside` lies; None where only Python knows. Nothing is run."""
    importlib.invalidate_caches()
    try:
        found = importlib.machinery.PathFinder.find_spec(name.split(".")[0], list(map(str, _folders(beside))))
    except (ImportError, ValueError):
        return None
    origin = Path(found.origin) if found is not None and found.origin else None
    return origin if origin is not None and origin.is_file() else None


def _folder(document: Document) -> Path:
    return Path(document.file).resolve().parent


def _folders(beside: Path) -> list[Path]:
    """Where Python does not look, and plugins of a file in the folder `beside` may be."""
    places = [beside, *(folder / PLUGINS_FOLDER for folder in (beside, beside.parent)), Path.cwd()]
    return [folder for folder in places if folder.is_dir()]


def _keep_searching(names: Sequence[str]) -> None:
    """Let functions of plugins import what lies beside these, also later; last, so that it takes no module's place."""
    for name in names:
        file = Path(getattr(sys.modules[name.split(".")[0]], "__file__", None) or "")
        folder = str((file.parent.parent if file.stem == "__init__" else file.parent).resolve())
        if file.is_file() and folder not in sys.path:
            sys.path.append(folder)


@contextlib.contextmanager
def _search(beside: Path) -> Iterator[None]:
    """While it is open, Python also looks where the plugins of a file in the folder `beside` may be."""
    before = list(sys.path)
    sys.path[:0] = map(str, _folders(beside))
    try:
        yield
    finally:
        sys.path[:] = before

"""Components of the user's own: modules named under `plugins` are imported, and what they register becomes known.

A plugin adds to a registry when it is imported, for example `vsr.terrain.TERRAINS["moon"] = Moon`. Modules are looked
for beside the file that names them, in the run folder that file belongs to, in the current folder, and where Python
looks.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml_values import Document
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.experiment import Experiment
from vsr.scene import Robot, Scene, World

PLUGINS_FOLDER = "plugins"
"""Where a run folder keeps copies of the plugins it was made with."""


def load_plugins(document: Document) -> None:
    """Import what a document names under `plugins`; raises ConfigError if that cannot be done."""
    names = document.data.get("plugins") if isinstance(document.data, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return  # absent or malformed, which is reported when the document is checked
    with _search(Path(document.file).resolve().parent):
        for index, name in enumerate(names):
            try:
                importlib.import_module(name)
            except Exception as error:
                problem = document.problem(_reason(name, error), ("plugins", index))
                raise ConfigError([problem]) from error
    if names:
        learn_components()


def import_plugins(names: Sequence[str]) -> None:
    """Import modules named on the command line; raises UserError if that cannot be done."""
    with _search(Path.cwd()):
        for name in names:
            try:
                importlib.import_module(name)
            except Exception as error:
                raise UserError(f"--plugin {name}: {_reason(name, error)}") from error
    if names:
        learn_components()


def plugin_modules(names: Sequence[str]) -> list[ModuleType]:
    """The modules of plugins that have been loaded."""
    return [sys.modules[name] for name in names]


def digests(modules: Sequence[ModuleType]) -> dict[str, str]:
    """What each plugin's file holds, in short, to notice when it changes."""
    sources = {module.__name__: Path(getattr(module, "__file__", None) or "") for module in modules}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sources.items() if path.is_file()}


def learn_components() -> None:
    """Make descriptions accept what was registered since they were defined."""
    for description in (Robot, World, Scene, EvolvedRobot, Experiment):
        description.model_rebuild(force=True)


def _reason(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in (name, name.split(".")[0]):
        return f"there is no module '{name}' beside the file, in the current folder or among the installed packages"
    return f"plugin '{name}' failed on import: {type(error).__name__}: {error}"


@contextlib.contextmanager
def _search(beside: Path) -> Iterator[None]:
    """While it is open, Python also looks where the plugins of a file in the folder `beside` may be."""
    folders = [beside, *(folder / PLUGINS_FOLDER for folder in (beside, beside.parent)), Path.cwd()]
    before = list(sys.path)
    sys.path[:0] = [str(folder) for folder in folders if folder.is_dir()]
    try:
        yield
    finally:
        sys.path[:] = before

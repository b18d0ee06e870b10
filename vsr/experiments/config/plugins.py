"""Components of the user's own: modules named under `plugins` are imported, and what they register becomes known.

A plugin adds to a registry when it is imported, for example `vsr.terrain.TERRAINS["moon"] = Moon`. Modules are looked
for beside the file that names them, in the run folder that file belongs to, in the current folder, and where Python
looks. Importing runs them, so that it is done only for those who ask for it; everyone else gets `NeedsPlugins`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.machinery
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vsr.experiments.config.problems import ConfigError, UserError
from vsr.experiments.config.yaml import Document
from vsr.experiments.installed import PACKAGE

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
    _keep_searching(names)


def import_plugins(names: Sequence[str]) -> None:
    """Import modules named on the command line; raises UserError if that cannot be done."""
    with _search(Path.cwd()):
        for name in names:
            fault = _import(name)
            if fault is not None:
                raise UserError(f"--plugin {name}: {fault}")


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


class PluginRequiredError(UserError):
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
        raise PluginRequiredError(document.file, missing)


def plugin_files(document: Document) -> list[Path]:
    """What would be run for a document, as far as it is found beside it, in its run folder or in the current one."""
    found = (_file_of(name, _folder(document)) for name in named_plugins(document))
    return [file for file in found if file is not None]


def modules_of(names: Sequence[str]) -> dict[str, Path]:
    """Files of plugins that are loaded and of all modules of the user's own that they import, by module."""
    return own_modules([*names, *(module for name in names for module in _LOADED_WITH.get(name, ()))])


_LOADED_WITH: dict[str, frozenset[str]] = {}
"""Modules that importing a plugin loaded, by the plugin's name: what its source does not name is known from here."""


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
    """Beside which a document's plugins are: the file that names them, which may be one that it extends."""
    return Path(document.file_of(("plugins",))).resolve().parent


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


# Modules of the user's own: their files belong neither to Python, nor to an installed package, nor to vsr.


def own_modules(names: Iterable[str]) -> dict[str, Path]:
    """Files of loaded modules and of all modules of the user's own that they import, by name."""
    found: dict[str, Path] = {}
    waiting = [(part, file_of(part)) for name in names for part in _with_parents(name)]
    while waiting:
        name, file = waiting.pop()
        if name in found or file is None or not is_own(name, file):
            continue
        found[name] = file
        waiting += _imported(name, file)
    return dict(sorted(found.items()))


def file_of(module: str) -> Path | None:
    """Of a loaded module; None if it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def is_own(name: str, file: Path) -> bool:
    """Whether a module's file is the user's own."""
    whole = file.resolve()
    return not any(whole.is_relative_to(folder) for folder in _others()) and not _has_installed(_root(name, file))


def _root(name: str, file: Path) -> Path:
    """The folder from which a module is imported."""
    return file.parents[min(len(_package(name, file)), len(file.parents) - 1)]


def _package(name: str, file: Path) -> list[str]:
    """Names of the packages that a module is in; a package is in itself."""
    return name.split(".") if file.stem == "__init__" else name.split(".")[:-1]


@functools.cache
def _others() -> tuple[Path, ...]:
    """Folders of Python, of installed packages and of vsr."""
    paths = sysconfig.get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed += [*site.getsitepackages(), site.getusersitepackages()]
    return (*(Path(path).resolve() for path in installed), PACKAGE)


@functools.cache
def _has_installed(folder: Path) -> bool:
    """Whether packages were installed into a folder, as by `pip install --target`."""
    return any(folder.glob("*.dist-info"))


def _with_parents(name: str) -> list[str]:
    """a, a.b and a.b.c of a.b.c."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _imported(name: str, file: Path) -> list[tuple[str, Path | None]]:
    """Modules that a module's source imports, with their files; those not loaded yet are looked for beside it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # as of a compiled extension
        return []
    package, names = _package(name, file), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {part for alias in node.names for part in _with_parents(alias.name)}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {part for alias in node.names for part in _with_parents(f"{base}.{alias.name}".lstrip("."))}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            given = node.args[0] if node.args else None
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                names |= set(_with_parents(given.value))
    return [(one, file_of(one) or _beside(_root(name, file), one)) for one in names]


def _beside(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


def place_of(name: str, file: Path) -> Path:
    """Where a module lies in a folder from which it can be imported."""
    folders = Path(*name.split("."))
    return folders / file.name if file.stem == "__init__" else folders.with_name(file.name)

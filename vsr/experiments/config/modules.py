"""Modules of the user's own: those whose files belong neither to Python, nor to an installed package, nor to vsr."""

from __future__ import annotations

import ast
import functools
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from vsr.experiments.installed import PACKAGE


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

"""What is imported is declared, and what is declared is imported: by the package, its extras and its tests."""

import ast
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from itertools import chain

import pytest
from conftest import ROOT
from oldest import BUILD, EXTRAS, REQUIRED, bound_of, name_of, oldest

PACKAGE = ("vsr", "evo", "experiments", "cli.py")
OPTIONAL = sorted(set(EXTRAS) - {"test", "oracles", "docs", "cuda12", "cuda13"})
"""Extras of the package itself."""
TOOLS = {"pytest": "pytest", "pytest-xdist": "-n 2", "ruff": "ruff check", "pyright": "pyright"}
TOOLS |= {"pytest-timeout": "timeout_method"}
"""Of the test extra, with the words that call them in the Makefile or in the options of pytest."""


def files(*places):
    for place in places:
        found = (ROOT / place).rglob("*.py") if (ROOT / place).is_dir() else [ROOT / place]
        yield from sorted(path for path in found if not path.is_symlink())


@cache
def imports(path):
    """Modules that a file imports, by their first name, and whether it does so whenever it is loaded."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name.split(".")[0], node in tree.body) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add((node.module.split(".")[0], node in tree.body))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            found.add((ast.literal_eval(node.args[0]).split(".")[0], False))
    return found


@cache
def distributions():
    return {module: {name_of(name) for name in names} for module, names in packages_distributions().items()}


def foreign(*places, always=None):
    """Distributions that files import, each with one of the files; always: only those loaded with the files, or not."""
    own = {path.stem for path in files("tests", "examples")} | {"vsr", "tests", "faults"} | set(sys.stdlib_module_names)
    found = {}
    for path in files(*places):
        for module, at_once in imports(path):
            if module not in own and always in (None, at_once):
                names = distributions().get(module, {name_of(module)})  # one that is absent, by its own name
                found |= dict.fromkeys(names, str(path.relative_to(ROOT)))
    return found


def declared(*extras):
    return {name_of(requirement) for requirement in chain(REQUIRED, *(EXTRAS[extra] for extra in extras))}


def undeclared(found, known):
    return {name: file for name, file in found.items() if name not in known}


def test_what_the_package_loads_is_required():
    assert not undeclared(foreign(*PACKAGE, always=True), declared())


def test_what_it_loads_on_demand_is_required_or_an_extra():
    assert not undeclared(foreign(*PACKAGE, always=False), declared(*OPTIONAL))


def test_what_tests_and_examples_load_is_declared():
    assert not undeclared(foreign("tests", always=True), declared("test"))
    assert not undeclared(foreign("tests"), declared("test", "oracles", "docs"))
    # The script that times EvoGym runs in an environment of EvoGym's, with an older Python.
    assert not undeclared(foreign("docs"), declared("docs") | {"evogym", "gymnasium"})
    assert not undeclared(foreign("examples"), declared())


def test_what_is_declared_is_used():
    assert declared() <= set(foreign(*PACKAGE))
    for extra in OPTIONAL:
        assert {name_of(one) for one in EXTRAS[extra]} <= set(foreign(*PACKAGE, always=False)) - declared()
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    makefile = (ROOT / "Makefile").read_text() + str(options)
    built_with = {name_of(requirement) for requirement in BUILD}  # by the tests of the wheel
    for name in declared("test") - declared(*OPTIONAL) - set(foreign("tests")) - built_with:
        assert TOOLS[name] in makefile
    assert {name_of(one) for one in EXTRAS["oracles"]} <= set(foreign("tests", always=False))
    settings = "".join(path.read_text() for path in files("docs"))
    assert all(name_of(one).replace("-", "_") in settings for one in EXTRAS["docs"])
    assert {name_of(one) for extra in ("cuda12", "cuda13") for one in EXTRAS[extra]} <= declared()


def test_a_distribution_has_one_lower_bound():
    bounds = {}
    for requirement in chain(REQUIRED, BUILD, *EXTRAS.values()):
        bounds.setdefault(name_of(requirement), set()).add(bound_of(requirement))
    assert all(len(versions) == 1 and "" not in versions for versions in bounds.values()), bounds
    assert {one.split("==")[0] for one in oldest()} >= declared()


@pytest.mark.parametrize("name", ["evosax", "gymnasium", "imageio_ffmpeg", "rtree", "submitit", "trimesh"])
def test_an_extra_that_is_missing_is_named(monkeypatch, tmp_path, name):
    from vsr.evo import strategies
    from vsr.experiments.play.film import require_ffmpeg
    from vsr.experiments.sweep.launch import slurm_executor
    from vsr.lattice.mesh import read_mesh
    from vsr.sdf.grid import Sampled

    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "vsr.envs.gymnasium", raising=False)
    monkeypatch.setattr(strategies, "_strategies", strategies._strategies.__wrapped__)  # not what was found before
    extra, call = {
        "evosax": ("es", strategies.CMAES),
        "gymnasium": ("gym", lambda: import_module("vsr.envs.gymnasium")),
        "imageio_ffmpeg": ("video", lambda: require_ffmpeg(tmp_path / "film.mp4")),
        "rtree": ("mesh", lambda: Sampled.of_mesh(None, 0.1, 0.1)),
        "submitit": ("slurm", lambda: slurm_executor(tmp_path, {})),
        "trimesh": ("mesh", lambda: read_mesh(tmp_path / "body.stl")),
    }[name]
    with pytest.raises(Exception, match=rf"pip install 'voxel-soft-robots\[{extra}\]'") as raised:
        call()
    assert type(raised.value).__name__ in ("UserError", "ImportError", "ValidationError")

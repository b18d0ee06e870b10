"""What `pip install` brings: all of the package in one folder `vsr`, from which every command works anywhere.

The slow tests install the wheel without an index and use it from an empty folder.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from conftest import ROOT, TINY
from oldest import PROJECT, REQUIRED, name_of

from vsr import __version__
from vsr.experiments.config import parse_scene
from vsr.terrain import TERRAINS

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "vsr")
CACHES = shutil.ignore_patterns("__pycache__")
DIST_INFO = f"{PROJECT['project']['name'].replace('-', '_')}-{__version__}.dist-info"

OWN = """
from vsr.terrain import TERRAINS, Flat

class {name}(Flat):
    type: str = "{key}"

TERRAINS["{key}"] = {name}
"""
"""A plugin that registers a terrain."""


def build(kind, source, target):
    """Build a wheel or an sdist with the setuptools that is installed; nothing is fetched."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(target)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = [path for path in target.iterdir() if path.suffix == {"wheel": ".whl", "sdist": ".gz"}[kind]]
    return file


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The parts of the checkout that are built from, elsewhere, since building leaves files behind."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, symlinks=True, ignore=CACHES)
        else:
            shutil.copy(path, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def names_in_checkout():
    """Every file of the package."""
    files = (path for path in (ROOT / "vsr").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_has_all_of_the_package_and_nothing_else(wheel):
    names = names_in(wheel)
    ours = {name for name in names if not name.startswith(DIST_INFO)}
    assert ours == names_in_checkout()
    assert {name.split("/")[0] for name in ours} == {"vsr"}
    for name in ("cli.py", "evo/protocol.py", "experiments/check.py", "configs/studies/body/5x5.yaml"):
        assert f"vsr/{name}" in ours
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{DIST_INFO}/METADATA").decode().splitlines()
        assert "vsr = vsr.__main__:main" in archive.read(f"{DIST_INFO}/entry_points.txt").decode()
    needed = {name_of(line.split(": ")[1]) for line in metadata if line.startswith("Requires-Dist") and ";" not in line}
    assert needed == {name_of(requirement) for requirement in REQUIRED}


def test_an_sdist_makes_the_same_wheel(source, wheel, tmp_path):
    unpacked = tmp_path / "unpacked"
    with tarfile.open(build("sdist", source, tmp_path)) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    assert names_in(build("wheel", folder, tmp_path)) == names_in(wheel)


def test_modules_of_the_users_own_may_have_our_names(tmp_path, monkeypatch):
    """Plugins called as our folders are theirs, and ours stay ours."""
    monkeypatch.syspath_prepend(str(ROOT))  # as where someone works in a checkout
    for name in ("cli", "evo", "experiments"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        key = f"own_{name}"
        plugin = tmp_path / f"{name}.py" if name == "cli" else tmp_path / name / "__init__.py"
        plugin.parent.mkdir(exist_ok=True)
        plugin.write_text(OWN.format(name=name.title(), key=key))
        text = f"robot: {{body: {{shape: aa}}, controller: sine}}\nplugins: [{name}]\nworld: {{terrain: {key}}}\n"
        ours = import_module(f"vsr.{name}")
        try:
            scene = parse_scene(text, str(tmp_path / "scene.yaml"), run_plugins=True)
            assert scene.world.terrain.type == key
            assert Path(sys.modules[name].__file__).is_relative_to(tmp_path)
            assert sys.modules[f"vsr.{name}"] is ours
            assert Path(ours.__file__).resolve().is_relative_to(ROOT)
        finally:
            TERRAINS.pop(key, None)
            sys.modules.pop(name, None)


# installed, and used elsewhere


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Where the wheel lies, unpacked by pip; dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*pip, str(wheel)], check=True)
    return folder


@pytest.fixture
def python(installed, tmp_path, monkeypatch):
    """Python in an empty folder, with what is installed there; returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        command = [sys.executable, "-P", *map(str, arguments)]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def vsr(python):
    """The installed command in an empty folder."""
    return lambda *arguments: python("-m", "vsr", *arguments)


@pytest.mark.full
def test_nothing_comes_from_the_checkout(python, installed):
    code = (
        "import sys, pkgutil, importlib, vsr; "
        "[importlib.import_module(found.name) for found in pkgutil.walk_packages(vsr.__path__, 'vsr.') "
        "if not found.name.endswith('__main__')]; "
        "print(*(module.__file__ for name, module in sys.modules.items() if name.split('.')[0] == 'vsr'), sep='\\n')"
    )
    loaded = python("-c", code).split()
    assert len(loaded) > 200
    assert all(Path(file).is_relative_to(installed) for file in loaded)


@pytest.mark.full
def test_commands_find_what_they_need(vsr, tmp_path):
    assert "08_3d_quadruped" in vsr("list", "configs")
    for name in ("biped", "first_walker", "studies/devo", "walking_worm"):
        assert f"{name}: valid" in vsr("check", name)
    assert "travel_velocity" in vsr("simulate", "biped")
    vsr("play", "worm", "--seconds", "1")
    vsr("play", "worm", "--seconds", "1", "--out", "worm.png")
    vsr("reach", "obstacle", "--json", "obstacle.json")
    assert {path.name for path in tmp_path.iterdir()} == {"worm.html", "worm.png", "obstacle.json"}


@pytest.mark.full
def test_runs_of_shipped_files(vsr, tmp_path):
    small = (
        "--set",
        "optimizer.population_size=4",
        "--set",
        "optimizer.tournament_size=2",
        "--set",
        "generations=2",
        "--set",
        "task.duration=0.5",
    )
    vsr("evolve", "first_walker", *small)
    run = tmp_path / "runs" / "first_walker"
    assert json.loads((run / "meta.json").read_text())["config"] == "01_first_walker, shipped with vsr"
    assert (run / "report.html").is_file()
    vsr("plot", run)
    vsr("sweep", "first_walker", *small, "--sweep", "optimizer.sigma=0.1,0.2")
    assert len(list((tmp_path / "runs" / "first_walker-sweep").glob("*/meta.json"))) == 2


@pytest.mark.full
def test_studies_and_reference_data_are_there(vsr, python, tmp_path):
    vsr("reproduce", "devo", "--scale", "smoke")
    assert list((tmp_path / "runs").rglob("report.md"))
    vsr("validate", "--json", "report.json")
    assert json.loads((tmp_path / "report.json").read_text())
    code = "from vsr.evidence.validate.lattice.statics import scanned; print(len(scanned().centerline))"
    assert int(python("-c", code)) > 5


@pytest.mark.full
def test_own_modules_beside_a_file_work_once_installed(vsr, tmp_path):
    (tmp_path / "cli.py").write_text(OWN.format(name="Own", key="own"))
    for name in ("evo", "experiments", "configs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('nobody asked for this')\n")
    (tmp_path / "tiny.yaml").write_text(TINY + "plugins: [cli]\nworld: {terrain: own}\n")
    vsr("evolve", "tiny", "--no-report")
    assert (tmp_path / "runs" / "tiny" / "plugins" / "cli.py").is_file()

"""Options of the campaign, the reference runs, and the figures that a campaign writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import TINY

from faults.processes import CACHE
from faults.reference import COMPILE, Reference, compile_once, smaller
from vsr.experiments.shipped import EXPERIMENT, find_config

DEFAULT, SMALL_BODY = "first_walker", "robot.body.shape=aa"
"""The experiment of a campaign unless another is given, and what makes it compile quickly."""
OPTIONS = (
    ("trials", int, 24, "of each kind of fault"),
    ("minutes", float, None, "for each kind of fault, instead of a number of trials"),
    ("first", int, 0, "number of the first trial"),
    ("fault-seed", int, 0, "the same seed makes the same trials"),
    ("config", str, None, f"experiment to run, made small; {DEFAULT} unless given"),
    ("figures", str, None, "JSON file for the figures of the campaign"),
)


def pytest_addoption(parser):
    group = parser.getgroup("faults", "campaign of fault injection (make faults)")
    for name, kind, default, text in OPTIONS:
        group.addoption(f"--{name}", type=kind, default=default, help=text)
    group.addoption("--set", action="append", default=[], help="setting of the experiment, as of vsr evolve --set")


@pytest.fixture(scope="session")
def option(request):
    """The value of an option; its default also where this file was loaded after the command line was parsed."""
    defaults = {name.replace("-", "_"): default for name, _, default, _ in OPTIONS} | {"set": []}
    return lambda name: request.config.getoption(name, defaults[name])


@pytest.fixture(scope="session")
def _shared_programs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*COMPILE, compile_once())
        yield


@pytest.fixture(scope="session")
def reference(tmp_path_factory, _shared_programs):
    """The tests' small experiment, run once and stopped once."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "tiny.yaml").write_text(TINY)
    return Reference(folder, folder / "tiny.yaml", reports=False).make()


@pytest.fixture(scope="session")
def campaign(tmp_path_factory, _shared_programs, option):
    """The experiment of the campaign, with a folder of compiled programs of its own."""
    folder = tmp_path_factory.mktemp("campaign")
    config = find_config(option("config") or DEFAULT, EXPERIMENT).resolve()
    settings = (*(() if option("config") else (SMALL_BODY,)), *option("set"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(folder / "cache"))
        patch.setenv("VSR_TRUST_PLUGINS", "1")  # the file is the user's own
        yield Reference(folder, config, smaller(config, settings)).make(measure=True)


@pytest.fixture(scope="session")
def write_figures(option):
    """Adds the figures of one kind of fault and writes those of all so far."""
    kinds = {}

    def write(kind, figures):
        kinds[kind] = figures
        if option("figures"):
            head = {"config": option("config") or DEFAULT, "settings": option("set"), "seed": option("fault_seed")}
            Path(option("figures")).write_text(json.dumps({**head, "faults": kinds}, indent=2) + "\n")

    return write

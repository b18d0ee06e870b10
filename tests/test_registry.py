"""Registries: a name has one owner, and a plugin that takes it is refused."""

import re
import sys

import pytest
from conftest import ROOT

from vsr.controllers import CONTROLLERS
from vsr.evo import OPTIMISERS
from vsr.experiments.config import ConfigError, load_experiment
from vsr.experiments.encodings import BODIES
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.experiments.reproduce.claims import CLAIMS
from vsr.sensors import QUANTITIES
from vsr.spec import Registry
from vsr.tasks import MEASURES, TASKS
from vsr.terrain import TERRAINS
from vsr.world.spec import SHAPES

ALL = {
    "bodies": BODIES,
    "claims": CLAIMS,
    "controllers": CONTROLLERS,
    "evolved_controllers": EVOLVED_CONTROLLERS,
    "measures": MEASURES,
    "optimisers": OPTIMISERS,
    "sensors": QUANTITIES,
    "shapes": SHAPES,
    "tasks": TASKS,
    "terrains": TERRAINS,
}


class Stranger:
    """Not what any registry has."""


def defined_again():
    class Mine:
        """Every call makes another class of the same name, as a cell that is run again."""

    return Mine


@pytest.mark.parametrize("registry", ALL.values(), ids=ALL)
def test_a_shipped_name_cannot_be_taken(registry):
    name, shipped = next(iter(registry.items()))
    with pytest.raises(ValueError, match=f"'{name}' exists.*{shipped.__module__}.*test_registry.Stranger"):
        registry[name] = Stranger
    registry[name] = shipped  # the same once more
    assert registry[name] is shipped


@pytest.mark.parametrize("registry", ALL.values(), ids=ALL)
def test_a_component_that_is_defined_again_replaces_itself(registry):
    one, two = defined_again(), defined_again()
    try:
        registry["mine"] = one
        registry["mine"] = two
        assert registry["mine"] is two
    finally:
        registry.pop("mine", None)


def test_every_way_to_write_is_checked():
    registry = Registry("sensor", {"one": Stranger})
    with pytest.raises(ValueError, match="sensor 'one'"):
        registry.update(one=defined_again())
    with pytest.raises(ValueError, match="sensor 'one'"):
        registry |= {"one": defined_again()}
    assert registry == {"one": Stranger}


def test_listeners_are_called_for_every_new_entry():
    registry, seen = Registry("sensor", {}), []
    registry.listeners.append(lambda: seen.append(list(registry)))
    registry["one"] = Stranger
    registry |= {"two": Stranger}
    assert seen == [["one"], ["one", "two"]]


def test_a_plugin_that_takes_a_shipped_name_is_refused(tmp_path):
    (tmp_path / "pushy.py").write_text(
        "from typing import Literal\nfrom vsr.tasks import TASKS, Locomotion\n"
        "class Push(Locomotion):\n    type: Literal['push'] = 'push'\n"
        "TASKS['push'] = Push\n"
    )
    file = tmp_path / "push.yaml"
    file.write_text("robot: {body: {shape: aa}, controller: phases}\n\nplugins: [pushy]\ntask: push\n")
    shipped = TASKS["push"]
    try:
        with pytest.raises(ConfigError, match=r"push.yaml:3: plugins.0: .*'push' exists: vsr.tasks.*pushy.Push"):
            load_experiment(file, run_plugins=True)
        assert TASKS["push"] is shipped
    finally:
        sys.modules.pop("pushy", None)


def test_examples_of_the_page_register_names_of_their_own():
    """Each block of code in docs/extending.md that registers something runs, and leaves all that is shipped."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL)
    registering = [block for block in blocks if re.search(r"^[A-Z]+\[", block, re.MULTILINE)]
    before = {kind: dict(registry) for kind, registry in ALL.items()}
    try:
        for block in registering:
            exec(compile(block, "docs/extending.md", "exec"), {"__name__": "my_plugin"})
        assert all(ALL[kind].items() >= shipped.items() for kind, shipped in before.items())
        assert sum(len(ALL[kind]) - len(shipped) for kind, shipped in before.items()) >= len(registering) >= 5
    finally:
        for kind, shipped in before.items():
            for name in set(ALL[kind]) - set(shipped):
                del ALL[kind][name]

"""Registries: a name has one owner, and a plugin that takes it is refused."""

import importlib
import json
import re
import sys
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from conftest import ROOT
from pydantic import TypeAdapter, create_model

from vsr.controllers import CONTROLLERS
from vsr.evo import OPTIMIZERS
from vsr.experiments.catalog import FILES, schema
from vsr.experiments.claims import CLAIMS
from vsr.experiments.config import ConfigError, load_experiment, parse_experiment
from vsr.experiments.descriptors import BODY_DESCRIPTORS, CONTROLLER_DESCRIPTORS
from vsr.experiments.encodings import BODIES
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.sensors import QUANTITIES
from vsr.spec import OneOf, Registry, Spec
from vsr.tasks import MEASURES, TASKS
from vsr.terrain import TERRAINS, Flat
from vsr.world.spec import SHAPES

ALL = {
    "bodies": BODIES,
    "body_descriptors": BODY_DESCRIPTORS,
    "controller_descriptors": CONTROLLER_DESCRIPTORS,
    "claims": CLAIMS,
    "controllers": CONTROLLERS,
    "evolved_controllers": EVOLVED_CONTROLLERS,
    "measures": MEASURES,
    "optimizers": OPTIMIZERS,
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


def components_in(annotation):
    """Every OneOf in an annotation, each with what makes a value of the whole from one of its own."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        own = [item for item in metadata if isinstance(item, OneOf)]
        return [(item, lambda value: value) for item in own] or components_in(inner)
    if get_origin(annotation) in (Union, UnionType):
        return [found for member in get_args(annotation) for found in components_in(member)]
    if get_origin(annotation) is tuple:
        found = components_in(get_args(annotation)[0])
        return [(item, lambda value, wrap=wrap: [wrap(value)]) for item, wrap in found]
    if get_origin(annotation) is dict:
        found = components_in(get_args(annotation)[1])
        return [(item, lambda value, wrap=wrap: {"one": wrap(value)}) for item, wrap in found]
    return []


def annotation_of(field):
    annotation = field.annotation
    for item in field.metadata:
        annotation = Annotated[annotation, item]
    return annotation


def places():
    """Every field of every description in vsr that holds a component: `Owner.field`, and its annotation."""
    for file in sorted((ROOT / "vsr").rglob("*.py")):
        if "OneOf(" in file.read_text() and file.name != "spec.py":
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    kinds, waiting = {}, [Spec]
    while waiting:
        kind = waiting.pop()
        kinds[kind] = None
        waiting += [one for one in kind.__subclasses__() if one.__module__.startswith("vsr.") and one not in kinds]
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
        for name, field in kind.model_fields.items():
            if components_in(annotation_of(field)):
                yield f"{kind.__qualname__}.{name}", annotation_of(field)


PLACES = dict(places())
LATE = "registered_late"


@pytest.fixture
def late():
    """A component in every registry that a description knows, registered long after the description was defined."""
    found = [item.registry for annotation in PLACES.values() for item, _ in components_in(annotation)]
    registries = list({id(registry): registry for registry in found}.values())
    kind = create_model("RegisteredLate", __base__=Spec, type=(Literal[LATE], LATE), size=(float, 1.0))
    for registry in registries:
        registry[LATE] = kind
    yield kind
    for registry in registries:
        del registry[LATE]


def test_places_are_found():
    """Those that were once forgotten among them."""
    assert {"World.terrain", "Object.shape", "Experiment.optimizer", "TaskCase.task", "Study.claims"} <= set(PLACES)
    known = {id(item.registry) for annotation in PLACES.values() for item, _ in components_in(annotation)}
    described = [one for one in ALL.values() if all(isinstance(part, type) for part in one.values())]
    assert len(described) >= 7
    assert {id(registry) for registry in described} <= known


@pytest.mark.parametrize("place", PLACES)
def test_a_component_registered_late_may_stand_wherever_its_key_may(place, late):
    reader = TypeAdapter(PLACES[place])
    for _, wrap in components_in(PLACES[place]):
        for written in (LATE, {"type": LATE, "size": 2.0}):
            read = reader.validate_python(wrap(written))
            assert late(**{"size": 1.0, **(written if isinstance(written, dict) else {})}) in nested(read)
            assert reader.validate_python(reader.dump_python(read, mode="json")) == read
        with pytest.raises(ValueError, match="size"):
            reader.validate_python(wrap({"type": LATE, "size": "large"}))
        assert LATE in json.dumps(reader.json_schema())


def nested(value):
    return [*value.values()] if isinstance(value, dict) else [*value] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("file", FILES)
def test_a_component_registered_late_is_in_the_schema_of_files(file, late):
    described = schema(file)
    owners = {FILES[file].__name__: described, **described.get("$defs", {})}
    checked = 0
    for place in PLACES:
        owner, _, field = place.partition(".")
        if field in owners.get(owner, {}).get("properties", {}):
            text = json.dumps(owners[owner]["properties"][field])
            assert LATE in text, place
            assert "RegisteredLate" in text, place
            checked += 1
    assert checked


def test_a_terrain_registered_late_is_one_of_those_that_fitness_is_taken_over():
    class Ice(Flat):
        type: Literal["ice"] = "ice"

    terrains = "[flat, {type: ice, friction: 0.1}]"
    text = f"robot: {{body: {{shape: aa}}, controller: sine}}\nevaluation: {{trials: 3, terrains: {terrains}}}\n"
    try:
        TERRAINS["ice"] = Ice
        experiment = parse_experiment(text)
        assert Ice(friction=0.1) in experiment.evaluation.terrains
        assert parse_experiment(json.dumps(experiment.to_plain())) == experiment
        with pytest.raises(ConfigError, match=r"<text>:2: evaluation.terrains.1.type: .*'ise'.*ice"):
            parse_experiment(text.replace("type: ice", "type: ise"))
    finally:
        TERRAINS.pop("ice", None)


def test_a_plugin_that_takes_a_shipped_name_is_refused(tmp_path):
    (tmp_path / "pushy.py").write_text(
        "from typing import Literal\nfrom vsr.tasks import TASKS, Locomotion\n"
        "class Push(Locomotion):\n    type: Literal['push'] = 'push'\n"
        "TASKS['push'] = Push\n"
    )
    file = tmp_path / "push.yaml"
    file.write_text("robot: {body: {shape: aa}, controller: sine}\n\nplugins: [pushy]\ntask: push\n")
    shipped = TASKS["push"]
    try:
        with pytest.raises(ConfigError, match=r"push.yaml:3: plugins.0: .*'push' exists: vsr.tasks.*pushy.Push"):
            load_experiment(file, run_plugins=True)
        assert TASKS["push"] is shipped
    finally:
        sys.modules.pop("pushy", None)


def test_examples_of_the_page_register_names_of_their_own():
    """Each block of code in two pages that registers something runs, and leaves all that is shipped."""
    pages = [ROOT / "docs" / page for page in ("develop/extending.md", "learn/own_task.md")]
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    registering = [block for block in blocks if re.search(r"^[A-Z]+\[", block, re.MULTILINE)]
    before = {kind: dict(registry) for kind, registry in ALL.items()}
    try:
        for block in registering:
            exec(compile(block, "a block of the page", "exec"), {"__name__": "my_plugin"})
        assert all(ALL[kind].items() >= shipped.items() for kind, shipped in before.items())
        assert sum(len(ALL[kind]) - len(shipped) for kind, shipped in before.items()) >= len(registering) >= 6
    finally:
        for kind, shipped in before.items():
            for name in set(ALL[kind]) - set(shipped):
                del ALL[kind][name]

"""What fields mean is read from the source, and only when it is shown."""

import subprocess
import sys
from typing import ClassVar, Literal

import pytest
from conftest import ROOT
from pydantic import BaseModel, ConfigDict, Field, create_model

from vsr.evo import MuPlusLambda
from vsr.evo.settings import Settings
from vsr.experiments.catalog import FILES, KINDS, components, schema
from vsr.experiments.docstrings import DescribedSchema, field_descriptions
from vsr.robot import Material
from vsr.spec import Spec


class ByPydantic(BaseModel):
    """Read by pydantic itself, which is to be repeated."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    bare: int = 0
    other: int = 1
    """another
    line"""
    reported: int = Field(default=2, description="in the field")
    """below it"""
    spaced: int = 3

    """after a space"""
    of_all: ClassVar[int] = 4
    """nobody's"""
    last: "ByPydantic | None" = None
    """the end"""

    class Inner(BaseModel):
        last: int = 0
        """another's"""

    def method(self) -> None:
        """Not of a field."""


class Child(ByPydantic):
    bare: int = 0
    """now it is told"""
    other: int = 1
    more: int = 2
    """more"""


class Grandchild(Child):
    """With nothing of its own."""


class Mine(Spec):
    kind: Literal["mine"] = "mine"
    """which"""
    part: Child = Child()
    """a part"""


def test_a_class_inside_another_has_its_own():
    assert field_descriptions(ByPydantic.Inner) == {"last": "another's"}


@pytest.mark.parametrize("kind", [ByPydantic, Child, Grandchild])
def test_fields_mean_what_pydantic_reads(kind):
    reported = {name: field.description for name, field in kind.model_fields.items() if field.description is not None}
    assert reported
    assert field_descriptions(kind) == reported


@pytest.mark.parametrize("kind", [ByPydantic, Child, Grandchild])
def test_schemas_are_those_of_pydantic(kind):
    assert kind.model_json_schema(schema_generator=DescribedSchema) == kind.model_json_schema()


def test_descriptions_are_read_when_they_are_asked_for():
    assert Mine.model_fields["kind"].description is None
    described = Mine.model_json_schema(schema_generator=DescribedSchema)["properties"]
    assert [described[name]["description"] for name in ("kind", "part")] == ["which", "a part"]


def test_classes_in_functions_and_namesakes_are_told_apart():
    def make(first):
        if first:

            class Local(Spec):
                one: int = 0
                """the first"""

        else:

            class Local(Spec):
                two: int = 0
                """the second"""

        return Local

    assert [field_descriptions(make(first)) for first in (True, False)] == [{"one": "the first"}, {"two": "the second"}]


def test_a_class_without_source_has_what_its_bases_say():
    made = create_model("Made", __base__=Mine, kind=(Literal["mine"], "mine"))
    assert field_descriptions(made) == {"part": "a part"}
    space = {"__name__": "nowhere", "Settings": Settings}
    exec("class Typed(Settings):\n    size: int = 0\n    'lost'\n", space)
    assert field_descriptions(space["Typed"]) == {}


def test_every_parameter_of_settings_is_told():
    for kind in KINDS:
        for component in components(kind):
            for parameter in component.parameters:
                assert parameter.help, f"{kind}.{component.name}.{parameter.name}"


@pytest.mark.parametrize("file", FILES)
def test_files_have_descriptions_in_their_schemas(file):
    described, said = schema(file), field_descriptions(FILES[file])
    assert said
    assert {name: described["properties"][name]["description"] for name in said} == said


def test_parts_of_files_have_descriptions_in_schemas():
    parts = schema("experiment")["$defs"]
    for kind in (Material, MuPlusLambda):
        said = field_descriptions(kind)
        assert said
        assert {name: parts[kind.__name__]["properties"][name]["description"] for name in said} == said


@pytest.mark.slow
def test_commands_that_show_none_read_no_source():
    """Reading all of them took half a second of every command."""
    code = (
        "import ast\n"
        "def refuse(*given, **options): raise AssertionError('source is read')\n"
        "import jax, numpy\n"
        "ast.parse = refuse\n"
        "import vsr.experiments.plot.comparison"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

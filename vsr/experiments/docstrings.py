"""The meaning of fields: the docstrings below them, read from the source only when they are shown.

pydantic can read them when a class is made (`use_attribute_docstrings`), which took every command half a second,
while few show any. So `model_fields` has none of them, and pydantic's own `model_json_schema` has them only with
`schema_generator=DescribedSchema`. A class without a source, as from `create_model`, has those of its bases.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

Docstrings = dict[str, str | None]
"""Docstrings of the fields that a class annotates, in order; None for a field without one."""


def field_descriptions(kind: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field, from the class itself or from the nearest base that declares the field."""
    found: dict[str, str] = {}
    for name, field in kind.model_fields.items():
        owner = next((base for base in kind.__mro__ if name in _annotated(base)), None)
        text = field.description
        if text is None and owner is not None:
            text = _docstrings(owner).get(name)
        if text is not None:
            found[name] = text
    return found


class DescribedSchema(GenerateJsonSchema):
    """JSON schemas with the docstrings of fields."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        descriptions = field_descriptions(schema["cls"])
        for name, field in described.get("properties", {}).items():
            if name in descriptions:
                described["properties"][name] = {**field, "description": descriptions[name]}
        return described


def _annotated(kind: type) -> Sequence[str]:
    """Names that a class itself annotates."""
    return tuple(inspect.get_annotations(kind))


@cache
def _docstrings(kind: type) -> Docstrings:
    """Docstrings of the fields that a class itself declares.

    Of several classes with its name in a module, those of the last that declares the same fields.
    """
    classes = _classes(kind.__module__).get(kind.__qualname__, [])
    alike = [found for found in classes if tuple(found) == _annotated(kind)]
    return (alike or classes or [{}])[-1]


@cache
def _classes(module: str) -> dict[str, list[Docstrings]]:
    """Every class in the source of a module by its qualified name; empty if there is no source."""
    found: dict[str, list[Docstrings]] = {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return found
    for name, body in _class_bodies(tree, ""):
        found.setdefault(name, []).append(_read(body))
    return found


def _class_bodies(parent: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node.body
            yield from _class_bodies(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _class_bodies(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _class_bodies(node, prefix)


def _read(body: Sequence[ast.stmt]) -> Docstrings:
    found: Docstrings = {}
    before: Any = None
    for statement in body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = None
            case ast.Expr(value=ast.Constant(value=str(text))):
                match before:
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        found[name] = inspect.cleandoc(text)
        before = statement
    return found

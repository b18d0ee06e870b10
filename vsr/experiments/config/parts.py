"""Parts of a description, each checked alone."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter

from vsr.spec import Spec


@cache
def part_reader(kind: type[Spec], name: str) -> TypeAdapter:
    """What checks one part of a description alone; raises KeyError if there is no such part."""
    field = kind.model_fields[name]
    annotation: Any = field.annotation
    for item in field.metadata:
        annotation = Annotated[annotation, item]
    return TypeAdapter(annotation)

"""From a document to a described object: every fault of it, in the user's words."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml_reader import Document
from vsr.spec import OneOf, Spec, suggest

Described = TypeVar("Described", bound=Spec)
Path = tuple[str | int, ...]


def check(document: Document, kind: type[Described]) -> Described:
    """The object a document describes; raises ConfigError with every fault in it."""
    problems = list(document.problems)
    if not isinstance(document.data, dict):
        given = "is empty" if document.data is None else f"holds {_show(document.data)}"
        names = ", ".join(kind.model_fields)
        problems.append(Problem(document.file, f"the file {given}; it should have the keys {names}"))
        raise ConfigError(problems)
    try:
        described = kind.model_validate(document.data)
    except ValidationError as error:
        problems += _all_problems(document, kind, error)
        raise ConfigError(sorted(problems, key=lambda problem: problem.line or 0)) from None
    if problems:
        raise ConfigError(problems)
    return described


def _all_problems(document: Document, kind: type[Spec], error: ValidationError) -> list[Problem]:
    """Every fault, also those that other faults hide.

    What concerns several values at once is only checked where each of them is sound. So faulty values are taken out,
    which leaves their defaults, and the rest is checked again until nothing new is found.
    """
    problems: dict[Problem, None] = {}
    data, removed = copy.deepcopy(document.data), set()
    while True:
        known = len(problems)
        for fault in error.errors():
            found = list(_problems(document, kind, dict(fault)))
            if not (fault["type"] == "missing" and found[0].path in removed):
                problems.update(dict.fromkeys(found))
            for problem in found:
                removed.add(_remove(data, problem.path))
        if len(problems) == known:
            return list(problems)
        try:
            kind.model_validate(data)
            return list(problems)
        except ValidationError as following:
            error = following


def _remove(data: Any, path: Path) -> Path:
    """Take out the value at a path, or the whole list it is in; returns the path that is gone."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    try:
        owner = _value_at(data, path[:-1])
    except (KeyError, IndexError, TypeError):
        return path  # its owner is gone already
    if path and isinstance(owner, dict):
        owner.pop(path[-1], None)
    return path


def _problems(document: Document, kind: type[Spec], fault: dict[str, Any]) -> Iterator[Problem]:
    path = _path_in_data(document.data, fault["loc"], keep_last=fault["type"] == "missing")
    context = fault.get("ctx", {})
    if fault["type"] == "misfit":
        for inner, reason in context["complaints"]:
            full = (*path, *_path_in_data(_value_at(document.data, path), inner, keep_last=True))
            yield document.problem(reason, full)
        return
    if fault["type"] == "union_tag_invalid" and isinstance(fault["input"], dict) and "type" in fault["input"]:
        where = (*path, "type") if isinstance(_value_at(document.data, path), dict) else path
        yield document.problem(_message(document, kind, path, fault, context), where)
        return
    yield document.problem(_message(document, kind, path, fault, context), path)


def _message(document: Document, kind: type[Spec], path: Path, fault: dict[str, Any], context: dict[str, Any]) -> str:
    given = _show(fault["input"])
    match fault["type"]:
        case "missing":
            return "missing; it has no default"
        case "extra_forbidden":
            return _unknown_key(document, kind, path)
        case "union_tag_invalid":
            tags = [tag.strip("' ") for tag in context["expected_tags"].split(",")]
            return f"unknown type '{context['tag']}'{suggest(context['tag'], tags)}"
        case "union_tag_not_found":
            return f"missing key type; choose from {', '.join(_choices(_field_at(kind, document.data, path)))}"
        case "literal_error" | "enum":
            allowed = [word.strip("' ") for word in context["expected"].replace(" or ", ", ").split(",")]
            return f"{given} given; allowed: {', '.join(allowed)}{_nearest(fault['input'], allowed)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            owner = _model_at(kind, document.data, path)
            keys = f" with keys of {', '.join(owner.model_fields)}" if owner else ""
            return f"{given} given; it should be a mapping{keys}"
        case "tuple_type":
            hint = (
                "; put a shape of digits in quotes" if path[-1] == "shape" and isinstance(fault["input"], int) else ""
            )
            return f"{given} given; it should be a list{hint}"
        case "value_error":
            return str(context["error"])
        case "unknown_name":
            return fault["msg"]
        case _:
            return f"{given} given; {_lower_first(fault['msg']).replace('input should', 'it should')}"


def _unknown_key(document: Document, kind: type[Spec], path: Path) -> str:
    """Of a key that a description does not have: the nearest that it has, or whose it is."""
    name, owner = str(path[-1]), _model_at(kind, document.data, path[:-1])
    if owner is None:
        return f"unknown key{suggest(name, ())}"
    choices = _choices(_field_at(kind, document.data, path[:-1]))
    others = [other for other, component in choices.items() if name in component.model_fields]
    if not others:
        return f"unknown key{suggest(name, owner.model_fields)}"
    own = next((other for other, component in choices.items() if component is owner), "")
    keys = [key for key in owner.model_fields if key != "type"]
    return f"'{own}' has no such key, unlike {', '.join(others)}; allowed: {', '.join(keys)}"


def _choices(annotations: Iterable[Any]) -> Mapping[str, type[BaseModel]]:
    """The components that a field may hold; none if it holds no component."""
    return next((item.registry for item in annotations if isinstance(item, OneOf)), {})


def _nearest(given: Any, allowed: list[str]) -> str:
    hint = suggest(str(given), allowed)
    return hint if "did you mean" in hint else ""


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _show(value: Any) -> str:
    text = repr(value) if not isinstance(value, bool | None) else str(value).lower().replace("none", "nothing")
    return text if len(text) <= 60 else text[:57] + "..."


def _path_in_data(data: Any, loc: tuple[str | int, ...], keep_last: bool) -> Path:
    """A fault's location without pydantic's own words (names of union members)."""
    path: list[str | int] = []
    met = False  # whether the name of the member at hand was met; a key of it may be called the same
    for position, key in enumerate(loc):
        if isinstance(key, str) and key.isdigit() and isinstance(data, list):
            key = int(key)
        if isinstance(data, dict) and data.get("type") == key and not met:
            met = True
            continue
        if isinstance(data, dict) and key in data:
            data, met = data[key], False  # type: ignore[index]
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data, met = data[key], False
        elif not (keep_last and position == len(loc) - 1):
            continue
        path.append(key)
    return tuple(path)


def _value_at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _model_at(kind: type[BaseModel], data: Any, path: Path) -> type[BaseModel] | None:
    """The described class at a path, following the `type` of components."""
    model: type[BaseModel] | None = kind
    for key in path:
        data = data[key]
        if isinstance(key, int) or model is None or key not in model.model_fields:
            continue  # an item of a list or a named material: the class was found with its field
        field = model.model_fields[str(key)]
        choice = next((item for item in _annotations(field) if isinstance(item, OneOf)), None)
        if choice is not None:
            name = data.get("type", choice.default) if isinstance(data, dict) else data
            model = choice.registry.get(str(name))
        else:
            model = next((item for item in _annotations(field) if _is_model(item)), None)
    return model


def _field_at(kind: type[BaseModel], data: Any, path: Path) -> list[Any]:
    """What is said about the type of the field at a path; nothing of the whole description, or of items of lists."""
    if not path:
        return []
    owner = _model_at(kind, data, path[:-1])
    return list(_annotations(owner.model_fields[str(path[-1])])) if owner and path[-1] in owner.model_fields else []


def _annotations(field: Any) -> Iterator[Any]:
    """Everything said about a field's type, however nested."""
    yield from field.metadata
    pending = [field.annotation]
    while pending:
        item = pending.pop()
        yield item
        pending += [*get_args(item), *getattr(item, "__metadata__", ())]


def _is_model(item: Any) -> bool:
    return isinstance(item, type) and issubclass(item, BaseModel)

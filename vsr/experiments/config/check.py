"""From a document to a described object: every fault of it, in the user's words."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import islice, product, takewhile
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from vsr.experiments.config.hints import annotations_of, choices_of, hint_for_key, is_model
from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml import MOST_FAULTS, Document
from vsr.spec import SYNONYMS, OneOf, Spec, suggest

Described = TypeVar("Described", bound=Spec)
Path = tuple[str | int, ...]


MOST_LOOKED_AT = 1000
"""Of the faults that pydantic finds."""


def check(document: Document, kind: type[Described]) -> Described:
    """The object a document describes; raises ConfigError with every fault in it."""
    problems = list(document.problems)
    if not isinstance(document.data, dict):
        given = "is empty" if document.data is None else f"holds {shown(document.data)}"
        names = ", ".join(kind.model_fields)
        problems.append(Problem(document.file, f"the file {given}; it should have the keys {names}"))
        raise ConfigError(problems)
    try:
        described = kind.model_validate(document.data)
    except ValidationError as error:
        problems += _all_problems(document, kind, error)
        others = list(dict.fromkeys(document.origins.values()))  # files that this one extends: their faults come last
        order = {file: number for number, file in enumerate(others, 1)}
        raise ConfigError(sorted(problems, key=lambda fault: (order.get(fault.file, 0), fault.line or 0))) from None
    if problems:
        raise ConfigError(problems)
    return described


@cache
def part_reader(kind: type[BaseModel], name: str) -> TypeAdapter:
    """What checks one part of a description alone; raises KeyError if there is no such part."""
    field = kind.model_fields[name]
    annotation: Any = field.annotation
    for item in field.metadata:
        annotation = Annotated[annotation, item]
    return TypeAdapter(annotation)


STAND_INS: dict[Path, tuple[Any, ...]] = {
    ("robot", "body"): (
        {"shape": "aa"},
        {"shape": "aa", "voxel_side": 0.01},
        {"shape": "aa", "voxel_side": 100},
        {"shape": [["aa"], ["aa"]]},
        {"shape": "hv", "engine": "evogym"},
        {"type": "material_grid", "grid": [3, 3]},
        {"type": "material_grid", "grid": [3, 3, 3]},
        {"type": "gaussian_mixture", "grid": [3, 3]},
    ),
    ("robot", "controller"): ("sine", "sine", {"type": "mlp", "sensors": [{"quantity": "area_ratio"}]}),
}
"""Sound values of parts that have no default. Those of a part that has a `type` are all its kinds besides."""
ROBOT: Path = ("robot",)
MOST_VARIANTS = 200
"""Of a document whose parts are replaced."""


def _all_problems(document: Document, kind: type[Spec], error: ValidationError) -> list[Problem]:
    """Every fault, also those that other faults hide, but none that is only the consequence of another.

    Pydantic checks several values against each other only where each of them is sound. So faulty values are taken out,
    which leaves their defaults, and the rest is checked again until nothing new is found. Complaints are then left out
    if they stand where a fault was reported before (they are about these defaults), if they name a value that was
    taken out, or if a whole makes them that had found its parts sound before. A part that is of no use is replaced by
    several sound ones: a complaint about all of them does not depend on it (`_whatever_stands_there`).
    """
    problems: dict[Problem, None] = {}
    data, removed = copy.deepcopy(document.data), set()
    gone: set[Path] = set()  # parts that were taken out as a whole
    heard: set[Path] = set()  # wholes that have said all that they have against their parts
    reported = {problem.path for problem in document.problems if _is_absent(data, problem.path)}
    while True:
        known, spoken = len(problems) + len(removed), set()
        for fault in _one_of_each_choice(document.data, error):
            found = list(_problems(document, kind, fault))
            where = _path_in_data(document.data, fault["loc"], keep_last=False)
            absent = fault["type"] == "missing" and found[0].path in removed
            if absent or any(_is_inside(part, where) and part != where for part in gone):
                paths = [_part_of(kind, document.data, found[0].path)] if absent else []
            else:
                if not any(_is_inside(where, whole) for whole in heard):
                    news = [one for one in found if one.path not in reported and not _is_consequence(one, removed)]
                    problems.update(dict.fromkeys(news))
                spoken |= {where} if fault["type"] == "misfit" else set()
                paths = [problem.path[:-1] if "_tag_" in fault["type"] else problem.path for problem in found]
            for path in paths:
                taken = _remove(data, path)
                removed.add(taken)
                gone |= {taken} & set(_parts(kind, document.data, taken))
        if len(problems) + len(removed) == known or len(problems) >= MOST_FAULTS:
            break
        reported |= {problem.path for problem in problems}
        heard |= spoken
        try:
            kind.model_validate(data)
            break
        except ValidationError as following:
            error = following
    if gone:
        reported |= {problem.path for problem in problems}
        others = _whatever_stands_there(document, kind, data, gone)
        problems.update(dict.fromkeys(one for one in others if one.path not in reported))
    return list(problems)


def _is_inside(path: Path, owner: Path) -> bool:
    """Whether a path leads to something in a value, or to the value itself."""
    return path[: len(owner)] == owner


def _is_consequence(problem: Problem, removed: set[Path]) -> bool:
    """Whether a fault of a whole names something that was taken out of it."""
    keys = {str(key) for path in removed if _is_inside(path, problem.path) for key in path[len(problem.path) :]}
    patterns = [rf"\b{re.escape(key)}\b" if len(key) > 1 else f"'{re.escape(key)}'" for key in keys]
    return any(re.search(pattern, problem.message) for pattern in patterns)


def _parts(kind: type[BaseModel], data: Any, path: Path) -> Iterator[Path]:
    """All parts around a path, the innermost first, that can be replaced as a whole."""
    for length in range(len(path), 0, -1):
        owner = path[:length]
        known = owner == ROBOT or owner in STAND_INS
        if known or (_is_one(data, owner) and choices_of(_field_at(kind, data, owner))):
            yield owner


def _is_one(data: Any, path: Path) -> bool:
    """Whether one value stands at a path, and not a list of them, or none."""
    return not _is_absent(data, path) and not isinstance(_value_at(data, path), list)


def _part_of(kind: type[BaseModel], data: Any, path: Path) -> Path:
    """The part that cannot do without the value at a path; the value's owner, where there is no such part."""
    return next(_parts(kind, data, path[:-1]), path[:-1])


def _whatever_stands_there(document: Document, kind: type[Spec], data: Any, gone: set[Path]) -> list[Problem]:
    """What parts say against each other whatever sound values stand in for those that are gone."""
    if ROBOT in gone:
        gone = {path for path in gone if not _is_inside(path, ROBOT)} | set(STAND_INS)
    choices = {path: _stand_ins(kind, document.data, path) for path in gone}
    faults = partial(_faults_with, document, kind, data)
    tries = (dict(zip(choices, values, strict=True)) for values in product(*choices.values()))
    first = next((variant for variant in islice(tries, MOST_VARIANTS) if faults(variant) is not None), None)
    if first is None:
        return []
    always = faults(first) or []
    for variant in islice(({**first, path: value} for path in choices for value in choices[path]), MOST_VARIANTS):
        found = faults(variant)
        if found is not None:
            said = {(one.path, _beginning_of(one)) for one in found}
            always = [one for one in always if (one.path, _beginning_of(one)) in said]
    return always


def _beginning_of(problem: Problem) -> str:
    """What is wrong, without what to do about it."""
    return problem.message.split(";")[0]


def _stand_ins(kind: type[BaseModel], data: Any, path: Path) -> list[Any]:
    named = [] if path in STAND_INS else list(choices_of(_field_at(kind, data, path)))
    return [*STAND_INS.get(path, ()), *named]


def _faults_with(document: Document, kind: type[Spec], data: Any, variant: Mapping[Path, Any]) -> list[Problem] | None:
    """What parts say against each other, some of them replaced; None where these do not even suit their neighbors."""
    data = copy.deepcopy(data)
    for path, value in variant.items():
        owner = data
        for key in path[:-1]:
            owner = owner.setdefault(key, {}) if isinstance(owner, dict) else None
        if not isinstance(owner, dict):
            return None
        owner[path[-1]] = copy.deepcopy(value)
    try:
        kind.model_validate(data)
        return []
    except ValidationError as error:
        faults = error.errors(include_url=False)
    if any(fault["loc"] for fault in faults):
        return None
    found = [problem for fault in faults for problem in _problems(document, kind, dict(fault))]
    return [one for one in found if not any(_is_inside(one.path, path) for path in variant)]


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
        yield from _whatever_type(document, kind, path)
        return
    yield document.problem(_message(document, kind, path, fault, context), path)


def _whatever_type(document: Document, kind: type[Spec], path: Path) -> Iterator[Problem]:
    """Faults of a part of unknown type that it has as any: keys that none takes, and values that none accepts."""
    choices, part = choices_of(_field_at(kind, document.data, path)), _value_at(document.data, path)
    for name, value in part.items() if isinstance(part, dict) and choices else ():
        if name == "type":
            continue
        owners = [component for component in choices.values() if name in component.model_fields]
        if not owners:
            yield document.problem(_unknown_key(document, kind, (*path, name)), (*path, name))
            continue
        refusals = list(takewhile(bool, (_refusal(owner, name, value) for owner in owners)))
        if len(refusals) == len(owners):  # none of which accepts it
            for fault in refusals[0]:
                yield from _problems(document, kind, {**fault, "loc": (*path, name, *fault["loc"])})


def _refusal(owner: type[BaseModel], name: str, value: Any) -> list[dict[str, Any]]:
    """What a part has against the value of one of its keys."""
    try:
        part_reader(owner, name).validate_python(value)
    except ValidationError as error:
        return _one_of_each_choice(value, error)
    return []


def _message(document: Document, kind: type[Spec], path: Path, fault: dict[str, Any], context: dict[str, Any]) -> str:
    given = shown(fault["input"])
    match fault["type"]:
        case "missing":
            return "missing; it has no default"
        case "extra_forbidden":
            return _unknown_key(document, kind, path)
        case "union_tag_invalid":
            tags = [tag.strip("' ") for tag in context["expected_tags"].split(",")]
            return f"unknown type {shown(fault['input']['type'])}{suggest(context['tag'], tags)}"
        case "union_tag_not_found":
            return f"missing key type; choose from {', '.join(choices_of(_field_at(kind, document.data, path)))}"
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
        case "bool_type" | "bool_parsing":
            return f"{given} given; write true or false"
        case "too_short":
            return f"{given} given; it should have at least {_items(context['min_length'])}"
        case "too_long":
            return f"{len(fault['input']):,} given; it should have at most {_items(context['max_length'])}"
        case "value_error":
            return str(context["error"])
        case "unknown_name":
            return fault["msg"]
        case _:
            return f"{given} given; {_lower_first(fault['msg']).replace('input should', 'it should')}"


def _unknown_key(document: Document, kind: type[Spec], path: Path) -> str:
    """Of a key that a description does not have: the nearest that there is, or whose it is."""
    name, owner = str(path[-1]), _model_at(kind, document.data, path[:-1])
    choices = choices_of(_field_at(kind, document.data, path[:-1]))
    wanted = SYNONYMS.get(name, name)
    others = [other for other, component in choices.items() if wanted in component.model_fields]
    if not others or owner is None or wanted in owner.model_fields:
        models = choices.values() if owner is None else [owner]
        keys = dict.fromkeys(key for model in models for key in model.model_fields)
        return f"unknown key{hint_for_key(kind, path[:-1], name, keys)}"
    own = next((other for other, component in choices.items() if component is owner), "")
    keys = [key for key in owner.model_fields if key != "type"]
    key = "such key" if wanted == name else f"'{wanted}'"
    return f"'{own}' has no {key}, unlike {', '.join(others)}; allowed: {', '.join(keys)}"


def _items(number: int) -> str:
    return f"{number:,} item{'' if number == 1 else 's'}"


def _nearest(given: Any, allowed: list[str]) -> str:
    hint = suggest(str(given), allowed)
    return hint if "did you mean" in hint else ""


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def shown(value: Any) -> str:
    """A value for people, in at most 60 characters, however much of it there is."""
    text = str(value).lower().replace("none", "nothing") if isinstance(value, bool | None) else _beginning(value, 61)
    return text if len(text) <= 60 else text[:57] + "..."


def _beginning(value: Any, most: int) -> str:
    """As `repr` writes it, or the beginning of that: at least the first characters, as many as asked for."""
    if isinstance(value, str):
        return repr(value[:most])
    if not isinstance(value, list | dict):
        return repr(value)
    text = ""
    for item in value:
        if len(text) >= most:
            return text
        before = ", " if text else "{" if isinstance(value, dict) else "["
        key = f"{_beginning(item, most)}: " if isinstance(value, dict) else ""
        text += before + key + _beginning(value[item] if isinstance(value, dict) else item, most)
    return (text or ("{" if isinstance(value, dict) else "[")) + ("}" if isinstance(value, dict) else "]")


def _one_of_each_choice(data: Any, error: ValidationError) -> list[dict[str, Any]]:
    """All faults; of a value that may be of several kinds, those of the kind that it is nearest to.

    pydantic tells what is wrong with it as each of them. The nearest is the one whose first fault lies deepest; of
    several, the one with the fewest faults.
    """
    found = (dict(fault) for fault in error.errors(include_url=False)[:MOST_LOOKED_AT])
    faults: list[dict[str, Any]] = [fault for fault in found if not _is_echo(fault)]
    kinds: dict[Path, dict[str, list[int]]] = {}  # where, as what, and how deep inside each fault lies
    choices: list[list[tuple[Path, str]]] = []
    for fault in faults:
        words: list[tuple[Path, str]] = []
        path = _path_in_data(data, fault["loc"], keep_last=fault["type"] == "missing", words=words)
        for where, word in words:
            kinds.setdefault(where, {}).setdefault(word, []).append(len(path) - len(where))
        choices.append(words)
    nearest = {
        where: max(known, key=lambda word: (min(known[word]), -len(known[word]))) for where, known in kinds.items()
    }
    return [
        fault
        for fault, words in zip(faults, choices, strict=True)
        if all(nearest[where] == word for where, word in words)
    ]


def _is_echo(fault: dict[str, Any]) -> bool:
    """Whether a list is called too short only because its faulty items do not count."""
    given, context = fault["input"], fault.get("ctx", {})
    return fault["type"] == "too_short" and isinstance(given, list | dict) and len(given) >= context["min_length"]


def _path_in_data(
    data: Any, loc: tuple[str | int, ...], keep_last: bool, words: list[tuple[Path, str]] | None = None
) -> Path:
    """A fault's location without pydantic's own words (names of union members); these are added to `words`."""
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
            if words is not None:
                words.append((tuple(path), str(key)))
            continue
        path.append(key)
    return tuple(path)


def _value_at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _is_absent(data: Any, path: Path) -> bool:
    """Whether nothing stands at a path, as where a value could not be read."""
    try:
        return _value_at(data, path) is None
    except (KeyError, IndexError, TypeError):
        return True


def _model_at(kind: type[BaseModel], data: Any, path: Path) -> type[BaseModel] | None:
    """The described class at a path, following the `type` of components."""
    model: type[BaseModel] | None = kind
    for key in path:
        data = data[key]
        if isinstance(key, int) or model is None or key not in model.model_fields:
            continue  # an item of a list or a named material: the class was found with its field
        field = model.model_fields[str(key)]
        choice = next((item for item in annotations_of(field) if isinstance(item, OneOf)), None)
        if choice is not None:
            name = data.get("type", choice.default) if isinstance(data, dict) else data
            model = choice.registry.get(str(name))
        else:
            model = next((item for item in annotations_of(field) if is_model(item)), None)
    return model


def _field_at(kind: type[BaseModel], data: Any, path: Path) -> list[Any]:
    """What is said about the type of the field at a path; nothing of the whole description, or of items of lists."""
    if not path:
        return []
    owner = _model_at(kind, data, path[:-1])
    return list(annotations_of(owner.model_fields[str(path[-1])])) if owner and path[-1] in owner.model_fields else []

"""Hints for keys that a description does not have: what else may be meant, in the same place or elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from vsr.spec import SYNONYMS, OneOf, clipped

Path = tuple[str | int, ...]

DEEPEST = 6
"""Keys of a path that is looked at."""
ANY_SYMBOL = "SYMBOL"
"""In a path, for the names that users give to materials and the like."""
EXPLAINED = {"control_interval": ", which is 1 more"}
"""How the value of a key differs from that of the one that stands for it."""


def hint_for_key(kind: type[BaseModel], owner: Path, name: str, siblings: Iterable[str]) -> str:
    """'; did you mean ...?' or the whole choice, to end an error message with.

    kind: of the whole file; owner: where the key stands; siblings: keys that may stand there.
    """
    siblings = list(siblings)
    found = _meant(kind, owner, clipped(name), siblings)
    if found is not None:
        at_top = ", at the top of the file" if owner and "." not in found and found not in siblings else ""
        return f"; did you mean '{found}'{at_top}{EXPLAINED.get(name, '')}?"
    return f"; choose from {', '.join(siblings)}" if siblings else ""


def _meant(kind: type[BaseModel], owner: Path, name: str, siblings: list[str]) -> str | None:
    """The key of the same owner, or the path of one elsewhere; None if there is nothing like it."""
    wanted = SYNONYMS.get(name, name)
    if wanted in siblings:
        return wanted
    elsewhere: dict[str, list[Path]] = {}
    for path in paths_of(kind):
        elsewhere.setdefault(str(path[-1]), []).append(path)

    def nearest(key: str) -> str:
        return ".".join(map(str, min(elsewhere[key], key=lambda path: (-_shared(path, owner), len(path)))))

    beginning = [key for key in siblings if len(name) > 2 and key.startswith(name)]
    if near := _alike(name, beginning, 0.0) or _alike(name, siblings, 0.8):
        return near
    if wanted in elsewhere:
        return nearest(wanted)
    if near := _alike(name, siblings, 0.7):
        return near
    if near := _alike(name, elsewhere, 0.8):
        return nearest(near)
    return _alike(name, siblings, 0.55)


def _alike(name: str, known: Iterable[str], cutoff: float) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def _shared(path: Path, owner: Path) -> int:
    """How many keys two paths begin with alike."""
    return next((place for place, (a, b) in enumerate(zip(path, owner, strict=False)) if a != b), len(owner))


def paths_of(kind: type[BaseModel]) -> Iterator[Path]:
    """Every key that a file of a kind may have, whichever components are chosen, with the path to it."""
    return _paths_of(kind, (), ())


def _paths_of(model: type[BaseModel], path: Path, around: tuple[type[BaseModel], ...]) -> Iterator[Path]:
    for name, field in model.model_fields.items():
        if name == "type" or len(path) >= DEEPEST:
            continue
        here = (*path, name)
        yield here
        said = list(annotations_of(field))
        inside = [*choices_of(said).values(), *filter(is_model, said)]
        origins = {get_origin(item) for item in said}
        inner = (*here, ANY_SYMBOL) if dict in origins else (*here, 0) if origins & {tuple, list} else here
        known: set[Path] = set()
        for other in dict.fromkeys(inside):
            if other not in around and other is not model:
                found = [one for one in _paths_of(other, inner, (*around, model)) if one not in known]
                known |= set(found)
                yield from found


def choices_of(annotations: Iterable[Any]) -> Mapping[str, type[BaseModel]]:
    """The components that a field may hold; none if it holds no component."""
    return next((item.registry for item in annotations if isinstance(item, OneOf)), {})


def annotations_of(field: Any) -> Iterator[Any]:
    """Everything said about a field's type, however nested."""
    yield from field.metadata
    pending = [field.annotation]
    while pending:
        item = pending.pop()
        yield item
        pending += [*get_args(item), *getattr(item, "__metadata__", ())]


def is_model(item: Any) -> bool:
    """Whether it is a class of descriptions."""
    return isinstance(item, type) and issubclass(item, BaseModel)

"""Sound documents changed at random: as trees, so that deep checks are reached, and as text and bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import yaml

from vsr.experiments.torture.fuzz.values import PIECES, any_value

Path = tuple[str | int, ...]


def changed_document(text: str, others: list[str], random: Random) -> bytes:
    """A document with one to four changes; others: documents to take parts from."""
    if random.random() < 0.7:
        tree = yaml.safe_load(text)
        for _ in range(random.randint(1, 3)):
            tree = changed_tree(tree, random)
        text = dumped(tree, random)
    changes = random.choice((0, 0, 1, 2)) if random.random() < 0.7 else random.randint(1, 4)
    for _ in range(changes):
        text = random.choice(TEXT)(text, others, random)
    data = text.encode("utf-8", errors="surrogatepass")
    return changed_bytes(data, random) if random.random() < 0.1 else data


def dumped(tree: Any, random: Random) -> str:
    """A tree as YAML, in one of the ways that it can be written."""
    flow = random.choice((None, True, False))
    try:
        return yaml.safe_dump(tree, sort_keys=False, default_flow_style=flow, allow_unicode=True)
    except (yaml.YAMLError, RecursionError):
        return repr(tree)


def changed_tree(tree: Any, random: Random) -> Any:
    """One value replaced, taken out, doubled, wrapped, renamed or moved."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree))
    if not places:
        return any_value(random)
    owner, key = random.choice(places)
    way = random.randrange(8)
    if way <= 2:
        owner[key] = any_value(random)
    elif way == 3:
        owner[key] = _scaled(owner[key], random)
    elif way == 4:
        owner[key] = [owner[key]] if random.random() < 0.5 else {"type": owner[key]}
    elif way == 5:
        _taken_out(owner, key)
    elif way == 6 and isinstance(owner, dict):
        owner[_misspelt(str(key), random)] = owner.pop(key) if random.random() < 0.5 else owner[key]
    else:
        other, there = random.choice(places)
        owner[key] = copy.deepcopy(other[there])
    return tree


def _places(tree: Any) -> Any:
    """Every owner and key in a tree."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _scaled(value: Any, random: Random) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return any_value(random) if not isinstance(value, list) else value * random.choice((2, 10, 100))
    factor = random.choice((-1, 0, 2, 10, 1000, 10**6, 10**9, 0.1, 0.5, 1e-9))
    try:
        return int(value * factor) if isinstance(value, int) and random.random() < 0.7 else value * factor
    except (OverflowError, ValueError):  # of infinity there is no whole number
        return value


def _taken_out(owner: Any, key: Any) -> None:
    del owner[key]


def _misspelt(word: str, random: Random) -> str:
    if not word:
        return "x"
    place = random.randrange(len(word))
    return random.choice((word[:place] + word[place + 1 :], word + word[place], word.upper(), "x" + word))


def _insert(text: str, others: list[str], random: Random) -> str:
    place = random.randint(0, len(text))
    return text[:place] + random.choice(PIECES) + text[place:]


def _cut(text: str, others: list[str], random: Random) -> str:
    first, last = _span(text, random)
    return text[:first] + text[last:]


def _repeat(text: str, others: list[str], random: Random) -> str:
    first, last = _span(text, random)
    return text[:last] + text[first:last] * random.choice((1, 2, 20)) + text[last:]


def _end(text: str, others: list[str], random: Random) -> str:
    return text[: random.randint(0, len(text))]


def _swap_lines(text: str, others: list[str], random: Random) -> str:
    lines = text.split("\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def _indent(text: str, others: list[str], random: Random) -> str:
    lines = text.split("\n")
    place = random.randrange(len(lines))
    lines[place] = random.choice((" ", "  ", "\t", "- ", "? ")) + lines[place]
    return "\n".join(lines)


def _splice(text: str, others: list[str], random: Random) -> str:
    other = random.choice(others)
    return text[: random.randint(0, len(text))] + other[random.randint(0, len(other)) :]


def _character(text: str, others: list[str], random: Random) -> str:
    if not text:
        return text
    place = random.randrange(len(text))
    return text[:place] + chr(random.choice((random.randrange(128), random.randrange(0xD800)))) + text[place + 1 :]


TEXT: tuple[Callable[[str, list[str], Random], str], ...] = (
    _insert, _insert, _cut, _repeat, _end, _swap_lines, _indent, _splice, _character, _character,
)  # fmt: skip


def _span(text: str, random: Random) -> tuple[int, int]:
    first = random.randint(0, len(text))
    return first, min(len(text), first + random.choice((1, 2, 5, 20, 100)))


def changed_bytes(data: bytes, random: Random) -> bytes:
    """Some bytes flipped, cut, doubled or made up."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        place = random.randrange(len(found) + 1)
        way = random.randrange(5)
        if way <= 1 and place < len(found):
            found[place] ^= 1 << random.randrange(8)
        elif way == 2:
            del found[place : place + random.choice((1, 4, 64))]
        elif way == 3:
            found[place:place] = random.randbytes(random.choice((1, 4, 64)))
        else:
            found = found[:place]
    return bytes(found)

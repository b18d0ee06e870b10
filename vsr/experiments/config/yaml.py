"""YAML (and JSON) as people mean it, with the line of every value; files that extend others; descriptions as YAML.

PyYAML's own reading follows YAML 1.1: it turns `no` into false, leaves `1e-3` as text and lets the last of two equal
keys win. Here plain values follow the YAML 1.2 core schema, keys are always text, and a repeated key is a fault.

Files may come from anyone, so what a text can grow to is bounded: its size, how many values it holds with those that
aliases repeat, how deep they are nested, how long names and numbers are. libyaml does the scanning where PyYAML has it.
Nothing here is recursive in the depth of a text.

`extends: other.yaml` at the top of a file takes everything else from another file, which is named as seen from the one
that extends it, or by the name of a shipped file. Mappings are merged, key by key; lists and single values of the file
replace those of the other, and so does a mapping that names another `type`.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError

from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.installed import shipped_as
from vsr.spec import Spec, clipped

MOST_BYTES = 32 * 2**20
"""Of a file."""
MOST_TAG_DIRECTIVES = 10
"""libyaml compares each with all others."""

_Scanner: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
GIVEN_BY_SHELLS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a pipe is no surprise."""
_WORDY = 20_000
"""Characters up to which a text with a fault is scanned again by PyYAML itself, which words faults better."""
MOST_VALUES = 1_000_000
"""In a file: mappings, lists and single values, each as often as aliases repeat it."""
DEEPEST = 50
"""Mappings and lists inside each other."""
LONGEST_NAME, LONGEST_NUMBER, LONGEST_TEXT = 200, 300, 1_000_000
"""Characters of a key, of a number and of any other value."""
MOST_FAULTS = 100
"""After which reading ends."""
EXTENDS, PRESET = "extends", "preset"
"""The key that names another file, and the kind of a file that is there only to be extended."""
MOST_EXTENDED = 10
"""Files that a file extends, one through the other."""
_NAMED = 4
"""Keys of a path that are informed of a place beyond all bounds."""

_IN_NUMBERS = "0123456789.eE+-"
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
}

KeyPath = tuple[str | int, ...]
"""Keys and indices from the top of a file."""
Place = tuple[int, Any]
"""Where a value stands: line of its key or of itself, from 1, and the places of what is inside it: a list of them, a
mapping, or None. What an anchor holds has one place, however often it is repeated."""


@dataclass
class Document:
    """A file's content and where each part of it stands."""

    file: str
    data: Any
    place: Place | None = None
    """of the whole content; None of an empty file"""
    problems: list[Problem] = field(default_factory=list)
    """faults that did not stop the reading"""
    settings: dict[KeyPath, str] = field(default_factory=dict)
    """the words of the command line that set the value at a path"""
    origins: dict[KeyPath, str] = field(default_factory=dict)
    """the other files that values at a path, with all inside them, were taken from"""

    def file_of(self, path: KeyPath) -> str:
        """The file that has the value at a path."""
        return next((self.origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.origins), self.file)

    def line_of(self, path: KeyPath) -> int | None:
        """Line of the path or of its nearest ancestor, in the file that has it, from 1."""
        if self.place is None:
            return None
        line, inside = self.place
        for key in path:
            try:
                line, inside = inside[key]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def problem(self, message: str, path: KeyPath) -> Problem:
        """A fault at a path, reported where the user wrote it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.settings:
                return Problem(self.settings[path[:length]], message, None, path)
        return Problem(self.file_of(path), message, self.line_of(path), path)


def read_yaml(path: str | Path) -> Document:
    """Read a file, with what it extends; raises ConfigError if it cannot be read at all."""
    return extended(parse_yaml(read_text(path), str(path)))


def extended(document: Document) -> Document:
    """A document with all that it extends; raises ConfigError if that cannot be read.

    What it extends stands where the user wrote it: faults are reported in the file, and at the line, of the value.
    """
    chain = [document]
    while isinstance(chain[-1].data, dict) and EXTENDS in chain[-1].data:
        chain.append(_base_of(chain))
    merged = chain.pop()
    while chain:
        merged = _merged(chain.pop(), merged)
    return merged


def _base_of(chain: list[Document]) -> Document:
    """What the last of these documents extends."""
    own = chain[-1]
    named = own.data[EXTENDS]
    if not isinstance(named, str) or not named:
        fault = f"{named!r:.60} given; it should be a file, or the name of a shipped one"
        raise ConfigError([own.problem(fault, (EXTENDS,))])
    beside = Path(own.file).parent / named
    try:
        path = beside if beside.is_file() else shipped_as(named)
    except (OSError, ValueError):  # a name that no file can have
        path = None
    if path is None:
        fault = f"'{clipped(named)}' given; there is no such file beside this one, and none is shipped by that name"
        raise ConfigError([own.problem(fault, (EXTENDS,))])
    seen = [Path(one.file).resolve() for one in chain]
    if path.resolve() in seen:
        fault = "the file extends itself" if path.resolve() == seen[-1] else f"{path} extends this file"
        raise ConfigError([own.problem(f"{fault}: one of them must stand alone", (EXTENDS,))])
    if len(chain) > MOST_EXTENDED:
        raise ConfigError([own.problem(f"more than {MOST_EXTENDED} files, one through the other", (EXTENDS,))])
    try:
        base = parse_yaml(read_text(path), str(path))
    except ConfigError as error:
        where = own.problem(f"{path} cannot be read", (EXTENDS,))
        raise ConfigError([where, *error.problems]) from None
    if not isinstance(base.data, dict):
        raise ConfigError([own.problem(f"{path} has no keys", (EXTENDS,))])
    if base.data.get("kind") == PRESET:  # it is what extends it
        base = replace(base, data={key: value for key, value in base.data.items() if key != "kind"})
    return base


def _merged(own: Document, base: Document) -> Document:
    """A document over what it extends."""
    origins: dict[KeyPath, str] = {}

    def merge(path: KeyPath, mine: dict, my_places: Any, theirs: dict, their_places: Any) -> tuple[dict, dict]:
        data, places = {}, {}
        for key in dict.fromkeys([*theirs, *mine]):
            at = (*path, key)
            if key not in mine:
                data[key], places[key] = theirs[key], their_places[key]
                origins[at] = base.file_of(at)
                origins.update({deeper: file for deeper, file in base.origins.items() if deeper[: len(at)] == at})
            elif key in theirs and _is_merged(mine[key], theirs[key]):
                line, inside = my_places[key]
                data[key], inside = merge(at, mine[key], inside, theirs[key], their_places[key][1])
                places[key] = line, inside
            else:
                data[key], places[key] = mine[key], my_places[key]
        return data, places

    (line, inside), (_, others) = own.place or (1, {}), base.place or (1, {})
    mine = {key: value for key, value in own.data.items() if key != EXTENDS}
    data, places = merge((), mine, inside, base.data, others)
    problems = [*own.problems, *base.problems]
    return replace(own, data=data, place=(line, places), problems=problems, origins=origins)


def _is_merged(mine: Any, theirs: Any) -> bool:
    """Whether two values are merged; a component of another type has other keys."""
    both = isinstance(mine, dict) and isinstance(theirs, dict)
    return both and ("type" not in mine or mine["type"] == theirs.get("type"))


def read_text(path: str | Path) -> str:
    """What a file holds; raises ConfigError if it is no text, or too much of it."""
    file = str(path)
    try:
        with open(path, "rb", opener=_without_waiting) as opened:
            if stat.S_ISFIFO(os.fstat(opened.fileno()).st_mode) and not file.startswith(GIVEN_BY_SHELLS):
                raise ConfigError([Problem(file, "a pipe; give a regular file")])
            os.set_blocking(opened.fileno(), True)
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError([Problem(file, f"larger than {MOST_BYTES >> 20} MiB, the most that is read")])
        return content.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError([Problem(file, "there is no such file")]) from None
    except IsADirectoryError:
        raise ConfigError([Problem(file, "this is a folder; give a YAML file")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem(file, "this is not a text file (UTF-8)")]) from None
    except OSError as error:
        raise ConfigError([Problem(file, f"cannot be read: {error.strerror}")]) from None
    except ValueError as error:  # a name that no file can have
        raise ConfigError([Problem(_printable(file), f"cannot be read: {error}")]) from None


def _without_waiting(name: str, flags: int) -> int:
    """Opens also a pipe at once, whether anybody writes to it or not."""
    return os.open(name, flags | os.O_NONBLOCK)


def parse_yaml(text: str, file: str = "<text>") -> Document:
    """Read a text; raises ConfigError if it is not YAML, or too much of it."""
    try:
        text.encode()
    except UnicodeEncodeError:  # as of bytes of the command line that are no UTF-8
        raise ConfigError([Problem(_printable(file), "this is not text (UTF-8)")]) from None
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    if len(re.findall("^%TAG", text, re.MULTILINE)) > MOST_TAG_DIRECTIVES:
        raise ConfigError([Problem(file, f"more than {MOST_TAG_DIRECTIVES} %TAG directives; none is needed")])
    try:
        return _Builder(file).build(text, _Scanner)
    except yaml.YAMLError as error:
        fault = error
    if len(text) <= _WORDY:
        try:
            _Builder(file).build(text, yaml.SafeLoader)
        except yaml.YAMLError as error:
            fault = error
    raise ConfigError([_syntax_problem(file, text, fault)])


def _syntax_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = mark.line + 1 if mark else None if position is None else text.count("\n", 0, position) + 1
    return Problem(file, f"this is not valid YAML: {reason}", line)


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


@dataclass
class _Anchored:
    """What an anchor stands for."""

    value: Any
    inside: Any
    size: int
    """values in it, with itself"""
    height: int
    """mappings and lists inside each other in it"""
    text: str | None
    """as written, of a single value"""


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    value: Any
    """None if what is in it is of no use"""
    inside: Any
    line: int
    anchor: str | None
    before: int
    """values in the document before this one"""
    key: str | None = None
    """whose value comes next, of a mapping"""
    key_line: int = 0
    waits_for_key: bool = True
    useless: bool = False
    """whether the value that comes next has no usable key"""
    height: int = 1


class _Builder:
    """From a scanner's events to values; no recursion, so that depth is a number to compare and not a stack to lose."""

    def __init__(self, file: str):
        self.document = Document(file, None)
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}
        """None for one that is still open"""
        self._values = 0

    def build(self, text: str, scanner: Any) -> Document:
        """The whole document; raises ConfigError for what is too much, yaml.YAMLError for what is no YAML."""
        loader = scanner(text)
        try:
            documents = 0
            while (event := loader.get_event()) is not None:
                kind = type(event)
                if kind is yaml.ScalarEvent:
                    if not self._item(event):
                        self._scalar(event)
                elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
                    self._begin(event)
                elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
                    self._end()
                elif kind is yaml.AliasEvent:
                    self._alias(event)
                elif kind is yaml.DocumentStartEvent:
                    documents += 1
                    if documents > 1:
                        self._refuse(event, "more than one document in the file; --- should not be in it twice")
            return self.document
        finally:
            loader.dispose()

    def _item(self, event: Any) -> bool:
        """Take a plain number of a list, of which there may be many; False for anything else."""
        text = event.value
        if not self._open or event.style or event.anchor is not None or event.tag is not None:
            return False
        owner = self._open[-1]
        if owner.value is None or type(owner.value) is dict or len(text) > LONGEST_NUMBER:
            return False
        number = _number(text)
        if number is None:
            return False
        self._count(event)
        owner.inside.append((event.start_mark.line + 1, None))
        owner.value.append(number)
        return True

    def _scalar(self, event: Any) -> None:
        text, line = event.value, event.start_mark.line + 1
        self._count(event)
        if event.tag is not None:
            self._note_tag(event)
        if event.anchor is not None:
            self._new_anchor(event)
        if self._is_key():
            self._key(text, line)
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(text, None, 1, 0, text)
            return
        if len(text) > LONGEST_TEXT:
            self._refuse(event, f"{len(text):,} characters in one value; at most {LONGEST_TEXT:,}")
        value = text if event.style else self._plain(text, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, None, 1, 0, text)
        self._put(value, line, None)

    def _plain(self, text: str, line: int) -> Any:
        """What a text without quotes means."""
        if text in _WORDS:
            return _WORDS[text]
        if len(text) <= LONGEST_NUMBER:
            number = _number(text)
            return text if number is None else number
        if text.strip(_IN_NUMBERS):
            return text
        self._note(f"a number of {len(text):,} characters given; at most {LONGEST_NUMBER}", line, self._path())
        return None

    def _begin(self, event: Any) -> None:
        self._count(event)
        if event.tag is not None:
            self._note_tag(event)
        if len(self._open) >= DEEPEST:
            self._refuse(event, f"nested more than {DEEPEST} deep")
        if event.anchor is not None:
            self._new_anchor(event)
            self._anchors[event.anchor] = None
        listed = isinstance(event, yaml.SequenceStartEvent)
        value, inside = ([], []) if listed else ({}, {})
        if self._is_key():
            value = None  # reported when it ends, and dropped
        self._open.append(_Open(value, inside, event.start_mark.line + 1, event.anchor, self._values))
        if listed:
            self._open[-1].waits_for_key = False

    def _end(self) -> None:
        closed = self._open.pop()
        if closed.anchor is not None:
            size = self._values - closed.before + 1
            self._anchors[closed.anchor] = _Anchored(closed.value, closed.inside, size, closed.height, None)
        if self._open:
            self._open[-1].height = max(self._open[-1].height, closed.height + 1)
        if self._is_key():
            self._key(None, closed.line)
        else:
            self._put(closed.value, closed.line, closed.inside)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if event.anchor not in self._anchors:
            raise ComposerError(None, None, f"found undefined alias {event.anchor!r}", event.start_mark)
        meant = self._anchors[event.anchor]
        if self._is_key():
            self._count(event)
            self._key(None if meant is None else meant.text, line)
            return
        if meant is None:
            self._note("an anchor contains itself", line, self._path())
            self._put(None, line, None)
            return
        self._count(event, meant.size, f", with what *{clipped(event.anchor)} repeats")
        if len(self._open) + meant.height > DEEPEST:
            self._refuse(event, f"nested more than {DEEPEST} deep, with what *{clipped(event.anchor)} repeats")
        if self._open:
            self._open[-1].height = max(self._open[-1].height, meant.height + 1)
        self._put(_copied(meant.value), line, meant.inside)

    def _is_key(self) -> bool:
        return bool(self._open) and self._open[-1].waits_for_key

    def _key(self, text: str | None, line: int) -> None:
        """Take a key of the mapping at hand; None for what is no single word."""
        owner = self._open[-1]
        owner.waits_for_key, owner.useless = False, True
        if text is None:
            self._note("a key must be a single word", line, self._path(1))
        elif len(text) > LONGEST_NAME:
            text = f"a key of {len(text):,} characters ({clipped(text)}); at most {LONGEST_NAME}"
            self._note(text, line, self._path(1))
        elif text in owner.inside:
            self._note(f"given twice; first on line {owner.inside[text][0]}", line, (*self._path(1), text))
        else:
            owner.key, owner.key_line, owner.useless = text, line, False
            owner.inside[text] = (line, None)

    def _put(self, value: Any, line: int, inside: Any) -> None:
        """A finished value into what it belongs to."""
        if not self._open:
            self.document.data, self.document.place = value, (line, inside)
            return
        owner = self._open[-1]
        if isinstance(owner.inside, list):
            owner.inside.append((line, inside))
            if owner.value is not None:
                owner.value.append(value)
            return
        if not owner.useless:
            owner.inside[owner.key] = (owner.key_line, inside)
            if owner.value is not None:
                owner.value[owner.key] = value
        owner.key, owner.waits_for_key, owner.useless = None, True, False

    def _path(self, without: int = 0) -> KeyPath:
        """Of the value that comes next; without: as many mappings or lists from the innermost on."""
        return tuple(
            len(owner.inside) if isinstance(owner.inside, list) else owner.key or ""
            for owner in self._open[: len(self._open) - without]
        )

    def _count(self, event: Any, size: int = 1, more: str = "") -> None:
        self._values += size
        if self._values > MOST_VALUES:
            self._refuse(event, f"more than {MOST_VALUES:,} values{more}")

    def _new_anchor(self, event: Any) -> None:
        if event.anchor in self._anchors:
            text = f"found duplicate anchor {clipped(event.anchor)!r}"
            raise ComposerError(None, None, text, event.start_mark)

    def _note_tag(self, event: Any) -> None:
        if event.tag != "!":
            name = clipped(event.tag.replace("tag:yaml.org,2002:", "!!"))
            line = event.start_mark.line + 1
            self._note(f"{name}: tags are not read; leave it out, and put text in quotes", line, self._path())

    def _note(self, message: str, line: int, path: KeyPath) -> None:
        self.document.problems.append(Problem(self.document.file, message, line, path))
        if len(self.document.problems) >= MOST_FAULTS:
            raise ConfigError(self.document.problems)

    def _refuse(self, event: Any, message: str) -> None:
        line = event.start_mark.line + 1
        raise ConfigError([Problem(self.document.file, message, line, self._path()[:_NAMED])])


def _number(text: str) -> int | float | None:
    """What a number in YAML 1.2 stands for; None for anything else."""
    try:
        number = float(text)
    except ValueError:
        return None
    if not text.isascii() or "_" in text or "n" in text or "N" in text:  # Python's 1_000, nan and infinity
        return None
    return int(text) if text.isdecimal() or (text[0] in "+-" and text[1:].isdecimal()) else number


def _copied(value: Any) -> Any:
    """The same again, so that `--set` changes one of two that an anchor makes equal."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def dump_yaml(spec: Spec) -> str:
    """A description as YAML that reads back to the same description."""
    return dump_plain(spec.to_plain())


def dump_plain(data: Any) -> str:
    """Mappings, lists, numbers and text as YAML that reads back to the same."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True)


_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's where PyYAML has it, which is several times as fast."""


class _Dumper(_SafeDumper):
    """Quotes what the reader would take for a number but YAML 1.1 would not."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _reads_back(value) else "'")


def _reads_back(value: str) -> bool:
    """Whether the reader takes a text without quotes for itself; the row `...` of an empty body ends a document."""
    if value.strip() != value or "\n" in value:
        return False
    try:
        return parse_yaml(value).data == value
    except UserError:
        return False


_Dumper.add_representer(str, _text)

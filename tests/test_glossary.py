"""One word for one idea: no page, message, help text, config or public name has a word that the glossary replaces."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import pytest
from conftest import ROOT

from vsr.cli import main

GLOSSARY = ROOT / "docs/develop/glossary.md"
PLACES = ("docs", "help", "messages", "identifiers", "keys")
CODE = re.compile(r"^```.*?^```|^    +\S.*?$|(?<!`)(`{1,2})(?!`)[^\n]+?(?<!`)\1(?!`)", re.DOTALL | re.MULTILINE)
"""Code in a page: blocks between fences, indented blocks, spans between backticks."""
SPAN = re.compile(r"(?<!`)(`{1,2})(?!`).+?(?<!`)\1(?!`)")
TARGET = re.compile(r"(?<=\])\([^)\s]*\)|https?://\S+")
"""Where links of a page lead."""
COMMENT = re.compile(r"(?:^|(?<=\s))# .*$", re.MULTILINE)


@dataclass(frozen=True)
class Rule:
    say: str
    pattern: re.Pattern


@dataclass(frozen=True)
class Text:
    """Text of one place, and where it is."""

    where: str
    line: int
    text: str


def rules_of(page):
    """Rules by place, from the tables of a page that have the columns say, not, where, patterns."""
    rules = {place: [] for place in PLACES}
    for line in page.splitlines():
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4 or cells[0] == "say" or set(cells[0]) <= {"-", " "}:
            continue
        patterns = re.findall(r"`([^`]+)`", cells[3])
        assert patterns, f"no pattern: {line}"
        for place in cells[2].split(", "):
            assert place in PLACES, f"unknown place {place!r}: {line}"
            rules[place].append(Rule(cells[0], _compiled("|".join(patterns), place)))
    return rules


def _compiled(pattern, place):
    if place == "identifiers":
        return re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])")
    if place == "keys":
        return re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)")
    return re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"))


@cache
def rules():
    return rules_of(GLOSSARY.read_text())


def findings(place, texts, rules_by_place=None):
    """`file:line: words: say ...`, for every match of the rules of a place."""
    found, rules_here = [], (rules_by_place or rules())[place]
    some = re.compile("|".join(rule.pattern.pattern for rule in rules_here))
    for text in texts:
        words = text.text if place == "keys" else text.text.lower()
        if not some.search(words):
            continue
        for rule in rules_here:
            for match in rule.pattern.finditer(words):
                line = text.line + words.count("\n", 0, match.start())
                found.append(f"{text.where}:{line}: {' '.join(match[0].split())!r}: say {rule.say}")
    return found


def blanked(text, pattern):
    """Text with what matches replaced by dots, its lines kept."""
    if pattern is SPAN and "`" not in text:
        return text
    return pattern.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), text)


def prose(text):
    """A page without its code, but with the comments in it, and without the targets of links."""
    text = CODE.sub(lambda match: _comments(match[0]), text)
    return blanked(blanked(text, SPAN), TARGET)


def _comments(code):
    """Code with everything replaced by dots but its comments."""
    kept, end = [], 0
    for match in COMMENT.finditer(code):
        kept += [re.sub(r"[^\n]", "·", code[end : match.start()]), match[0]]
        end = match.end()
    return "".join(kept) + re.sub(r"[^\n]", "·", code[end:])


def code(text, where):
    """The code of a page without its comments, block by block and span by span."""
    for match in CODE.finditer(text):
        yield Text(where, 1 + text.count("\n", 0, match.start()), COMMENT.sub("", match[0].strip("`")))


def pages():
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path != GLOSSARY)]


def name_of(path: Path):
    return str(path.relative_to(ROOT))


def comments(path):
    """Comments of a YAML file as one text, lines kept; and its quoted or long plain values, which are sentences."""
    kept = []
    for line in path.read_text().splitlines():
        value, _, comment = line.partition("# ") if line.lstrip().startswith("#") or " # " in line else (line, "", "")
        sentence = re.search(r"(?:: |- |^\s+)[\"']?((?:[\w,.%]+ ){4,}.*)", value)
        kept.append(f"{sentence[1] if sentence else ''} {comment}")
    return Text(name_of(path), 1, blanked("\n".join(kept), CODE))


def settings(path):
    """A YAML file without its comments."""
    return Text(name_of(path), 1, re.sub(r"(^|\s)#.*$", "", path.read_text(), flags=re.MULTILINE))


def configs():
    return sorted((ROOT / "vsr/configs").rglob("*.yaml"))


def commands(group, path):
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def help_texts():
    for path, command in [("vsr", main), *commands(main, "vsr")]:
        yield Text(path, 0, blanked(command.help or "", SPAN))
        for option in command.params:
            yield Text(f"{path} {option.opts[0]}", 0, blanked(getattr(option, "help", None) or "", SPAN))


def flags():
    for path, command in commands(main, "vsr"):
        yield from (Text(path, 0, name) for option in command.params for name in option.opts)


@cache
def modules():
    return [(path, ast.parse(path.read_text())) for path in sorted((ROOT / "vsr").rglob("*.py"))]


def strings():
    """Every string of the package that has a space: messages and docstrings. Values in f-strings are dots."""
    for path, tree in modules():
        inside = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                inside.update(id(part) for part in node.values)
                parts = [str(part.value) if isinstance(part, ast.Constant) else "·" for part in node.values]
                yield Text(name_of(path), node.lineno, "".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                yield Text(name_of(path), node.lineno, node.value)


@cache
def messages():
    return [text for text in strings() if " " in text.text.strip()]


def parts_of(name):
    """A name as its parts in lower case, joined by `_`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def identifiers():
    """Public names: modules, functions and their parameters, classes and their fields, constants."""
    for path, tree in modules():
        yield Text(name_of(path), 1, parts_of(path.stem))
        yield from (Text(name_of(path), line, parts_of(name)) for name, line in _names(tree) if name[0] != "_")


def _names(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node.lineno) for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
            yield from _names(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
            if not node.name.startswith("_"):
                arguments = node.args
                for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                    yield argument.arg, argument.lineno


def texts_of(place):
    if place == "docs":
        yield from (Text(name_of(path), 1, prose(path.read_text())) for path in pages())
        yield from (comments(path) for path in configs())
    elif place == "help":
        yield from help_texts()
    elif place == "messages":
        yield from (Text(text.where, text.line, blanked(text.text, SPAN)) for text in messages())
    elif place == "identifiers":
        yield from identifiers()
    else:
        for path in pages():
            yield from code(path.read_text(), name_of(path))
        for text in messages():
            yield from (Text(text.where, text.line, span) for span in re.findall(r"`([^`\n]+)`", text.text))
        yield from (settings(path) for path in configs())
        yield from flags()


@pytest.mark.parametrize("place", PLACES)
def test_no_word_that_the_glossary_replaces(place):
    found = findings(place, texts_of(place))
    assert not found, f"{len(found)} in {place} (docs/develop/glossary.md):\n" + "\n".join(found)


BAD = "# Page\n\nIt hangs\non the usual `usual` [usual](usual.md).\n\n```yaml\nea: {n_pop: 4}   # finer steps\n```\n"


def test_words_are_found_in_a_page_but_not_in_its_code_and_links():
    found = findings("docs", [Text("page.md", 1, prose(BAD))])
    assert [one.split(": say ")[0] for one in found if "usual" in one] == ["page.md:4: 'usual'"] * 2
    assert any("page.md:3: 'hangs on'" in one for one in found)
    assert any("page.md:7: 'finer'" in one for one in found)
    keys = findings("keys", code(BAD, "page.md"))
    assert len(keys) == 2
    assert any("page.md:7: 'n_pop'" in one for one in keys)


@pytest.mark.parametrize(
    ("place", "bad", "good"),
    [
        ("messages", "the file was mended", "the file was amended"),
        ("help", "Things to draw.", "Something to draw."),
        ("identifiers", parts_of("UsualSide"), parts_of("UnusualSides")),
        ("identifiers", parts_of("check_senses"), parts_of("ConsensusCheck")),
        ("keys", "optimizer.n_pop=4", "optimizer.population_size=4"),
    ],
)
def test_whole_words_are_found(place, bad, good):
    assert findings(place, [Text("x", 1, bad)])
    assert not findings(place, [Text("x", 1, good)])


def test_the_table_is_read():
    row = (
        "| say | not | where | patterns |\n| --- | --- | --- | --- |\n| new | old | docs, keys | `old`, `a(b\\|c)d` |\n"
    )
    read = rules_of(row)
    assert [len(read[place]) for place in PLACES] == [1, 0, 0, 0, 1]
    assert findings("docs", [Text("x", 5, "fine\nacd")], read) == ["x:6: 'acd': say new"]
    assert all(rules().values())
    with pytest.raises(AssertionError, match="somewhere"):
        rules_of(row.replace("docs, keys", "somewhere"))


def test_every_place_has_texts():
    """Each reader finds much to read, so that an empty list of findings means something."""
    for place, least in {"docs": 100, "help": 100, "messages": 3000, "identifiers": 3000, "keys": 1000}.items():
        assert sum(1 for _ in texts_of(place)) > least, place

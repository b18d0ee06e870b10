"""The work of `vsr new`: a shipped file copied into one of the user's own, with its comments."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml import read_text, read_yaml
from vsr.experiments.installed import CONFIGS
from vsr.experiments.shipped import ENDINGS, USE, Shipped, find_config, kind_of
from vsr.experiments.storage.files import target_file, write_text

NUMBER = re.compile(r"^\d+_")
"""Before the names of shipped examples."""


def copy_example(name: str, example: str) -> Path:
    """Write NAME.yaml; returns it. Raises UserError if there is such a file, or no such example."""
    source = find_config(example)
    if source.is_dir():
        raise UserError(f"--from {example}: this is a folder; give the name of a shipped file")
    file = Path(name if Path(name).suffix.lower() in ENDINGS else f"{name}.yaml")
    if file.exists():
        raise UserError(f"{file}: it exists and is left alone; give another name")
    target_file("NAME", str(file))
    write_text(file, renamed(extending_by_name(read_text(source), source), source.stem, file))
    return file


def renamed(text: str, stem: str, file: Path) -> str:
    """A file's text whose comments give commands for another file; stem: of the first file's name."""
    names = "|".join(map(re.escape, dict.fromkeys((stem, NUMBER.sub("", stem)))))
    given = re.compile(rf"(?<![\w/.-])(?:[\w./-]+/)?(?:{names})(?:\.yaml)?(?![\w/.-]*\w)")
    run = re.compile(rf"\bruns/(?:{names})\b")

    def line(words: str) -> str:
        if not words.lstrip().startswith("#") or "vsr " not in words:
            return words
        parts = run.split(words)
        return f"runs/{file.stem}".join(given.sub(str(file), part) for part in parts)

    return "".join(map(line, text.splitlines(keepends=True)))


def extending_by_name(text: str, source: Path) -> str:
    """A shipped file's text that extends others by their names, which mean the same in any folder."""

    def by_name(found: re.Match[str]) -> str:
        other = (source.parent / found[2]).resolve()
        shipped = other.is_file() and other.is_relative_to(CONFIGS)
        return found[1] + (Shipped(other).name if shipped else found[2])

    return re.sub(r"^(extends:[ \t]+)([^\s#]+)", by_name, text, flags=re.MULTILINE)


def next_steps(file: Path) -> str:
    """Commands for a file that was just written."""
    use = USE[kind_of(read_yaml(file).data)].split(", ")[0]
    quoted = shlex.quote(str(file))
    return f"vsr check {quoted}, then {use} {quoted}"

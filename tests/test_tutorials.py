"""The tutorials work: their files are written, their programs and commands run, in the order of the page.

A comment before a block says what tests change so that it takes seconds: `<!-- test: OPTIONS -->` adds options to a
command, `<!-- test: OLD -> NEW -->` replaces text of a program.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

import pytest
from conftest import ROOT

PAGES = sorted(path for path in (ROOT / "docs" / "learn").glob("*.md") if path.stem != "index")
BLOCK = re.compile(r"(?:<!-- test: (?P<change>.*?) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
FILE = re.compile(r"# file: ([\w.]+)\n")
MOST_WORDS = 700


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    change: str

    @property
    def file(self):
        """The name under which a page tells readers to store it, if it does."""
        match = FILE.match(self.text)
        return match and match[1]

    @property
    def program(self):
        old, _, new = self.change.partition(" -> ")
        assert not self.change or self.text.count(old) == 1, f"{old!r} must occur once"
        return self.text.replace(old, new) if self.change else self.text

    @property
    def commands(self):
        lines = self.text.strip().splitlines()
        assert all(line.startswith("$ vsr ") for line in lines), self.text
        return [[*shlex.split(line[2:])[1:], *shlex.split(self.change)] for line in lines]


def blocks(page):
    return [Block(match["kind"], match["text"], match["change"] or "") for match in BLOCK.finditer(page.read_text())]


def run(arguments, folder, text=None):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # compiles sooner
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_is_short_and_all_its_blocks_are_known(page):
    assert len(page.read_text().split()) <= MOST_WORDS
    found = blocks(page)
    assert {block.kind for block in found} <= {"yaml", "python", "console", "text"}
    assert page.read_text().count("<!-- test:") == sum(bool(block.change) for block in found)
    assert sum(block.kind in ("python", "console") for block in found) >= 3
    for block in found:
        if block.kind == "python":
            compile(block.program, page.name, "exec")
        elif block.kind == "console":
            assert block.commands


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs(page, tmp_path):
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.kind == "python":
            run(["-"], tmp_path, block.program)
        elif block.kind == "console":
            for command in block.commands:
                run(["-m", "vsr", *command], tmp_path)

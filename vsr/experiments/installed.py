"""The location of this package, in a checkout as after an installation, and its command line."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import vsr

PACKAGE = Path(vsr.__file__).resolve().parent
CONFIGS = PACKAGE / "configs"
"""shipped experiments, scenes and studies"""
COMMAND = [sys.executable, "-P", "-m", "vsr"]
"""`vsr` as a new process; -P: whatever lies in the current folder must not take a module's place"""
NUMBER = re.compile(r"^\d+_")
"""Before the name of an example."""


def names_of(file: Path) -> tuple[str, ...]:
    """All that a shipped file may be called: with or without its folder, and its number; the longest first."""
    stem, folder = file.stem, file.parent.relative_to(CONFIGS).as_posix()
    bare = NUMBER.sub("", stem)
    return tuple(dict.fromkeys([f"{folder}/{stem}", f"{folder}/{bare}", stem, bare]))


def shipped_as(name: str) -> Path | None:
    """The shipped file of a name; None if there is none. No two have the same (tests/test_shipped.py)."""
    return next((file for file in sorted(CONFIGS.rglob("*.yaml")) if name in names_of(file)), None)


def source_digest() -> str:
    """SHA-256 of all source of this package."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()

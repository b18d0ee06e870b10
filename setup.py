"""Restores the links inside `vsr`, then lets setuptools do as pyproject.toml says.

In a .zip archive that pip unpacks, and in a checkout by a git that makes no links, each of them is a small file with
the name of what it stands for, and a package made of that would lack most of its parts.
"""

import shutil
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
LINKS = ("cli.py", "configs", "evo", "experiments")


def restore(link: Path, target: str) -> None:
    """Make a link of a file that only has a link's text; a copy where links are not permitted."""
    if link.is_symlink() or not link.is_file() or link.read_text(encoding="utf-8").strip() != target:
        return
    link.unlink()
    try:
        link.symlink_to(target)
    except OSError:
        source = link.parent / target
        shutil.copytree(source, link) if source.is_dir() else shutil.copy(source, link)


for name in LINKS:
    restore(ROOT / "vsr" / name, f"../{name}")

setup()

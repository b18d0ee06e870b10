"""The location of this package, in a checkout as after an installation, and its command line."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import vsr

PACKAGE = Path(vsr.__file__).resolve().parent
CONFIGS = PACKAGE / "configs"
"""shipped experiments, scenes and studies"""
COMMAND = [sys.executable, "-P", "-m", "vsr"]
"""`vsr` as a new process; -P: whatever lies in the current folder must not take a module's place"""


def source_digest() -> str:
    """SHA-256 of all source of this package."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()

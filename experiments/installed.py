"""Where this package lies, in a checkout as after an installation, and how its command is begun anew."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import vsr

PACKAGE = Path(vsr.__file__).resolve().parent
CONFIGS = (PACKAGE / "configs").resolve()
"""shipped experiments, scenes and studies"""
SOURCES = (PACKAGE, (PACKAGE / "evo").resolve(), (PACKAGE / "experiments").resolve())
"""source of this package; in a checkout two of them lie beside it, behind links"""
COMMAND = [sys.executable, "-P", "-m", "vsr"]
"""`vsr` as a new process; -P: whatever lies in the current folder must not take a module's place"""


def source_digest() -> str:
    """SHA-256 of all source of this package."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()

"""Where this package lies, in a checkout as after an installation, and how its command is begun anew."""

from __future__ import annotations

import sys
from pathlib import Path

import vsr

PACKAGE = Path(vsr.__file__).resolve().parent
CONFIGS = (PACKAGE / "configs").resolve()
"""shipped experiments, scenes and studies"""
COMMAND = [sys.executable, "-P", "-m", "vsr"]
"""`vsr` as a new process; -P: whatever lies in the current folder must not take a module's place"""

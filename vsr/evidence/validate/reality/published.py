"""Numbers that others measured and published, with where they stand."""

import json
from importlib import resources
from typing import Any


def published() -> dict[str, Any]:
    """Everything in data/reality.json."""
    return json.loads(resources.files("vsr.evidence.validate").joinpath("data/reality.json").read_text())

"""What pyproject.toml declares; as a program, the oldest set it allows, for pip: jax==0.10.1 numpy==2.0 ..."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
REQUIRED: list[str] = PROJECT["project"]["dependencies"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
BUILD: list[str] = PROJECT["build-system"]["requires"]
NOT_TESTED = ("ruff", "pyright")
"""of the test extra: what looks at the code without running it"""


def name_of(requirement: str) -> str:
    """The distribution, as indices write it: `pyyaml` of `PyYAML>=6.0`."""
    return re.split(r"[\[<>=!~; ]", requirement)[0].lower().replace("_", "-")


def bound_of(requirement: str) -> str:
    """The lower bound: `6.0` of `PyYAML>=6.0`."""
    return requirement.partition(">=")[2]


def oldest() -> list[str]:
    """Every requirement of the package and its tests at its lower bound."""
    tests = [requirement for requirement in EXTRAS["test"] if name_of(requirement) not in NOT_TESTED]
    return [f"{name_of(requirement)}=={bound_of(requirement)}" for requirement in (*REQUIRED, *tests)]


if __name__ == "__main__":
    print(*oldest())  # noqa: T201

"""Proof by numbers: our physics against data of the original simulator, other parts against theory and measurement.

A suite is a module here with `SUITE` (command.py). A new one is its file and its line below.
"""

SUITES = {
    "2d": "original.suite",
    "lattice": "lattice.suite",
    "sand": "sand.suite",
    "fluid": "fluid",
    "trust": "trust.suite",
}
"""Modules of this package by the name that `--suite` takes; without imports, so that help is instant."""

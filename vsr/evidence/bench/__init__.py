"""Benchmarks: they print metrics and never fail for being slow.

A suite is a module here with `SCENES`, each a `Benchmark` (benchmark.py). A new one is its file and its line below.
"""

SUITES = {
    "2d": "planar",
    "3d": "lattice",
    "sand": "sand",
    "fluid": "fluid",
    "contact": "contact",
    "environments": "environments",
    "evolve": "evolve",
    "archives": "archives",
    "growth": "growth",
}
"""Modules of this package by the name that `vsr bench` takes; without imports, so that help is instant."""

"""Files to described objects and back, with every fault reported."""

from vsr.experiments.config.loading import (
    EVOLVED,
    evolves,
    load,
    load_experiment,
    load_scene,
    parse_experiment,
    parse_scene,
    run_plugins_of,
)
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml import dump_plain, dump_yaml

__all__ = [
    "EVOLVED",
    "ConfigError",
    "Problem",
    "UserError",
    "dump_plain",
    "dump_yaml",
    "evolves",
    "load",
    "load_experiment",
    "load_scene",
    "parse_experiment",
    "parse_scene",
    "run_plugins_of",
]

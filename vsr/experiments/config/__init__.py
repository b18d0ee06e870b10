"""Files to described objects and back, with every fault reported. What reads them is loaded with the first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vsr.experiments.config.problems import ConfigError, Problem, UserError

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    home = "yaml" if name.startswith("dump_") else "loading"
    return getattr(import_module(f"{__name__}.{home}"), name)

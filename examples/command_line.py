"""Runs an example from the command line: every keyword of its `main` becomes an option."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable


def run(main: Callable[..., object]) -> None:
    """Calls `main` with the options given; those left out keep their defaults."""
    description = inspect.cleandoc(main.__doc__ or "")
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, parameter in inspect.signature(main).parameters.items():
        default = parameter.default
        option = "--" + name.replace("_", "-")
        if isinstance(default, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=default, help=" ")
        else:
            parser.add_argument(option, type=type(default), default=default, help=" ")
    main(**vars(parser.parse_args()))


def show(title: str, rows: list[tuple[str, object]]) -> None:
    """Prints a short table."""
    print(title)
    for name, value in rows:
        print(f"  {name:<34}{value:>14.4g}" if isinstance(value, float) else f"  {name:<34}{value!s:>14}")

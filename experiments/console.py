"""Lines and small tables in a terminal, for every command."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def say(text: str, console: Console | None = None) -> None:
    """A line as it is, whatever is in it."""
    (console or Console()).print(text, highlight=False, soft_wrap=True, markup=False)


def warn(warnings: Sequence[str]) -> None:
    """One line each, apart from results."""
    console = Console(stderr=True)
    for warning in warnings:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True, markup=False)


def show_pairs(title: str | None, pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, under a title if there is one."""
    console = console_for_tables()
    if title is not None:
        console.print(title, highlight=False, soft_wrap=True, markup=False)
    table = Table(box=None, show_header=False)
    for name, value in pairs:
        table.add_row(name, escape(value))
    console.print(table)


def console_for_tables() -> Console:
    """As wide as the terminal; wide enough for whole names where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=200)

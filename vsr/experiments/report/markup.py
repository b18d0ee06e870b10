"""HTML from Python: what is not markup already is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = Markup | str | None
"""Markup as it is, text to be escaped, or nothing."""

VOID = ("img", "br", "meta")
FEW_COLUMNS = 5
"""The number that fits side by side on a phone."""


def tag(name: str, *content: Content, **attributes: str | int | bool | None) -> Markup:
    """An element. Of attributes, a trailing _ is dropped and other _ become -; True stands alone, None is left out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{joined(content)}</{name}>")


def joined(content: Iterable[Content], between: str = "") -> Markup:
    """Pieces one after the other."""
    pieces = (piece if isinstance(piece, Markup) else html.escape(piece) for piece in content if piece is not None)
    return Markup(between.join(pieces))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Content]], *, marked: int | None = None) -> Markup:
    """A table whose first column names the rows. marked: index of a row.

    Where it is too wide it scrolls; one of many columns shows every row as a block of named values on a phone.
    """
    labels = head if len(head) > FEW_COLUMNS else (None,) * len(head)
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, data_label=label) if column else tag("th", cell, scope="row", data_label=label)
                for column, (cell, label) in enumerate(zip(row, labels, strict=True))
            ),
            class_="marked" if index == marked else None,
        )
        for index, row in enumerate(rows)
    ]
    whole = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head))),
        tag("tbody", *body),
        class_="many" if len(head) > FEW_COLUMNS else None,
    )
    scrolled = tag("div", whole, class_="wide", tabindex=0, role="region", aria_label=caption)
    return tag("figure", tag("figcaption", caption), scrolled, class_="table")


def facts(pairs: Iterable[tuple[str, Content]]) -> Markup:
    """Names and their values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_="facts")


def command(text: str) -> Markup:
    """A command within a sentence, broken between words alone as long as they fit."""
    return tag("code", joined((tag("span", word) for word in text.split(" ")), " "), class_="command")


def commands(lines: Iterable[str]) -> Markup:
    """To be copied; on a phone, where they are broken, each begins further left than it goes on."""
    return tag("pre", tag("code", *(tag("span", f"{line}\n", class_="line") for line in lines)), tabindex=0)


def code(lines: Iterable[str]) -> Markup:
    """A file, as it is."""
    return tag("pre", tag("code", "\n".join(lines)), tabindex=0)

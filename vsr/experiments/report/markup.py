"""HTML from Python: what is not markup already is escaped."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from matplotlib.figure import Figure

from vsr.experiments.plot.figures import paper_style


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
    return Markup(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{join_html(content)}</{name}>")


def join_html(content: Iterable[Content], between: str = "") -> Markup:
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
    return tag("code", join_html((tag("span", word) for word in text.split(" ")), " "), class_="command")


def commands(lines: Iterable[str]) -> Markup:
    """To be copied; on a phone, where they are broken, each begins further left than it goes on."""
    return tag("pre", tag("code", *(tag("span", f"{line}\n", class_="line") for line in lines)), tabindex=0)


def code(lines: Iterable[str]) -> Markup:
    """A file, as it is."""
    return tag("pre", tag("code", "\n".join(lines)), tabindex=0)


INK = "#1b1c1d"
"""Stands for the color of the page's text; nothing else may have it."""
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")
"""The style's colors, in their order; the page has a variable for each."""
SIZE = (4.3, 2.8)
"""Of a chart [inches]; small enough that its letters can be read on a phone."""


def page_style() -> AbstractContextManager[None]:
    """While it is open, figures are made for `inline`."""
    ink = dict.fromkeys(
        (
            "text.color",
            "axes.edgecolor",
            "axes.labelcolor",
            "axes.titlecolor",
            "xtick.color",
            "ytick.color",
            "grid.color",
        ),
        INK,
    )
    return paper_style(
        {**ink, "svg.fonttype": "none", "svg.hashsalt": "vsr", "grid.alpha": 0.16, "figure.figsize": SIZE}
    )


def inline(figure: Figure, name: str, meaning: str) -> Markup:
    """A figure as an element; name: different for every figure of a page; meaning: for those who cannot see it."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    box = re.search(r'viewBox="([^"]*)"', text)
    assert box is not None
    inner = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    for part in (r"<metadata>.*?</metadata>", r"<defs>\s*<style.*?</style>\s*</defs>", r"<!--.*?-->"):
        inner = re.sub(part, "", inner, flags=re.S)
    inner = re.sub(r'(?<= d=")[^"]*', lambda found: _rounded(found.group()), inner)
    inner = _colored(_with_own_names(inner, name))
    inner = re.sub(r">\s+<", "><", inner).strip()
    return tag("svg", Markup(inner), viewBox=box.group(1), role="img", aria_label=meaning, class_="chart")


def _rounded(path: str) -> str:
    """To hundredths of a point, on one line."""
    return re.sub(r"(\.\d\d)\d+", r"\1", " ".join(path.split()))


def _with_own_names(text: str, name: str) -> str:
    """Every id that is referred to gets the figure's name before it; the others go."""
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda id: f' id="{name}-{id.group(1)}"' if id.group(1) in used else "", text)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)


def _colored(text: str) -> str:
    for number, color in enumerate(SERIES):
        text = text.replace(color, f"var(--series-{number})")
    return text.replace(INK, "currentColor")

"""Figures of matplotlib as SVG inside a page: its text is text, its colors are the page's, light or dark."""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager

from matplotlib.figure import Figure

from vsr.experiments.plot.figures import paper_style
from vsr.experiments.report.markup import Markup, tag

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

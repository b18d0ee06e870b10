"""Report sections of archives and fronts: their growth, and their final contents."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from matplotlib.figure import Figure

from vsr.experiments.config.plugins import PluginRequiredError
from vsr.experiments.config.problems import UserError
from vsr.experiments.plot.archives import draw_front, draw_map
from vsr.experiments.report import charts
from vsr.experiments.report.findings import Findings
from vsr.experiments.report.markup import Content, Markup, inline, join_html, page_style, tag
from vsr.experiments.storage.archives import ArchiveRead, FrontRead, read_archives, read_front
from vsr.experiments.storage.run_folder import ARCHIVE

MAP = (4.6, 3.6)
"""Of a map [inches]."""
MOST_PAIRS = 6
"""Of objectives that are drawn against each other."""


def searches(found: Findings, name: str) -> Markup | None:
    """Curves of what the search reports itself, then maps of its archives or its front; None if there is neither."""
    curves = [_curve(found, kind, f"{name}-{number}") for number, kind in enumerate(_kinds(found))]
    maps = _maps(found, name)
    if not curves and not maps:
        return None
    return join_html([tag("div", *curves, class_="pair") if curves else None, *maps])


def _kinds(found: Findings) -> dict[str, list[str]]:
    """Names of metrics by kind, for any archive."""
    kinds: dict[str, list[str]] = {}
    for name in found.run.metrics:
        kinds.setdefault(name.rpartition(".")[2], []).append(name)
    return kinds


def _curve(found: Findings, kind: str, name: str) -> Markup:
    names = _kinds(found)[kind]
    chart = charts.metrics_chart(found.run, kind, names, name)
    many = "; median over seeds" if len(found.experiment.seeds) > 1 else ""
    caption = _meanings(found).get(kind, f"{kind.replace('_', ' ').capitalize()}.").rstrip(".") + f"{many}."
    return tag("figure", chart, tag("figcaption", caption))


def _meanings(found: Findings) -> Mapping[str, str]:
    """Of the search's metrics, as it words them; none where only a plugin that did not run knows the search."""
    try:
        return found.experiment.optimizer.metrics
    except PluginRequiredError:
        return {}


def _maps(found: Findings, name: str) -> list[Content]:
    """Of the seed whose best robot is shown."""
    run = found.run
    try:
        archives = read_archives(run.path, run.experiment, found.best)
        front = read_front(run.path, run.experiment, found.best)
    except UserError as error:
        if isinstance(error, PluginRequiredError) and not (run.path / ARCHIVE).exists():
            return []
        return [tag("p", f"The archive is left out. {error}.")]
    of_seed = f" of seed {found.seed}" if len(found.experiment.seeds) > 1 else ""
    drawn = [_map(found, archive, f"{name}-map-{number}", of_seed) for number, archive in enumerate(archives)]
    if front is not None:
        pairs = list(combinations(range(len(front.names)), 2))[:MOST_PAIRS]
        drawn += [_front(front, pair, f"{name}-front-{number}", of_seed) for number, pair in enumerate(pairs)]
    return [tag("div", *drawn, class_="pair")] if drawn else []


def _map(found: Findings, archive: ArchiveRead, name: str, of_seed: str) -> Markup:
    with page_style():
        figure = Figure(MAP, layout="constrained", dpi=150)
        draw_map(figure.subplots(), archive, found.experiment, as_pixels=True)
        meaning = f"map of archive {archive.name}: {len(archive.filled)} elites in {len(archive.centers)} cells"
        drawn = inline(figure, name, meaning)
    caption = (
        f"Archive {archive.name}{of_seed}: the fittest of every cell. vsr play RUN --cell {archive.name}:I,J shows one."
    )
    return tag("figure", drawn, tag("figcaption", caption))


def _front(front: FrontRead, pair: tuple[int, int], name: str, of_seed: str) -> Markup:
    with page_style():
        figure = Figure(MAP, layout="constrained")
        draw_front(figure.subplots(), front, *pair)
        words = " against ".join(front.names[one].replace("_", " ") for one in pair)
        drawn = inline(figure, name, f"population: {words}")
    return tag("figure", drawn, tag("figcaption", f"Best Pareto front{of_seed}: {words}."))

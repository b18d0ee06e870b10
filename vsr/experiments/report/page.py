"""The whole report as one file: comparison if there are several runs, viewer, then every run. Loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from vsr.drawing.painter import Look
from vsr.experiments.formatting import UNITS, count, number, volume
from vsr.experiments.play.page import page as viewer_page
from vsr.experiments.play.recordings import RecordedRobot, Source, record_robot
from vsr.experiments.plot.comparison import Comparison, clearest, compare
from vsr.experiments.report import charts, sections
from vsr.experiments.report.findings import Findings
from vsr.experiments.report.markup import Content, Markup, command, join_html, table, tag

ASSETS = Path(__file__).parent / "assets"
MOST_SECONDS = 20.0
"""Of an episode in the viewer; a shorter task is shown whole."""
MOST_ROBOTS = 9
"""In the viewer."""

Robots = Future[list[RecordedRobot]]
"""Those of the viewer, which are simulated beside."""


def report_page(runs: Sequence[Findings]) -> str:
    """The whole file."""
    title = runs[0].label if len(runs) == 1 else f"{len(runs)} runs compared"
    with ThreadPoolExecutor(1) as beside:  # charts are drawn while XLA compiles or loads programs and robots move
        robots = beside.submit(_record, runs)
        body = _one(runs[0], robots) if len(runs) == 1 else _several(runs, robots)
    fields = {
        "TITLE": join_html([title]),
        "STYLE": (ASSETS / "report.css").read_text(encoding="utf-8"),
        "HEAD": _head(runs, title),
        "BODY": body,
        "TIME": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    pieces = (ASSETS / "report.html").read_text(encoding="utf-8").split("@@")
    return "".join(fields[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _head(runs: Sequence[Findings], title: str) -> Markup:
    states = [_state(run, "" if len(runs) == 1 else f"{run.label}: ") for run in runs]
    return join_html([tag("h1", title), *states])


def _state(found: Findings, before: str = "") -> Markup:
    """Whether a run is finished, and if not, what to do."""
    going_on = (". To go on: ", command(found.resume)) if found.resume else ()
    return tag("p", before + found.state, *going_on, class_="state")


def _one(found: Findings, robots: Robots) -> Markup:
    charted = _parts(found, "c")
    parts: list[tuple[str, Content]] = [("Best robot", viewer([found], robots.result())), *charted]
    inside = [_section(heading, content, 2, _slug(heading)) for heading, content in parts]
    return join_html(
        [_contents([heading for heading, _ in parts]), _section("Summary", sections.summary(found), 2), *inside]
    )


def _several(runs: Sequence[Findings], robots: Robots) -> Markup:
    names = [found.label for found in runs]
    of_runs = []
    for place, found in enumerate(runs):
        inside = [_section("Summary", sections.summary(found), 3)]
        inside += [_section(heading, content, 3) for heading, content in _parts(found, f"r{place}c")]
        of_runs.append(_section(found.label, join_html([_state(found), *inside]), 2, _slug(f"run {place}")))
    parts = [
        _section("Comparison", _comparison(runs), 2, _slug("Comparison")),
        _section("Best robots", viewer(runs, robots.result()), 2, _slug("Best robots")),
        *of_runs,
    ]
    links = [("Comparison", _slug("Comparison")), ("Best robots", _slug("Best robots"))]
    links += [(name, _slug(f"run {place}")) for place, name in enumerate(names)]
    return join_html([_links(links), *parts])


def _parts(found: Findings, name: str) -> list[tuple[str, Content]]:
    """Headings and contents of a run's sections; name: prefix of its pictures' names."""
    parts = [(heading, part(found, f"{name}{place}")) for place, (heading, part) in enumerate(sections.PARTS)]
    return [(heading, content) for heading, content in parts if content is not None]


def _comparison(runs: Sequence[Findings]) -> Markup:
    comparison = compare([found.run for found in runs])
    chart = charts.overlaid_curves([found.run for found in runs], [found.label for found in runs])
    caption = "Best so far: median over seeds" + (
        ", band of one standard deviation." if any(len(found.experiment.seeds) > 1 for found in runs) else "."
    )
    return join_html(
        [
            tag("ul", *(tag("li", f"warning: {warning}") for warning in comparison.warnings), class_="warnings")
            if comparison.warnings
            else None,
            tag("figure", chart, tag("figcaption", caption), class_="large"),
            _rows(comparison),
            _pairs(comparison),
        ]
    )


def _rows(comparison: Comparison) -> Markup:
    unit = UNITS.get(comparison.measure, "")
    measure = comparison.measure.replace("_", " ") + (f" [{unit}]" if unit else "")
    head = ("run", "seeds", "failed seeds", "generations", "first", "final", "quartiles")
    rows = [
        (
            row.run,
            *map(count, (row.seeds, row.failed, row.generations)),
            number(row.first),
            number(row.final),
            f"{number(row.worse)} to {number(row.better)}",
        )
        for row in comparison.rows
    ]
    return table(f"Best {measure}, median over seeds", head, rows)


def _pairs(comparison: Comparison) -> Markup:
    head = ("first", "second", "difference of medians", "p", "p (Holm)", "A")
    shown, note = clearest(comparison.pairs)
    rows = [
        (
            pair.first,
            pair.second,
            number(pair.difference),
            *(("needs 2 seeds", "") if pair.p != pair.p else (f"{pair.p:.3g}", f"{pair.p_holm:.3g}")),
            f"{pair.effect:.2f}",
        )
        for pair in shown
    ]
    caption = (
        "Final bests: two-sided Mann-Whitney test; A: chance that a seed of the first is better than one of the second"
        + (f"; {note}" if note else "")
    )
    return table(caption, head, rows)


def viewer(runs: Sequence[Findings], robots: Sequence[RecordedRobot]) -> Markup:
    """The best robots, simulated again, in a frame that holds its own page."""
    if not robots:
        return join_html(
            tag("p", found.absence if len(runs) == 1 else f"{found.label}: {found.absence}") for found in runs
        )
    look = Look(palette="original")
    frame = tag(
        "iframe",
        title="viewer: " + ", ".join(robot.name for robot in robots),
        srcdoc=viewer_page(robots, look),
        loading="lazy",
        class_="viewer" if len(robots) == 1 else "viewer tall",
    )
    return join_html([frame, _measured_again(_with_robots(runs), robots), *map(_chambers, robots, range(len(robots)))])


def _chambers(robot: RecordedRobot, place: int) -> Markup | None:
    """Motion of the fluid in a robot; place: among the robots shown."""
    chambers = robot.recording.chambers
    if chambers is None:
        return None
    chart = charts.chambers_chart(robot.recording.time, chambers, f"fluid{place}")
    sizes = ", ".join(volume(float(size)) for size in chambers.rest_volume[: charts.MOST_CHAMBERS])
    more = len(chambers.rest_volume) - charts.MOST_CHAMBERS
    caption = (
        f"Chambers of {robot.name}: pressure at the port above that outside, and volume over that at rest ({sizes}"
        f"{f' and {more} more' if more > 0 else ''})."
    )
    return tag("figure", chart, tag("figcaption", caption), class_="large")


def _with_robots(runs: Sequence[Findings]) -> list[Findings]:
    return [found for found in runs if found.scene is not None]


def _record(runs: Sequence[Findings]) -> list[RecordedRobot]:
    """The best robots of the first runs that have one, simulated again."""
    return [_recorded(found) for found in _with_robots(runs)[:MOST_ROBOTS]]


def _recorded(found: Findings) -> RecordedRobot:
    scene = found.scene
    assert scene is not None
    return record_robot(
        Source(f"{found.label}, seed {found.seed}", scene), min(MOST_SECONDS, float(scene.task.duration))
    )


def _measured_again(shown: Sequence[Findings], robots: Sequence[RecordedRobot]) -> Markup:
    """How the robots do when they are simulated once more."""
    lines = []
    for found, robot in zip(shown, robots, strict=False):
        measure = found.experiment.fitness.measure
        again = robot.measures.get(measure)
        if again is None:
            continue
        seconds = float(robot.recording.time[-1])
        evolved = sections.measured(found, found.kept[found.best])
        last = sections.measured(found, found.reached)
        kept = f" It is the best kept; the run has since reached {last}." if found.is_behind else ""
        lines.append(
            f"{robot.name}: {evolved} as reported over {found.experiment.schedule().total_time:g} s, "
            f"{sections.measured(found, again)} in this one undisturbed trial over {seconds:.3g} s.{kept}"
        )
    left = len(shown) - len(robots)
    if left:
        lines.append(f"The best of {left} more runs are not shown; vsr play shows any.")
    return join_html([tag("p", line, class_="note") for line in lines])


def _section(heading: str, content: Content, level: int, id: str | None = None) -> Markup:
    return tag("section", tag(f"h{level}", heading), content, id=id)


def _contents(headings: Sequence[str]) -> Markup:
    return _links([(heading, _slug(heading)) for heading in headings])


def _links(places: Sequence[tuple[str, str]]) -> Markup:
    items = [tag("li", tag("a", name, href=f"#{place}")) for name, place in places]
    return tag("nav", tag("ul", *items), aria_label="contents")


def _slug(heading: str) -> str:
    return heading.lower().replace(" ", "-")

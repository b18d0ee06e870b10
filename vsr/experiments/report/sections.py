"""The sections of a run's report."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import UNITS, clock, count, number
from vsr.experiments.plot.comparison import describe
from vsr.experiments.refine import Robustness, head, rows, stored_refinement
from vsr.experiments.refine import summary as summary_of
from vsr.experiments.report import charts
from vsr.experiments.report.charts import draw_body, materials_key, room_for
from vsr.experiments.report.findings import Findings
from vsr.experiments.report.markup import Content, Markup, code, commands, facts, join_html, table, tag
from vsr.experiments.report.searches import searches
from vsr.experiments.storage.lineage import Ancestor
from vsr.experiments.storage.provenance import PACKAGES
from vsr.experiments.storage.runs import Run
from vsr.physics.failure import REASONS

MOST_BODIES = 12
MOST_GAINS = 10


def measured(found: Findings, value: float) -> str:
    """A value of the run's measure with its unit."""
    unit = UNITS.get(found.experiment.fitness.measure, "")
    return f"{number(value)} {unit}" if unit and math.isfinite(value) else number(value)


def summary(found: Findings) -> Markup:
    """The run in a few numbers."""
    run, experiment = found.run, found.experiment
    row = describe(run, found.label)
    many = len(experiment.seeds) > 1
    word = f"best {experiment.fitness.measure.replace('_', ' ')}"
    duration = experiment.schedule().total_time
    pairs: list[tuple[str, Content]] = [
        (f"{word} of all seeds" if many else word, tag("strong", measured(found, found.reached))),
    ]
    if many:
        pairs.append((f"{word}, median over seeds", measured(found, row.final)))
    pairs += [
        ("in the first generation" + (", median over seeds" if many else ""), measured(found, row.first)),
        ("seeds", count(len(experiment.seeds))),
        ("robots in a generation" + (" of a seed" if many else ""), count(experiment.optimizer.population_size)),
        ("generations", f"{count(run.generations)} of {count(experiment.generations)}"),
        ("robots evaluated", count(run.generations * experiment.optimizer.population_size * len(experiment.seeds))),
        ("an episode", f"{duration:g} s"),
        ("body", _body_in_words(experiment)),
        ("genes of a robot", _genes_in_words(experiment)),
        ("time for generations", clock(found.making.seconds)),
    ]
    return join_html([facts(pairs), warnings_of(found)])


def _body_in_words(experiment: Experiment) -> str:
    body = experiment.robot.body
    size = " × ".join(map(str, body.possible.shape[::-1]))
    if body.gene_count:
        return f"evolves in a grid of {size} voxels"
    return f"fixed: {_voxels(int(body.possible.sum()))} in a grid of {size}"


def _voxels(many: int) -> str:
    return f"{count(many)}\N{NO-BREAK SPACE}voxel{'' if many == 1 else 's'}"


def _genes_in_words(experiment: Experiment) -> str:
    body = experiment.robot.body
    own, rest = body.gene_count, experiment.robot.controller.gene_count(body)
    if own and rest:
        return f"{count(own + rest)}: {count(own)} for its body, {count(rest)} for its controller"
    return f"{count(own + rest)}, all for its {'body' if own else 'controller'}"


def warnings_of(found: Findings) -> Markup | None:
    """Parts that could not be read."""
    if not found.warnings:
        return None
    return tag("ul", *(tag("li", f"warning: {warning}") for warning in found.warnings), class_="warnings")


def fitness(found: Findings, name: str) -> Markup:
    """Curves and the table of seeds."""
    return tag("div", _figure(charts.fitness_chart(found.run, name), _direction(found)), _seeds(found), class_="pair")


def _direction(found: Findings) -> str:
    more = "more" if found.experiment.fitness.direction == "maximize" else "less"
    said = f"The measure of the best robot so far and of the middle of the population; {more} is better."
    if found.run.is_confirmed:
        said += (
            f" Confirmed: the best robot of every seed in the {found.experiment.evaluation.confirmation}, "
            "on which nobody was selected. It is the number that this run reports."
        )
    return said


def _seeds(found: Findings) -> Markup:
    run, experiment = found.run, found.experiment
    order = np.argsort(-run.fitness[:, -1], kind="stable").tolist()
    surpassed = any(found.is_surpassed(index) for index in order)
    rows = []
    for index in order:
        curve = run.search_fitness[index]
        last = int(np.argmax(curve == curve[-1]))
        scene = found.robots.get(index)
        voxels = "" if scene is None else count(int(scene.robot.body.present.sum()))
        values = [number(float(run.best[index, generation])) for generation in (0, -1)]
        if run.is_confirmed:
            low, high = (number(one) if np.isfinite(one) else "failed" for one in run.quartiles[:, index].tolist())
            values += ["" if np.isnan(run.quartiles[:, index]).any() else f"{low} to {high}"]
            values += [number(float(run.search_best[index, -1]))]
        rows.append(
            (
                f"{experiment.seeds[index]}",
                *values,
                count(last),
                number(float(run.median[index, -1])) if np.isfinite(run.median[index, -1]) else "",
                *((number(found.kept[index]) if index in found.kept else "",) if surpassed else ()),
                voxels,
                count(int(run.failed[index].sum())),
            )
        )
    unit = UNITS.get(experiment.fitness.measure, "")
    head = (
        "seed",
        "first best",
        "final best",
        *(("quartiles", "in the search") if run.is_confirmed else ()),
        "last gain",
        "median",
        *(("best kept",) if surpassed else ()),
        "voxels",
        "failed",
    )
    caption = (
        f"Seeds, the best first{f', measures in {unit}' if unit else ''}. Last gain: the generation that brought it; "
        "median: of the last population; failed: robots of all generations"
        + ("; quartiles: of the trials that confirmed the final best" if run.is_confirmed else "")
        + ("; best kept: at the last checkpoint, whose robot has the voxels" if surpassed else "")
        + ("; in color: the seed whose robot is shown" if len(rows) > 1 and found.scene is not None else "")
    )
    return table(caption, head, rows, marked=order.index(found.best) if len(rows) > 1 else None)


def bodies(found: Findings) -> Markup:
    """Each seed's best body, at rest."""
    if not found.robots:
        return tag("p", found.absence)
    sign = found.experiment.fitness.sign
    order = sorted(found.robots, key=lambda index: (-sign * found.kept[index], index))
    fixed = not found.experiment.robot.body.gene_count
    shown = order[: 1 if fixed else MOST_BODIES]
    room = room_for([found.robots[index].robot.body for index in shown])
    drawn = []
    for index in shown:
        body = found.robots[index].robot.body
        seed, value = found.experiment.seeds[index], measured(found, found.kept[index])
        value += " (best kept)" if found.is_surpassed(index) else ""
        voxels = _voxels(int(body.present.sum()))
        caption = voxels if fixed else f"seed {seed}: {value}, {voxels}"
        drawn.append(tag("figure", draw_body(body, f"body at rest, {caption}", room), tag("figcaption", caption)))
    notes = []
    if fixed:
        notes.append("All robots have the same body; only their controllers evolve.")
    if len(order) > len(drawn) and not fixed:
        notes.append(f"The best {len(drawn)} of {len(order)} seeds are shown.")
    first = found.robots[order[0]].robot.body
    return join_html(
        [
            *(tag("p", note) for note in notes),
            tag("div", *drawn, class_="bodies"),
            tag("p", "A color per material:", class_="keyed"),
            materials_key(first),
        ]
    )


def diversity(found: Findings, name: str) -> Markup:
    """How different the robots of a generation are."""
    run = found.run
    if not np.isfinite(run.spread).any():
        return tag("p", "This run was made before diversity was written down.")
    parts: list[Content] = [
        _figure(
            charts.spread_chart(run, f"{name}-genes"),
            "Genes: the standard deviation of a gene over the population, averaged over genes.",
        )
    ]
    if found.experiment.robot.body.gene_count:
        caption = "Bodies: how many different ones the population has, wherever they lie in the grid."
        parts.append(_figure(charts.bodies_chart(run, f"{name}-bodies"), caption))
    note = None if found.experiment.robot.body.gene_count else tag("p", "All robots have the same body.")
    missing = None
    if np.isnan(run.spread).any():
        missing = tag("p", "Generations made by a version that did not write it down are left out.")
    return join_html([tag("div", *parts, class_="pair"), note, missing])


def descent(found: Findings, name: str) -> Markup:
    """Where the best robot came from, and which generations brought its gains."""
    way = found.descent
    if way is None:
        return tag("p", "No lineage is kept: the run folder has none, or none that can be read.")
    line = way.line
    if len(line) == 1:
        return tag("p", f"The best robot (individual {line[0].id} of seed {found.seed}) has no parents: "
                   f"it was made at random in generation {count(line[0].generation)}.")  # fmt: skip
    steps = list(pairwise(line))
    gains = [(after.fitness - before.fitness, before, after) for before, after in steps]
    better = [step for step in gains if step[0] > 0]
    until = (
        ""
        if way.generations >= found.run.generations
        else f" It is known up to generation {count(way.generations - 1)}."
    )
    made = [charts.maker(len(ancestor.parents)) for ancestor in line[1:]]
    by = " and ".join(f"{count(made.count(kind))} by {kind}" for kind in ("crossover", "mutation"))
    text = (
        f"The best robot is individual {line[-1].id} of seed {found.seed}, "
        f"made in generation {count(line[-1].generation)}. "
        f"By all parents it has {count(way.ancestors)} ancestor{'s' if way.ancestors > 1 else ''}, "
        f"{count(way.founders)} of them {'a founder' if way.founders == 1 else 'founders'}. "
        "The line below follows the fitter parent back to a founder: "
        f"{count(len(steps))} step{'s' if len(steps) > 1 else ''}, {by}; "
        f"{count(len(better))} of them {'was' if len(better) == 1 else 'were'} better than their parent.{until}"
    )
    chart = charts.descent_chart(found.run, found.best, way, name)
    return join_html(
        [
            tag("p", text),
            tag(
                "div",
                _figure(chart, "The line of ancestors among the best so far."),
                _gains(found, better, line),
                class_="pair",
            ),
        ]
    )


def _gains(
    found: Findings, better: list[tuple[float, Ancestor, Ancestor]], line: tuple[Ancestor, ...]
) -> Markup | None:
    """The largest steps, in the order of generations."""
    if not better:
        return None
    sign = found.experiment.fitness.sign
    whole = line[-1].fitness - line[0].fitness
    largest = sorted(sorted(better, key=lambda step: -step[0])[:MOST_GAINS], key=lambda step: step[2].generation)
    rows = [
        (
            count(after.generation),
            charts.maker(len(after.parents)),
            number(sign * before.fitness),
            number(sign * after.fitness),
            f"{100 * gain / whole:.0f} %" if whole > 0 and math.isfinite(whole) else "",
        )
        for gain, before, after in largest
    ]
    which = f"The {len(rows)} largest gains" if len(better) > len(rows) else "All gains"
    unit = UNITS.get(found.experiment.fitness.measure, "")
    caption = (
        f"{which} on this line{f', in {unit}' if unit else ''}. Share: of the way from founder to best; "
        "steps back are not shown"
    )
    return table(caption, ("generation", "made by", "parent", "child", "share"), rows)


def failures(found: Findings, name: str) -> Markup:
    """How many robots failed, and when."""
    run = found.run
    total, robots = int(run.failed.sum()), run.failed.size * found.experiment.optimizer.population_size
    if not total:
        return tag("p", f"None of {count(robots)} robots failed.")
    text = (
        f"{count(total)} of {count(robots)} robots failed ({100 * total / robots:.2g} %){_reasons(run)}. "
        "They count as worst."
    )
    return join_html([tag("p", text), _figure(charts.failures_chart(run, name), "Failed robots in each generation.")])


def _reasons(run: Run) -> str:
    """How many failed of what; nothing where that was not written down."""
    sums = {reason.label: run.failures[reason.name].sum() for reason in REASONS}
    known = [f"{count(int(total))} {label}" for label, total in sums.items() if total > 0]
    return f": {', '.join(known)}" if known else ""


def robustness(found: Findings, name: str) -> Markup:
    """Fitness that the best robots keep with smaller time steps, if `vsr refine` has been run."""
    ask = tag("p", "How much of this is left with smaller time steps, other trials and slightly different materials? ",
              tag("code", f"vsr refine {shlex.quote(str(found.run.path))}"), " finds out.")  # fmt: skip
    stored = stored_refinement(found.run)
    if stored is None:
        return ask
    try:
        known = Robustness.of_plain(stored)
        robots = [(robot["name"], robot["file"]) for robot in stored["robots"]]
    except (ValueError, KeyError, TypeError):
        return ask
    caption = (
        "Medians over trials; x4: steps 4 times smaller. Kept: the smallest over the first. Lost: the share of trials "
        "that failed or are below 80 % of the first median. Most changed: what is "
        "left, farthest from 100 %, when frequency changes by 1 %, damping or friction by 2 %"
    )
    return join_html([tag("p", summary_of(known) + "."), table(caption, head(known), rows(robots, known))])


def settings(found: Findings) -> Markup:
    """The whole experiment, every value written out."""
    robot = None
    if found.scene is not None:
        file = found.robot_file(found.best)
        robot = tag("p", download(file.read_text(encoding="utf-8"), "best.yaml", "save the best robot"), ": ",
                    tag("code", "vsr simulate best.yaml"), class_="save")  # fmt: skip
    return join_html(
        [
            tag("details", tag("summary", "Every value of the experiment"), code(found.config.rstrip().split("\n"))),
            tag("p", download(found.config, "config.yaml", "save the settings"), ": ",
                tag("code", "vsr evolve config.yaml"), class_="save"),
            robot,
        ]
    )  # fmt: skip


def download(text: str, name: str, words: str) -> Markup:
    """A link that saves a text as a file; the page itself holds it."""
    data = base64.b64encode(text.encode()).decode("ascii")
    return tag("a", words, href=f"data:text/yaml;base64,{data}", download=name)


def versions(found: Findings) -> Markup:
    """With what, where and when it was made."""
    if not found.making.sessions:
        return tag("p", "The origin of this run is not known: meta.json is corrupted or lists no session.")
    rows = []
    for start in found.making.sessions:
        packages = start.get("packages")
        known = packages if isinstance(packages, dict) else {}
        rows.append(
            (
                count(start["generation"]) if isinstance(start.get("generation"), int) else "",
                str(start.get("time", "")).replace("T", " ").replace("+00:00", " UTC"),
                _device(start),
                str(start.get("machine", "")),
                str(start.get("python", "")),
                *(str(known.get(name) or "") for name in PACKAGES),
                commit_shown(start.get("commit")),
                f"{start['compile_seconds']} s" if "compile_seconds" in start else "",
            )
        )
    head = ("from generation", "time", "device", "machine", "python", *PACKAGES, "commit", "compiled in")
    plus = any(str(start.get("commit")).endswith("+") for start in found.making.sessions)
    note = tag("p", "A + after a commit: the source had been changed since.") if plus else None
    return join_html([table("Sessions of this run", head, rows), note])


def _device(start: dict[str, Any]) -> str:
    """As 'cpu, 2 of them'; unknown parts are left out."""
    platform, _, kind = str(start.get("device") or "").partition(": ")
    name = platform if kind in ("", platform) else f"{platform}: {kind}"
    many = start.get("devices")
    return f"{name}, {count(many)} of them" if isinstance(many, int) and many > 1 else name


def commit_shown(commit: object) -> str:
    """Short, with the sign that the source was changed since."""
    text = str(commit or "")
    return text[:10] + ("+" if text.endswith("+") and len(text) > 11 else "")


def reproduce(found: Findings) -> Markup:
    """Commands to type."""
    run = shlex.quote(str(found.run.path))
    sessions = found.making.sessions
    first = sessions[0] if sessions else {}
    lines = []
    commit = str(first.get("commit") or "").rstrip("+")
    if commit:
        lines.append(f"git checkout {commit}")
    packages = first.get("packages")
    pinned = [
        f"{name}=={version}"
        for name, version in (packages.items() if isinstance(packages, dict) else ())
        if name != "vsr" and version
    ]
    if pinned:
        lines.append(f"pip install {shlex.join(pinned)}")
    flags = first.get("flags")
    before = "".join(f"{name}={shlex.quote(str(value))} " for name, value in flags.items()) if flags else ""
    lines.append(f"{before}vsr evolve {run}/config.yaml --out again")
    lines.append(f"vsr compare {run} again")
    changed = str(first.get("commit") or "").endswith("+")
    warning = "The source had been changed since that commit, which alone may not give the same run."
    made_by = [str(start["command"]) for start in sessions if start.get("command")]
    return join_html(
        [
            tag("p", "The same run once more; it is the same bit for bit on the same device with the same versions:")
            if pinned
            else tag(
                "p",
                "The same settings once more. With which versions and on which device the run was made is "
                "not known, so that its numbers may differ:",
            ),
            commands(lines),
            tag("p", warning, class_="note") if changed else None,
            join_html([tag("p", "It was made by:"), commands(made_by)]) if made_by else None,
            tag("p", "More of it:"),
            commands([f"vsr play {run}", f"vsr plot {run} --out curves.pdf", f"vsr report {run}"]),
        ]
    )


def _figure(chart: Markup, caption: str) -> Markup:
    return tag("figure", chart, tag("figcaption", caption))


Part = Callable[[Findings, str], Markup | None]
"""From what is known and a name for its pictures; None if a run has no such part."""
PARTS: tuple[tuple[str, Part], ...] = (
    ("Fitness", fitness),
    ("Best bodies", lambda found, _: bodies(found)),
    ("Diversity", diversity),
    ("Search", searches),
    ("Lineage of the best robot", descent),
    ("Failures", failures),
    ("Robustness", robustness),
    ("Settings", lambda found, _: settings(found)),
    ("Versions", lambda found, _: versions(found)),
    ("How to reproduce it", lambda found, _: reproduce(found)),
)
"""Headings and what comes under them, of every run."""

"""The results of a study: figure, CSV files, and one page in Markdown from the question to the verdict.

How the runs were made is a page of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from vsr.evidence.reproduce.exchange_report import write_exchange
from vsr.evidence.reproduce.published import write_published
from vsr.evidence.reproduce.robots import HIGHER
from vsr.evidence.reproduce.statement import rules_of
from vsr.evidence.reproduce.tables import CURVES, curves, markdown, pairs, table, write_csv
from vsr.evidence.reproduce.transfer import Checked
from vsr.experiments.claims import Claim, Result, Verdict, judge, number
from vsr.experiments.formatting import clock
from vsr.experiments.plot.curves import draw_curves, goal
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit
from vsr.experiments.storage.files import write_text
from vsr.experiments.storage.provenance import Provenance, making
from vsr.experiments.storage.run_folder import is_run
from vsr.experiments.study import Panel, Study, StudyFile

REPORT, PROVENANCE, BEST = "report.md", "provenance.md", "best"

ACROSS = 6
"""Plots side by side, at most; more are drawn in rows, each with an axis of its own."""
NEAR = 0.1
"""How much a robot's measure may change with smaller time steps and still count as kept."""


def write_study(
    file: StudyFile,
    scale: str,
    results: Mapping[str, Result],
    folder: Path,
    warnings: Sequence[str],
    statement: Sequence[str] = (),
    checked: Mapping[str, Checked] | None = None,
) -> list[tuple[Claim, Verdict]]:
    """Write figure, tables and report of the runs so far; returns all claims with their verdicts.

    statement: lines about where claims were stated; checked: see `write_published`.
    """
    study = file.study
    verdicts = list(zip(study.claims, judge(study.claims, results), strict=True))
    ordered = [results[name] for name in study.experiments if name in results]
    runs = [result for result in ordered if is_run(result.run.path)]
    for suffix in (".png", ".pdf") if runs else (".png",):
        draw_figure(file, results, folder / f"{study.figure.name}{suffix}")
    write_csv(folder / CURVES, curves(ordered))
    write_csv(folder / "table.csv", table(ordered))
    write_csv(folder / "pairs.csv", [row for panel in study.figure.panels for row in pairs(_of_panel(panel, results))])
    if runs:  # else it is as it was when these results were copied
        write_text(folder / PROVENANCE, "\n".join(_provenance(study.title, runs)) + "\n")
    lines = [
        *_head(study, warnings),
        *_section("Method", "\n\n".join(part for part in (study.about, study.scales[scale].note) if part)),
        *_results(file, ordered, folder),
        *write_published(study, results, folder, checked),
        *_exchanged(file, results, folder),
        *_verdicts(verdicts, statement),
        *_section("What would change our mind", study.doubts),
        f"Devices, versions, commits and commands: [{PROVENANCE}]({PROVENANCE}). Numbers: `{CURVES}` (every seed and "
        "generation), `table.csv`, `pairs.csv` (experiments compared).",
    ]
    write_text(folder / REPORT, "\n".join(lines) + "\n")
    return verdicts


def write_summary(folder: Path, studies: Sequence[tuple[StudyFile, list[tuple[Claim, Verdict]]]]) -> None:
    """One page over several studies."""
    lines = ["# Verdicts", ""]
    rows = [
        [f"[{file.study.title}]({file.name}/{REPORT})", *_claim_row(claim, verdict)]
        for file, verdicts in studies
        for claim, verdict in verdicts
    ]
    lines += markdown(["study", *CLAIM_COLUMNS], rows)
    for file, _ in studies:
        lines += ["", f"## {file.study.title}", "", f"![]({file.name}/{file.study.figure.name}.png)"]
    write_text(folder / REPORT, "\n".join(lines) + "\n")


def draw_figure(file: StudyFile, results: Mapping[str, Result], target: Path) -> None:
    """The study's plots side by side: medians over seeds with a band of one standard deviation."""
    panels = [(panel, shown) for panel in file.study.figure.panels if (shown := _of_panel(panel, results))]
    if not panels:
        return
    across = min(len(panels), ACROSS)
    down = math.ceil(len(panels) / across)
    size = (5.2, 3.4) if len(panels) == 1 else (0.6 + 3.0 * across, 3.0 * down)
    with paper_style():
        figure = Figure(figsize=size, layout="constrained")
        places = figure.subplots(down, across, sharey=down == 1, squeeze=False).ravel()
        for axes, (panel, shown) in zip(places, panels, strict=False):
            draw_curves(axes, [result.run for result in shown], [result.label for result in shown])
            axes.set_title(panel.title)
            if down == 1:
                axes.label_outer()
            else:
                axes.set(xlabel="", ylabel="")
        for axes in places[len(panels) :]:
            axes.remove()
        figure.axes[0].set_ylabel(goal(panels[0][1][0].run))
        save_figure(figure, target)


def _of_panel(panel: Panel, results: Mapping[str, Result]) -> list[Result]:
    return [results[name] for name in panel.curves if name in results]


def _head(study: Study, warnings: Sequence[str]) -> Iterator[str]:
    yield from (f"# {study.title}", "")
    if study.caution:
        yield from (f"> {study.caution}", "")
    if warnings:
        yield from (*(f"- **Warning:** {warning}" for warning in warnings), "")
    yield from _section("Question", study.question)


def _section(title: str, text: str) -> Iterator[str]:
    """Nothing for an empty text."""
    if text:
        yield from (f"## {title}", "", text.strip(), "")


CLAIM_COLUMNS = ("claim", "medians over seeds", "A [95 %]", "p (Holm)", "verdict")


def _claim_row(claim: Claim, verdict: Verdict) -> list[str]:
    return [claim.text, verdict.evidence, verdict.effect, verdict.p, f"**{verdict.holds}**"]


def _verdicts(verdicts: Sequence[tuple[Claim, Verdict]], statement: Sequence[str]) -> Iterator[str]:
    if not verdicts:
        return
    yield from ("## Verdict", "", *statement)
    yield from markdown(CLAIM_COLUMNS, [_claim_row(claim, verdict) for claim, verdict in verdicts])
    yield from ("", "Tests, always over seeds, corrected by Holm's method within a family of claims:", "")
    yield from rules_of(tuple(claim for claim, _ in verdicts))
    yield ""


def _results(file: StudyFile, results: Sequence[Result], folder: Path) -> Iterator[str]:
    """The figure, and a table with a line for every experiment."""
    first = results[0].run
    yield from ("## Result", "", f"![]({file.study.figure.name}.png)", "")
    yield (
        f"Best {with_unit(first.experiment.fitness.measure)} so far: median over seeds, band of one standard deviation."
    )
    if any(result.run.is_confirmed for result in results):
        meaning = first.experiment.evaluation.confirmation
        yield f"Lines are what the search selects by, dots and `reported` the {meaning}."
    again = [result for result in results if result.repeats is not None]
    tried = [result.robustness for result in again if result.robustness is not None]
    factor = max((one.factors[-1] for one in tried), default=1)
    yield ""
    yield "Medians over seeds. `Reported` is the fitness of each seed's best robot at the end of its run."
    if again:
        repeats = max(result.repeats.shape[1] for result in again if result.repeats is not None)
        others = f"dropped from up to {1000 * HIGHER:g} mm higher"
        if file.study.transfer is not None:
            others = "in fresh trials, from a little higher and with other draws of the task"
        yield (
            f"`Again` is the median of {repeats} repeats from its file, {others}"
            f"{f', x{factor} that of repeats with time steps {factor} times smaller' if tried else ''}."
        )
    if tried:
        yield (
            f"`Kept` is a robot's fitness at x{factor} over that at x1: median, robots within {100 * NEAR:.0f} %, and "
            "the worst."
        )
    yield ""
    head = ["experiment", "genes", "seeds", "robots x generations", "first generation", "reported", "quartiles", "σ"]
    head += [*(["again"] if again else []), *([f"x{factor}", "kept", "near", "worst"] if tried else [])]
    yield from markdown(head, [_line(result, factor, len(head), folder) for result in results])
    yield ""


def _line(result: Result, factor: int, columns: int, folder: Path) -> list[str]:
    """An experiment's line of the table, filled up to this many columns."""
    row = table([result])[0]
    there = (folder / BEST / f"{result.name}.yaml").exists()
    cells = [
        f"[{result.name}]({BEST}/{result.name}.yaml)" if there else result.name,
        str(row["genes"]),
        str(row["seeds"]),
        f"{row['population_size']} x {row['generations']}",
        number(row["first_best"]),
        number(row["final_best"]),
        f"{number(row['worse_quartile'])} to {number(row['better_quartile'])}",
        number(row["sigma"]),
    ]
    if result.repeats is not None:
        cells.append(number(row["repeats_median"]))
    found = result.robustness
    if found is not None and factor in found.factors:
        kept = found.kept[np.isfinite(found.kept)]
        cells.append(number(float(np.nanmedian(found.at(factor)))))
        if len(kept):
            near = int((abs(kept - 1) <= NEAR).sum())
            cells += [f"{100 * np.median(kept):.1f} %", f"{near} of {len(found.kept)}", f"{100 * kept.min():.0f} %"]
    return cells + [""] * (columns - len(cells))


def _exchanged(file: StudyFile, results: Mapping[str, Result], folder: Path) -> Iterator[str]:
    """The part about exchanged winners, of studies that have it."""
    found = next(iter(results.values())).exchange
    if found is not None:
        yield from write_exchange({name: results[name] for name in found.names}, found, folder)
    elif file.study.exchange is not None:
        yield from ("## Winners exchanged", "", "Not yet: that comes when all experiments are finished.", "")


def _provenance(title: str, results: Sequence[Result]) -> Iterator[str]:
    """The page about how runs were made."""
    made = {result.name: making(result.run.path) for result in results}
    yield from (f"# How it was made: {title}", "")
    yield from ("Each experiment is a run folder that `vsr evolve --resume` can go on with. Commands:", "", "```")
    yield from dict.fromkeys(start.get("command", "unknown") for each in made.values() for start in each.sessions)
    yield from ("```", "")
    head = ["experiment", "time", "a generation", "compiling", "sessions", "episode", "substeps", "device", "versions"]
    yield from markdown([*head, "commit"], [_making(result, made[result.name]) for result in results])
    total = sum(each.seconds + each.compiling for each in made.values())
    yield from (
        "",
        f"{clock(total)} in all. Times are those of generations that were kept; substeps are in a time step.",
    )


def _making(result: Result, made: Provenance) -> list[str]:
    schedule = result.run.experiment.schedule()
    last = made.sessions[-1] if made.sessions else {}
    packages = {"python": last.get("python"), **last.get("packages", {})}
    devices = dict.fromkeys(f"{s.get('device')} x {s.get('devices')}" for s in made.sessions)
    return [
        result.name,
        clock(made.seconds),
        f"{made.seconds / result.run.generations:.3g} s",
        clock(made.compiling),
        str(len(made.sessions)),
        f"{schedule.total_time:g} s of {schedule.time_step:.4g} s",
        str(schedule.substeps),
        ", ".join(devices),
        ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        ", ".join(dict.fromkeys(_commit(start.get("commit")) for start in made.sessions)),
    ]


def _commit(commit: str | None) -> str:
    """Short, with the sign that the source was changed since."""
    return "none" if commit is None else commit[:12] + ("+" if commit.endswith("+") else "")

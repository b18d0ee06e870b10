"""The results of a study: figure, CSV files, and a report in Markdown with every claim and its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vsr.evidence.reproduce.exchange_report import write_exchange
from vsr.evidence.reproduce.published import write_published
from vsr.evidence.reproduce.robots import HIGHER
from vsr.evidence.reproduce.statement import rules_of
from vsr.evidence.reproduce.tables import curves, markdown, pairs, table, write_csv
from vsr.evidence.reproduce.transfer import Checked
from vsr.experiments.claims import Claim, Result, Verdict, judge, number
from vsr.experiments.formatting import clock
from vsr.experiments.plot.curves import draw_curves, goal
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit
from vsr.experiments.ranks import middle
from vsr.experiments.storage.files import write_text
from vsr.experiments.storage.provenance import Provenance, making
from vsr.experiments.study import Panel, StudyFile

REPORT, BEST = "report.md", "best"

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
    rows = table(ordered)
    compared = [row for panel in study.figure.panels for row in pairs(_of_panel(panel, results))]
    for suffix in (".png", ".pdf"):
        draw_figure(file, results, folder / f"{study.figure.name}{suffix}")
    write_csv(folder / "curves.csv", curves(ordered))
    write_csv(folder / "table.csv", rows)
    write_csv(folder / "pairs.csv", compared)
    lines = [
        *_head(file, scale, warnings),
        *_claims(verdicts, statement),
        *write_published(study, results, folder, checked),
        *_results(file, rows, compared, ordered[0]),
        *_exchanged(file, results, folder),
        *_best(file, ordered, folder),
        *_how(ordered),
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


def _head(file: StudyFile, scale: str, warnings: Sequence[str]) -> Iterator[str]:
    study = file.study
    yield from (f"# {study.title}", "", study.about, "")
    yield f"Scale `{scale}`. {study.scales[scale].note}"
    if warnings:
        yield from ("", *(f"- **Warning:** {warning}" for warning in warnings))
    yield ""


CLAIM_COLUMNS = ("claim", "medians over seeds", "A [95 %]", "p (Holm)", "verdict")


def _claim_row(claim: Claim, verdict: Verdict) -> list[str]:
    return [claim.text, verdict.evidence, verdict.effect, verdict.p, f"**{verdict.holds}**"]


def _claims(verdicts: Sequence[tuple[Claim, Verdict]], statement: Sequence[str]) -> Iterator[str]:
    if not verdicts:
        return
    yield from ("## Claims", "", *statement)
    yield from markdown(CLAIM_COLUMNS, [_claim_row(claim, verdict) for claim, verdict in verdicts])
    yield from ("", "Tests, always over seeds, corrected by Holm's method within a family of claims:", "")
    yield from rules_of(tuple(claim for claim, _ in verdicts))
    yield ""


def _results(
    file: StudyFile, rows: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]], first: Result
) -> Iterator[str]:
    named = with_unit(first.run.experiment.fitness.measure)
    yield from ("## Results", "", f"![]({file.study.figure.name}.png)", "")
    yield f"Best {named} so far: median over seeds, band of one standard deviation. Every curve is in `curves.csv`."
    if first.run.is_confirmed:
        meaning = first.run.experiment.evaluation.confirmation
        yield f"Lines are what the search selects by, dots and final bests the {meaning}."
    yield from ("", "All values are medians over seeds; the table is also in `table.csv`.", "")
    yield from markdown(
        ["experiment", "genes", "seeds", "robots x generations", "random robot", "best of the first generation",
         "final best", "quartiles", "σ", "final / first"],
        [[row["experiment"], row["genes"], row["seeds"], f"{row['population_size']} x {row['generations']}",
          *(number(row[key]) for key in ("random_median", "first_best", "final_best")),
          f"{number(row['worse_quartile'])} to {number(row['better_quartile'])}",
          number(row["sigma"]), number(row["ratio"])] for row in rows],
    )  # fmt: skip
    if compared:
        yield from (
            "",
            "Final bests compared: exact two-sided Mann-Whitney test, Holm's correction within a plot. A is the",
        )
        yield from ("chance that a seed of the first is better than one of the second. Also in `pairs.csv`.", "")
        yield from markdown(
            ["first", "second", "difference of medians", "p", "p (Holm)", "A"],
            [[row["first"], row["second"], number(row["difference"]), number(row["p"]), number(row["p_holm"]),
              f"{row['effect']:.2f}"] for row in compared],
        )  # fmt: skip
    yield ""


def _best(file: StudyFile, results: Sequence[Result], folder: Path) -> Iterator[str]:
    known = [result for result in results if result.repeats is not None]
    yield from ("## Best robots", "")
    if not known:
        yield from ("Not simulated again yet.", "")
        return
    repeats = max(result.repeats.shape[1] for result in known if result.repeats is not None)
    checked = any(result.run.is_confirmed for result in known)
    confirmed = (
        " `Reported` is the fitness in fresh trials at smaller time steps, where runs have it." if checked else ""
    )
    others = f"from up to {1000 * HIGHER:g} mm higher"
    if file.study.transfer is not None:
        others = "in fresh trials, from a little higher and with other draws of the task"
    yield (
        f"Each seed's best robot was simulated again from its file in {repeats} repeats: first from the same start, "
        f"where only round-off differs from when it evolved, the others {others}. What is not kept was luck."
        f"{confirmed} Medians over seeds:"
    )
    yield ""
    yield from markdown(
        [
            "experiment",
            "reported",
            "same start again",
            "median of its repeats",
            "kept",
            "worst repeat",
            "best repeat",
        ],
        [_repeats(result) for result in known],
    )
    yield from _robust([result for result in known if result.robustness is not None])
    for result in known:
        picture = folder / BEST / f"{result.name}.png"
        if picture.exists():
            found = result.exchange
            place = int(np.argmax(result.run.fitness[:, -1])) if found is None else found.best(result.name)
            seed = result.run.experiment.seeds[place]
            yield from ("", f"**{result.name}**, seed {seed}, one period in the middle of its episode "
                        f"([robot]({BEST}/{result.name}.yaml)):", "", f"![]({BEST}/{result.name}.png)")  # fmt: skip
    yield ""


def _exchanged(file: StudyFile, results: Mapping[str, Result], folder: Path) -> Iterator[str]:
    """The part about exchanged winners, of studies that have it."""
    found = next(iter(results.values())).exchange
    if found is not None:
        yield from write_exchange({name: results[name] for name in found.names}, found, folder)
    elif file.study.exchange is not None:
        yield from ("## Winners exchanged", "", "Not yet: that comes when all experiments are finished.", "")


def _robust(known: Sequence[Result]) -> Iterator[str]:
    """Fitness that is kept with smaller time steps and changed parameters."""
    if not known:
        return
    factors = max((result.robustness.factors for result in known if result.robustness is not None), key=len)
    yield from (
        "",
        "The same robots with smaller time steps. Each number is the median over seeds of the median over trials; "
        f"`kept` is each robot's fitness with time steps {factors[-1]} times smaller over {factors[0]} times, "
        f"and `most changed` what is "
        "left, farthest from 100 %, when the springs' frequency changes by 1 %, their damping or the friction by 2 %, "
        "where that was tried.",
        "",
    )
    head = [
        "experiment",
        *(f"x{factor}" for factor in factors),
        "kept, median",
        "within 10 %",
        "worst kept",
        "most changed, median",
    ]
    yield from markdown(head, [_robust_row(result, factors) for result in known])


def _robust_row(result: Result, factors: Sequence[int]) -> list[str]:
    found = result.robustness
    assert found is not None
    medians = [number(float(np.nanmedian(found.at(factor)))) if factor in found.factors else "" for factor in factors]
    kept = found.kept[np.isfinite(found.kept)]
    if not len(kept):
        return [result.name, *medians, "", "", "", ""]
    near = f"{int((abs(kept - 1) <= NEAR).sum())} of {len(found.kept)}"
    shares = np.median(kept), kept.min(), np.nanmedian(found.most_changed) if found.changes else math.nan
    middle_kept, worst, change = (f"{100 * share:.0f} %" if np.isfinite(share) else "" for share in shares)
    return [result.name, *medians, middle_kept, near, worst, change]


def _repeats(result: Result) -> list[str]:
    repeated, typical = result.repeated, result.typical
    assert repeated is not None
    assert typical is not None
    evolved = result.run.fitness[:, -1]
    columns = (evolved, repeated[:, 0], typical, repeated.min(1), repeated.max(1))
    values = [result.sign * float(middle(fitness)) for fitness in columns]
    kept = values[2] / values[0] if values[0] > 0 and math.isfinite(values[2]) else math.nan
    shown = list(map(number, values))
    return [result.name, *shown[:3], f"{100 * kept:.0f} %" if math.isfinite(kept) else "", *shown[3:]]


def _how(results: Sequence[Result]) -> Iterator[str]:
    made = {result.name: making(result.run.path) for result in results}
    yield from ("## How it was made", "")
    yield from ("Each experiment is a run folder that `vsr evolve --resume` can go on with. Commands:", "", "```")
    yield from dict.fromkeys(start.get("command", "unknown") for each in made.values() for start in each.sessions)
    yield from ("```", "")
    rows = [_making(result, made[result.name]) for result in results]
    yield from markdown(
        [
            "experiment",
            "time",
            "a generation",
            "compiling",
            "sessions",
            "episode",
            "substeps",
            "device",
            "versions",
            "commit",
        ],
        rows,
    )
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

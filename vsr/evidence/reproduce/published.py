"""Ours beside published scores: a row for each of their rows, a column for each of our methods.

With what it took, exploits that are not counted, and what winners keep of their scores in other physics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from vsr.evidence.reproduce.exploits import FASTEST, FLIGHT
from vsr.evidence.reproduce.tables import markdown, write_csv
from vsr.evidence.reproduce.transfer import TRIALS, Checked, exploit_rows, transfer_rows
from vsr.experiments.claims import Result
from vsr.experiments.formatting import clock
from vsr.experiments.ranks import middle
from vsr.experiments.storage.files import without_nan, write_json
from vsr.experiments.storage.provenance import making
from vsr.experiments.storage.statistics import STATISTICS, read_statistics
from vsr.experiments.study import Published, Study

FILE = "published"


def write_published(
    study: Study, results: Mapping[str, Result], folder: Path, checked: Mapping[str, Checked] | None = None
) -> Iterator[str]:
    """Write tables as CSV and JSON; yields them as Markdown, nothing for a study without published scores.

    checked: what is known of winners, of studies that look at them again (vsr.evidence.reproduce.transfer).
    """
    published, checked, earlier = study.published, checked or {}, _earlier(folder / f"{FILE}.json")
    rows = [] if published is None else _rows(study, published, results, checked, earlier)
    if published is None or not rows:
        return
    theirs = [dict(_published(published, row["task"])) for row in rows]
    write_csv(folder / f"{FILE}.csv", [{**own, **others} for own, others in zip(rows, theirs, strict=True)])
    methods = list(dict.fromkeys(row["method"] for row in rows))
    again = study.transfer is not None
    exploits = " Winners that exploit the physics (`Exploits`) do not count: they rank last." if again else ""
    yield from ("## Beside published scores", "", published.about, "")
    yield (
        "Ours: each seed's best robot, the median of its repeats (`again` above); then the median over seeds, in "
        f"brackets the worst and the best seed.{exploits} Bold: at least the best published score. `vanished`: seeds "
        "whose robot keeps less than half of the score that it evolved with, exploits of the physics or of one start. "
        "`Selected`: the best seed without an exploit, by the score that its search selected it by; published scores "
        "are of the best run, too. Where leaders are re-checked, it is the lower of two scores. "
        "A star marks winners that were not simulated again, a dagger runs that are not finished: neither is bold."
    )
    yield ""
    head = ["task", *published.columns, *published.beside, "best by", "bound", *methods, "selected", "vanished"]
    yield from markdown(head, _lines(published, rows, methods))
    yield ""
    for method in methods:
        own = [row for row in rows if row["method"] == method and row["best_published"] is not None]
        won = sum(_reached(row) for row in own)
        waiting = sum(not row["counts"] for row in own)
        yield (
            f"- {method}: at least the best published score in {won} of {len(own)} tasks"
            + (f", of which {waiting} are not finished or not simulated again" if waiting else "")
            + f"; {len(published.rows)} are published."
        )
        if others := " and ".join(published.beside):
            of_all = sum(_reached(row, "best_of_all") for row in own)
            yield f"  With {others} counted, too: in {of_all} of {len(own)}."
        selected = sum(row["selected"] >= row["best_published"] for row in own)
        yield f"  Best seed against best run, both as selected: in {selected} of {len(own)}."
    best = {row["task"] for row in rows if _reached(row)}
    names = [name for name, member in study.experiments.items() if member.row is not None and name in results]
    yield f"- By one of them: {len(best)} of {len({row['task'] for row in rows})} tasks."
    runs = [results[name].run.path for name in names]
    hours = _hours(runs) if any(making(run).sessions for run in runs) else earlier.get("hours", 0.0)
    yield from ("", "### What it took", "", *_costs(rows, hours))
    tables: dict[str, Any] = {"published": rows, "hours": hours}
    if again:
        tasks = {name: (member.row or name, member.method) for name, member in study.experiments.items()}
        seen = {name: (results[name].run, found) for name, found in checked.items() if name in results}
        tables["exploits"], tables["transfer"] = exploit_rows(seen, tasks), transfer_rows(seen, tasks)
        for name in ("exploits", "transfer"):
            write_csv(folder / f"{name}.csv", tables[name])
        yield from (*_exploits(tables["exploits"], len(seen)), *_transfer(tables["transfer"]))
    write_json(folder / f"{FILE}.json", without_nan(tables))


def _earlier(file: Path) -> dict[str, Any]:
    """What is stored of an earlier table, which knows what copied runs took."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return {}


def _rows(
    study: Study,
    published: Published,
    results: Mapping[str, Result],
    checked: Mapping[str, Checked],
    earlier: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """A row of numbers for every experiment that is compared; earlier: tables, for what it took to make copied runs."""
    rows = []
    known = {(row["task"], row["method"]): row for row in earlier.get("published", ())}
    for name, member in study.experiments.items():
        if member.row is None or name not in results:
            continue
        result, seen = results[name], checked.get(name)
        experiment, run = result.run.experiment, result.run
        evolved = result.sign * run.fitness[:, -1]
        scores = evolved if result.typical is None else result.sign * result.typical
        exploits = np.zeros(len(scores), bool) if seen is None else seen.exploits.any(-1)
        counted = np.where(exploits, -np.inf, scores)
        made, episodes = making(run.path), experiment.episodes() * run.generations
        learned = 0 if experiment.learning is None else experiment.optimizer.population_size * run.generations
        rows.append(
            {
                "task": member.row,
                "method": member.method,
                "engine": experiment.robot.body.engine,
                "best_published": published.best(member.row),
                "best_by": published.best_by(member.row),
                "best_of_all": published.best_of_all(member.row),
                "bound": published.bounds.get(member.row),
                "median": float(middle(counted)),
                "worst": float(counted.min()),
                "best": float(counted.max()),
                "as_evolved": float(middle(evolved)),
                "selected": float(np.where(exploits, -np.inf, result.sign * run.search_fitness[:, -1]).max()),
                "vanished": int((scores < 0.5 * evolved)[evolved > 0].sum()),
                "exploits": int(exploits.sum()),
                "seeds": len(scores),
                "counts": result.typical is not None and run.is_finished,
                "finished": run.is_finished,
                "environment_steps": int(episodes * experiment.schedule().calls),
                "learning_steps": int(learned * experiment.learning.steps_taken) if experiment.learning else 0,
                "bodies": int(experiment.optimizer.population_size * run.generations),
                "seconds": round(made.seconds, 1),
                "compile_seconds": round(made.compiling, 1),
                "device": ", ".join(dict.fromkeys(str(start.get("device")) for start in made.sessions)),
            }
        )
        if not made.sessions and (before := known.get((member.row, member.method))):
            rows[-1] |= {title: before[title] for title in ("seconds", "compile_seconds", "device")}
    return rows


def _lines(published: Published, rows: list[dict[str, Any]], methods: list[str]) -> Iterator[list[str]]:
    for task in dict.fromkeys(row["task"] for row in rows):
        own = {row["method"]: row for row in rows if row["task"] == task}
        bound = published.bounds.get(task)
        yield [
            task,
            *("" if score is None else _digits(score) for _, score in _published(published, task)),
            published.best_by(task) or "",
            "" if bound is None else _digits(bound),
            *(_score(own[method]) if method in own else "" for method in methods),
            ", ".join(_digits(row["selected"]) for row in own.values()),
            ", ".join(f"{row['vanished']} of {row['seeds']}" for row in own.values()),
        ]


def _published(published: Published, task: str) -> list[tuple[str, float | None]]:
    """Methods with their scores, None where there is none."""
    beside = [(method, own.get(task)) for method, own in published.beside.items()]
    return [*zip(published.columns, published.rows[task], strict=True), *beside]


def _reached(row: dict[str, Any], name: str = "best_published") -> bool:
    """Whether a median that counts is at least the best published score."""
    best = row[name]
    return best is not None and row["counts"] and np.isfinite(row["median"]) and row["median"] >= best


def _score(row: dict[str, Any]) -> str:
    median, spread = _digits(row["median"]), f" ({_digits(row['worst'])} to {_digits(row['best'])})"
    mark = "" if row["counts"] else "*" if row["finished"] else "†"
    return (f"**{median}**" if _reached(row) else median + mark) + spread


def _costs(rows: list[dict[str, Any]], hours: float) -> Iterator[str]:
    """Budget and time of every experiment, and their sums."""
    yield (
        "Of one seed: bodies and environment steps, those of evaluations included, and of these the steps that "
        "policies learned from. Of all seeds of an experiment, which run together: wall-clock time of its generations, "
        "and of compiling, which are longer where experiments share a device."
    )
    yield ""
    yield from markdown(
        ["task", "method", "seeds", "bodies", "environment steps", "learned from", "time", "compiling", "device"],
        [
            [row["task"], row["method"], row["seeds"], f"{row['bodies']:,}", f"{row['environment_steps']:,}",
             f"{row['learning_steps']:,}" if row["learning_steps"] else "", clock(row["seconds"]),
             clock(row["compile_seconds"]), row["device"]] for row in rows
        ],
    )  # fmt: skip
    steps = sum(row["seeds"] * row["environment_steps"] for row in rows)
    seconds, compiling = (sum(row[name] for row in rows) for name in ("seconds", "compile_seconds"))
    yield from (
        "",
        f"In all {steps:,} environment steps, {seconds / 3600:.2f} hours of generations and {compiling / 3600:.2f} of "
        f"compiling. Hours in which at least one of them was at work, side by side: {hours:.2f}.",
        "",
    )


def _hours(runs: Iterable[Path]) -> float:
    """Wall-clock time in which at least one run was at work [h]."""
    spans = []
    for run in runs:
        sessions = making(run).sessions
        if not sessions:  # nothing is known of it
            continue
        seconds = np.nan_to_num(read_statistics(run / STATISTICS).seconds)
        ends = [*(session["generation"] for session in sessions[1:]), len(seconds)]
        for session, end in zip(sessions, ends, strict=True):
            begin = datetime.fromisoformat(session["time"]).timestamp()
            lasting = session.get("compile_seconds", 0) + float(seconds[session["generation"] : end].sum())
            spans.append((begin, begin + lasting))
    total, until = 0.0, -np.inf
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / 3600


def _exploits(rows: list[dict[str, Any]], experiments: int) -> Iterator[str]:
    yield from ("## Exploits", "", f"Of the winners of {experiments} experiments; rules, in most of a robot's trials:")
    yield from (
        "",
        "- in the ground: all corners of a voxel are in the ground, or where no way leads from the start;",
        f"- in flight: no ground within {FLIGHT:g} voxels of its bounding box;",
        f"- too fast: its center moves more than {FASTEST:g} voxels in a step, sideways or up.",
        "",
    )
    if not rows:
        yield from ("None was found." if experiments else "Not looked for yet.", "")
        return
    yield from markdown(
        ["task", "method", "seed", "score, not counted", "rules", "trials"],
        [[*(row[name] for name in ("task", "method", "seed")), _digits(row["score"]), row["rules"], row["trials"]]
         for row in rows],
    )  # fmt: skip
    yield ""


def _transfer(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield from (
        "## In other physics",
        "",
        "Every seed's winner on the same task in other physics, with the same control values in every step: median "
        f"over seeds of the median of at most {TRIALS} trials, beside that of the same robots at home. "
        "A winner keeps its score if it loses less than a tenth of it. All are in `transfer.csv`.",
        "",
    )
    abroad = [row for row in rows if row["replayed_in"] != row["evolved_in"]]
    if not abroad:
        yield from ("Not tried yet.", "")
        return
    places = list(dict.fromkeys(row["replayed_in"] for row in abroad))
    at = {(row["task"], row["method"], row["replayed_in"]): row for row in rows}
    homes = dict.fromkeys((row["task"], row["method"], row["evolved_in"]) for row in rows)
    lines = []
    for task, method, engine in homes:
        line = [task, method, f"{engine} {_digits(at[task, method, engine]['score'])}"]
        for place in places:
            row = at.get((task, method, place))
            line.append("" if row is None else _abroad(row))
        lines.append(line)
    yield from markdown(["task", "method", "at home", *places], lines)
    yield ""
    for place in places:
        known = [row for row in abroad if row["replayed_in"] == place and row["robots"]]
        robots = sum(row["robots"] for row in known)
        if robots:
            kept, half = (sum(row[name] for row in known) for name in ("keep_nine_tenths", "keep_half"))
            yield f"- {place}: {kept} of {robots} winners keep their score, {half} at least half of it."
    reasons = dict.fromkeys((row["task"], row["reason"]) for row in abroad if row["reason"])
    yield from ("", *(f"- {task} was not tried: {reason}" for task, reason in reasons), "")


def _abroad(row: dict[str, Any]) -> str:
    if row["reason"]:
        return "not tried"
    if not row["robots"]:
        return "failed"
    return f"{_digits(row['score'])} ({row['keep_nine_tenths']} of {row['robots']} keep it)"


def _digits(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "none"

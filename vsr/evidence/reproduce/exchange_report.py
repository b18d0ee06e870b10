"""Exchanged winners in a study's report: who loses what where, whose bodies differ; their files, pictures, a film."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from vsr.drawing.painter import Look
from vsr.evidence.reproduce.exchange import HIGHER, STORED, move_to_world, robots_of
from vsr.evidence.reproduce.gait import ARRIVAL, FOOT, NEAR
from vsr.evidence.reproduce.robots import draw_strip, title_of
from vsr.evidence.reproduce.tables import markdown, write_csv
from vsr.experiments.claims import GAIT, TRAITS, Exchange, Result, Trait, number
from vsr.experiments.config import dump_yaml
from vsr.experiments.memory import simulate_within_memory
from vsr.experiments.play.film import GIF_RATE, Film, write_gif
from vsr.experiments.play.recordings import RecordedRobot, robot_from_trajectory
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit
from vsr.experiments.ranks import holm, middle, p_value, superiority
from vsr.experiments.report.charts import COLORS, polygons
from vsr.experiments.storage.files import replace_when_closed, write_text
from vsr.experiments.storage.runs import Run
from vsr.robot import Body
from vsr.scene import Scene

MAP = "exchange.png"
TABLE, VISITORS, TESTS = "exchange.csv", "visitors.csv", "traits.csv"
KEPT = 0.1
"""How much a robot's median may change with the smallest time steps and still count as kept."""
BODIES, FILM = "bodies.png", "exchange.gif"
PANEL, SECONDS = (300, 200), 6.0
"""Size of one robot's picture in the film [pixels], and how long the film is at most [s]: it is to be a small file."""


# Numbers


def write_exchange(results: Mapping[str, Result], found: Exchange, folder: Path) -> Iterator[str]:
    """Heat map and tables in files; yields the lines of the report."""
    first = next(iter(results.values()))
    labels = {name: result.label for name, result in results.items()}
    measure = with_unit(first.run.experiment.fitness.measure)
    write_csv(folder / TABLE, rows(results, found))
    write_csv(folder / VISITORS, visitors(found))
    write_csv(folder / TESTS, trait_tests(found))
    draw_map(found, labels, measure, folder / MAP)
    yield from ("## Winners exchanged", "")
    yield from _transfer(found, labels, measure)
    yield from _soundness(found)
    if (folder / FILM).exists():
        yield from ("", "The best robots in each other's worlds:", "", f"![]({FILM})")
    if (folder / BODIES).exists():
        yield from ("", "All winners with their fitness at home, the best on the left:", "", f"![]({BODIES})")
    yield from ("", *_traits(found, labels), "")


def rows(results: Mapping[str, Result], found: Exchange) -> list[dict[str, Any]]:
    """One row for each robot and world."""
    made = []
    for name, result in results.items():
        places = np.flatnonzero(found.home == found.names.index(name))
        for seed, place in zip(result.run.experiment.seeds, places, strict=True):
            for w, world in enumerate(found.names):
                index = int(place - places[0])
                made.append(
                    {
                        "experiment": name,
                        "seed": seed,
                        "world": world,
                        "counted": float(found.counted[place, w]),
                        "kept": float(found.kept(name, world)[index]),
                        **{f"x{f}": float(np.median(found.measured[place, w, i])) for i, f in enumerate(found.factors)},
                        "simulations": int(found.failure[place, w].size),
                        "failed": int((found.failure[place, w] > 0).sum()),
                        **{trait: float(values[place]) for trait, values in found.body.items()},
                        **{trait: float(found.gait[trait][place, w]) for trait in GAIT},
                    }
                )
    return made


def draw_map(found: Exchange, labels: Mapping[str, str], measure: str, target: Path) -> None:
    """Means over seeds, and the median share that is kept: rows are where robots evolved, columns where they are."""
    means = np.array([[_mean(found.fitness(name, world))[0] for world in found.names] for name in found.names])
    shares = np.array([[_share(found, name, world) for world in found.names] for name in found.names])
    side = 0.62 * len(found.names)
    with paper_style({"axes.grid": False}):
        figure = Figure(figsize=(2 * side + 3.2, side + 1.3), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_matrix(left, means, "{:.3f}", f"mean {measure}")
        _draw_matrix(right, 100 * shares, "{:.0f} %", "kept of its fitness at home")
        names = [labels[name] for name in found.names]
        for axes in (left, right):
            axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
            axes.set_xlabel("simulated on")
        left.set_yticks(range(len(names)), names)
        left.set_ylabel("evolved on")
        save_figure(figure, target)


def _draw_matrix(axes: Axes, values: np.ndarray, form: str, title: str) -> None:
    finite = values[np.isfinite(values)]
    low, high = (0.0, max(1e-9, float(finite.max()))) if finite.size else (0.0, 1.0)
    axes.imshow(values, cmap="viridis", vmin=low, vmax=high)
    axes.set_title(title)
    for (row, column), value in np.ndenumerate(values):
        bright = np.isfinite(value) and value > 0.6 * high
        text = form.format(value) if np.isfinite(value) else "failed"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="black" if bright else "white")


def _transfer(found: Exchange, labels: Mapping[str, str], measure: str) -> Iterator[str]:
    trials = found.measured.shape[-1]
    yield (
        f"Every seed's best robot (rows) in the world of every experiment (columns), simulated as its natives are, "
        f"in {trials} trials within {1000 * HIGHER:g} mm, with default time steps and time steps "
        f"{found.factors[-1]} times smaller. A robot counts with the lesser of its two medians "
        f"over trials; if half of them fail it counts as failed, which is worse than any number. Mean {measure} "
        "± standard deviation over seeds, then the median share of its own fitness at home that a robot keeps. "
        f"Numbers: `{TABLE}` (robots), `{STORED}` (simulations), `{VISITORS}` (visitors against natives: exact "
        "Mann-Whitney tests, Holm's correction)."
    )
    yield from ("", f"![]({MAP})", "")
    yield from markdown(
        ["evolved on", *(f"on {labels[world]}" for world in found.names)],
        [
            [labels[name], *(f"{_cell(found.fitness(name, world))}, {_percent(_share(found, name, world))}"
                             for world in found.names)]
            for name in found.names
        ],
    )  # fmt: skip
    yield ""


def visitors(found: Exchange) -> list[dict[str, Any]]:
    """Visitors of each world against its natives, a row for each pair of worlds."""
    pairs = [(name, world) for world in found.names for name in found.names if name != world]
    values = [(found.fitness(world, world), found.fitness(name, world)) for name, world in pairs]
    ps = [p_value(*each) for each in values]
    return [
        {
            "world": world,
            "evolved": name,
            "natives": float(middle(natives)),
            "visitors": float(middle(others)),
            "p": p,
            "p_holm": corrected,
            "effect": superiority(natives, others),
        }
        for (name, world), (natives, others), p, corrected in zip(pairs, values, ps, holm(ps), strict=True)
    ]


def _soundness(found: Exchange) -> Iterator[str]:
    """How many simulations failed, and how many robots keep their numbers with smaller time steps."""
    reasons: Counter[str] = sum(
        (found.failures(name, world) for name in found.names for world in found.names), Counter()
    )
    failures = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "none"
    first, last = (np.median(found.measured[:, :, i], -1) for i in (0, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        near = abs(last / first - 1) <= KEPT
    known = np.isfinite(first) & np.isfinite(last)
    yield (
        f"Failed simulations, of {found.failure.size}: {failures}. Of {known.size} pairs of robot and world, "
        f"{int((near & known).sum())} keep their median within {100 * KEPT:.0f} % with steps {found.factors[-1]} times "
        "smaller."
    )


def _traits(found: Exchange, labels: Mapping[str, str]) -> Iterator[str]:
    yield (
        f"Each robot at home, medians over seeds. A voxel touches if a corner of it is within {100 * NEAR:g} % of a "
        f"voxel's side of the hard ground, or one of its sides of a grain; the first {ARRIVAL:g} s are left out. A "
        f"foot is a voxel that touches in at least {100 * FOOT:g} % of the time, and its duty the share of the time "
        "that it does. Sinkage is how far the lowest corner is below the surface of the ground or of the sand at "
        "rest, in the mean over time."
    )
    yield ""
    yield from markdown(
        ["evolved on", *TRAITS.values()],
        [[labels[name], *(_median(found.trait(name, trait)) for trait in TRAITS)] for name in found.names],
    )
    yield ""
    yield f"Each trait against that of {labels[found.names[0]]}, tested alike: `{TESTS}`."


def trait_tests(found: Exchange) -> list[dict[str, Any]]:
    """Every trait of every experiment against the first one's."""
    reference, *others = found.names
    tests = [_trait_test(found, name, reference, trait) for trait in TRAITS for name in others]
    corrected = holm([test["p"] for test in tests])
    return [{**test, "p_holm": p} for test, p in zip(tests, corrected, strict=True)]


def _trait_test(found: Exchange, name: str, reference: str, trait: Trait) -> dict[str, Any]:
    a, b = (values[np.isfinite(values)] for values in (found.trait(each, trait) for each in (name, reference)))
    known = bool(a.size and b.size)
    return {
        "trait": trait,
        "experiment": name,
        "difference": float(np.median(a) - np.median(b)) if known else float("nan"),
        "p": p_value(a, b),
        "effect": superiority(a, b) if known else float("nan"),
    }


def _mean(fitness: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of those that did not fail; not a number if all did."""
    known = fitness[np.isfinite(fitness)]
    return (float(known.mean()), float(known.std())) if known.size else (float("nan"), float("nan"))


def _cell(fitness: np.ndarray) -> str:
    mean, sigma = _mean(fitness)
    failed = int((~np.isfinite(fitness)).sum())
    shown = f"{mean:.3f} ± {sigma:.3f}" if np.isfinite(mean) else "none"
    return shown + (f" ({failed} of {len(fitness)} failed)" if failed else "")


def _share(found: Exchange, name: str, world: str) -> float:
    kept = found.kept(name, world)
    known = kept[~np.isnan(kept)]
    return float(middle(known)) if known.size else float("nan")


def _percent(share: float) -> str:
    return f"{round(100 * share)} %" if np.isfinite(share) else "failed"


def _median(values: np.ndarray) -> str:
    known: Sequence[float] = values[np.isfinite(values)].tolist()
    return number(float(np.median(known))) if known else "none"


# Robots


def keep_winners(
    runs: Mapping[str, Run], found: Exchange, labels: Mapping[str, str], film: Sequence[str], folder: Path, best: Path
) -> None:
    """Leave in `best` every experiment's best robot as NAME.yaml and NAME.png, and in `folder` bodies and the film.

    film: experiments whose best robots are shown in each other's worlds; labels: what people call experiments.
    """
    scenes = robots_of(runs)
    chosen = {name: scene for name in runs if (scene := scenes[_place(found, name)]) is not None}
    best.mkdir(parents=True, exist_ok=True)
    for name, scene in chosen.items():
        robust, index = found.robustness(name), found.best(name)
        title = title_of(runs[name], index, robust.refined[index, 0].tolist(), robust)
        write_text(best / f"{name}.yaml", title + dump_yaml(scene))
        shown = f"{labels[name]}, seed {runs[name].experiment.seeds[index]}"
        draw_strip(_recorded(scene, shown), best / f"{name}.png")
    filmed = [name for name in film if name in chosen]
    if filmed:
        robots = [
            _recorded(move_to_world(chosen[name], runs[world].experiment), f"{name} on {world}")
            for name in filmed
            for world in filmed
        ]
        with replace_when_closed(folder / FILM) as partial_file:
            write_gif(Film(robots, Look(), GIF_RATE, panel=PANEL, seconds=SECONDS), partial_file, lambda: None)
    draw_bodies(runs, found, labels, folder / BODIES)  # last: this file marks the exchange as complete


def draw_bodies(runs: Mapping[str, Run], found: Exchange, labels: Mapping[str, str], target: Path) -> None:
    """All winners, a row for each experiment, the best on its left."""
    scenes = robots_of(runs)
    columns = max(len(run.experiment.seeds) for run in runs.values())
    with paper_style():
        figure = Figure(figsize=(1.2 + 0.8 * columns, 0.9 * len(runs)), layout="constrained")
        grid = figure.subplots(len(runs), columns, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        for row, name in zip(grid, runs, strict=True):
            fitness = found.fitness(name, name)
            own = [scene for scene, home in zip(scenes, found.home, strict=True) if found.names[home] == name]
            row[0].set_axis_on()
            row[0].set(xticks=[], yticks=[], frame_on=False)
            row[0].set_ylabel(labels[name], rotation=0, ha="right", va="center")
            for axes, index in zip(row, np.argsort(-fitness), strict=False):
                scene = own[index]
                if scene is not None:
                    _draw_body(axes, scene.robot.body)
                    axes.set_title(f"{fitness[index]:.3f}" if np.isfinite(fitness[index]) else "failed", fontsize=7)
        save_figure(figure, target)


def _draw_body(axes, body: Body) -> None:
    for outline, material, _ in polygons(body):
        axes.add_patch(Polygon(outline, facecolor=COLORS[material % len(COLORS)], edgecolor="white", linewidth=0.5))
    rows, columns = body.cells.shape
    low = int(np.flatnonzero(body.present.any(1))[0])
    axes.set(xlim=(0, columns), ylim=(low, low + rows), aspect="equal")


def _place(found: Exchange, name: str) -> int:
    """Of an experiment's best robot among all."""
    return int(np.flatnonzero(found.home == found.names.index(name))[found.best(name)])


def _recorded(scene: Scene, name: str) -> RecordedRobot:
    outcome = simulate_within_memory(name, scene, keep_trajectory=True)
    assert outcome.model is not None
    assert outcome.trajectory is not None
    return robot_from_trajectory(name, scene, outcome.model, outcome.trajectory, outcome.measures)

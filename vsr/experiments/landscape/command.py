"""The work of `vsr landscape`: try every small body, in parts that are stored; then ask the table."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn
from rich.table import Table as Columns

from vsr.experiments.config import dump_yaml
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import busy, console_for_tables, say, show_pairs
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.formatting import count, duration_text, number
from vsr.experiments.landscape.plot import plot_landscape
from vsr.experiments.landscape.spec import Landscape, load_landscape
from vsr.experiments.landscape.table import (
    SETTINGS,
    TABLE,
    Folder,
    Table,
    confirm,
    held_out_of,
    read_table,
    rounds_of,
    search,
    seconds_of_part,
)
from vsr.experiments.options import LandscapeOptions
from vsr.experiments.plot.figures import FORMATS
from vsr.experiments.shipped import ENDINGS, LANDSCAPE, find_config
from vsr.experiments.stopping import on_interrupt
from vsr.experiments.storage.files import json_result, target_file, write_text
from vsr.scene import precision

MAP = "map.png"


def landscape_command(options: LandscapeOptions) -> None:
    """Make a landscape, if a description of one is given; ask one that is made, if a folder or a table is."""
    path = Path(options.given)
    if path.suffix == ".npz" or (path.is_dir() and (path / SETTINGS).is_file()):
        _ask(options, path)
    else:
        if asked := [name for name in ("query", "robot", "plot") if getattr(options, name)]:
            raise UserError(
                f"--{asked[0]}: give the folder or the table of a landscape that is made, not {options.given}"
            )
        _make(options)


def _make(options: LandscapeOptions) -> None:
    prepare(options.device)
    file = find_config(options.given, LANDSCAPE)
    landscape = load_landscape(file, options.settings, run_plugins=options.trust_plugins)
    check_implementation(landscape.physics)
    path = Path("runs") / file.stem if options.out is None else Path(options.out)
    if path.suffix in ENDINGS:
        raise UserError(f"--out {path}: this is to be a folder")
    numbers, size = landscape.bodies(), landscape.bodies_at_once
    parts = math.ceil(len(numbers) / size)
    asked = parts if options.limit is None else min(parts, math.ceil(options.limit / size))
    folder = Folder(path, landscape)
    with json_result(options.json) as write, precision(landscape.physics.precision):
        folder.begin()
        with folder.locked(), on_interrupt(f"stopped; what is done is kept: the same command goes on in {path}"):
            left = [part for part in range(asked) if not folder.has(part)]
            asked_for = f"{count(asked)} of {count(parts)} parts, {count(len(left))} of them left to do"
            show_pairs(str(path), [*costs(landscape), ("asked for", asked_for)])
            seconds = _work(folder, numbers, left)
            table = folder.write_table()
            plot_landscape(table, path / MAP)
        if seconds is not None:
            say(rate(landscape, parts, seconds))
        show(table, options.best)
        say(f"table: {path / TABLE}, map: {path / MAP}")
        write([as_plain(table, place) for place in table.order[: options.best]])


def costs(landscape: Landscape) -> list[tuple[str, str]]:
    """The work to do, and an estimate of its time."""
    bodies, seconds = len(landscape.bodies()), seconds_of_part(landscape)
    parts = math.ceil(bodies / landscape.bodies_at_once)
    device = f"{count(jax.device_count())} {jax.default_backend()} device{'s' if jax.device_count() > 1 else ''}"
    rows, columns = landscape.shape
    return [
        ("bodies", f"{count(bodies)} connected ones of {columns}x{rows} cells and {', '.join(landscape.symbols)}"),
        ("controllers", f"{count(landscape.controllers)} for each, {landscape.robot.controller.type}"),  # pyright: ignore[reportAttributeAccessIssue]
        ("episodes", f"{count(bodies * landscape.controllers)} of {landscape.task.duration:g} s"),
        ("score", f"median of {count(landscape.trials)} fresh trials" if landscape.trials else "that of the search"),
        ("parts", f"{count(parts)} of {count(landscape.bodies_at_once)} bodies, about {duration_text(seconds)} each"),
        ("cost of the whole", f"about {duration_text(parts * seconds)} on {device}, after compiling"),
    ]


def _work(folder: Folder, numbers: np.ndarray, left: list[int]) -> float | None:
    """Parts one after the other; the seconds of one after the first, in the median, None if there were too few."""
    landscape, took = folder.landscape, []
    if not left:
        return None
    one_round, held_out, size = rounds_of(landscape), held_out_of(landscape), landscape.bodies_at_once
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress, busy("trying", counting=False):
        task = progress.add_task("bodies", total=len(left))
        for part in left:
            began = time.monotonic()
            own = numbers[part * size : (part + 1) * size]
            folder.write(part, own, confirm(landscape, own, search(landscape, own, one_round), held_out))
            took.append(time.monotonic() - began)
            progress.advance(task)
    return float(np.median(took[1:])) if len(took) > 1 else None


def rate(landscape: Landscape, parts: int, seconds: float) -> str:
    """The measured speed, and the time of the whole at this speed; seconds: of a part."""
    episodes = landscape.bodies_at_once * landscape.controllers / seconds
    total = duration_text(parts * seconds)
    return f"{count(episodes)} episodes a second; all {count(parts)} parts take {total} at this speed"


def _ask(options: LandscapeOptions, path: Path) -> None:
    """Summary of a table."""
    if options.limit is not None or options.out is not None or options.settings:
        raise UserError(f"{path}: to go on with it, give the file that describes it, with --out {path}")
    if options.robot is not None and len(options.query) != 1:
        raise UserError("--robot goes with one --query: which body?")
    robot = None if options.robot is None else target_file("--robot", options.robot, ENDINGS)
    picture = None if options.plot is None else target_file("--plot", options.plot, FORMATS)
    table = read_table(path)
    places = [table.place(code) for code in options.query] or list(table.order[: options.best])
    with json_result(options.json) as write:
        show(table, options.best, places)
        write([as_plain(table, place) for place in places])
    if robot is not None:
        write_text(robot, robot_file(table, places[0]))
    if picture is not None:
        plot_landscape(table, picture)


def robot_file(table: Table, place: int) -> str:
    """A body with its best controller, for vsr simulate and vsr play."""
    cells = table.cells[place]
    genes = {"body": (cells.ravel() + 1).astype(float), "controller": table.controller[place].astype(float)}
    scene = table.landscape.experiment.scene(genes)
    assert scene is not None
    measure = table.landscape.fitness.measure
    about = f"{table.code(place)}: {measure} {number(float(table.best[place]))}"
    return f"# {about}, best of {table.landscape.controllers} controllers.\n{dump_yaml(scene)}"


def as_plain(table: Table, place: int) -> dict[str, Any]:
    """One body as JSON has it."""
    return {
        "code": table.code(place),
        "best": float(table.best[place]),
        "typical": float(table.typical[place]),
        "controller": table.controller[place].tolist(),
        "tries": table.landscape.controllers,
        "failed": int(table.failed[place]),
        "rank": rank(table, place),
        "of": table.size,
    }


def rank(table: Table, place: int) -> int:
    """1 for the fittest body."""
    return int((table.fitness > table.fitness[place]).sum()) + 1


def show(table: Table, best: int, places: list[int] | None = None) -> None:
    """Some bodies, by default the best."""
    measure = table.landscape.fitness.measure
    say(f"{count(table.size)} of {count(table.total)} bodies, {table.landscape.controllers} controllers each")
    rows = Columns(box=None)
    for name in ("body", measure, "typical", "rank", "failed"):
        rows.add_column(name, justify="left" if name == "body" else "right")
    for place in list(table.order[:best]) if places is None else places:
        typical = number(float(table.typical[place]))
        rows.add_row(
            table.code(place),
            number(float(table.best[place])),
            typical,
            count(rank(table, place)),
            f"{table.failed[place]} of {table.landscape.controllers}",
        )
    console_for_tables().print(rows)

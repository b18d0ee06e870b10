"""What is written again when a run goes on: lines of statistics and files of best robots that were lost or changed."""

from __future__ import annotations

import shutil
from pathlib import Path

from vsr.arrays import Damaged, read_label
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import json_line, write_text
from vsr.experiments.runs.lineage import read_pieces
from vsr.experiments.runs.robot_files import load_robot, robot_file, write_robot
from vsr.experiments.runs.rows import STATISTICS, read_rows, warnings_of
from vsr.experiments.runs.settings import read_meta

ASIDE = ".damaged"
"""How the names of files that could not be read end, once they are replaced."""


def mend_statistics(path: Path, experiment: Experiment, done: int) -> list[str]:
    """Keep lines of a number of generations only, with lost ones made again as far as lineage has them.

    Returns what was lost.
    """
    file = path / STATISTICS
    rows = read_rows(path, experiment, done)
    order = sorted(rows.of, key=lambda key: (key[1], experiment.seeds.index(key[0])))
    text = "".join(json_line(rows.of[key]) for key in order)
    if not file.is_file() or file.read_bytes() != text.encode():
        write_text(file, text)
    return warnings_of(path, rows, "dropped")


def mend_robots(path: Path, experiment: Experiment, done: int) -> list[str]:
    """Write files of best robots again that are lost or changed; after the statistics. Returns what was lost."""
    seeds = experiment.seeds
    wrong = [index for index, seed in enumerate(seeds) if not _is_whole(robot_file(path, seed))]
    if not wrong:
        return []
    pieces, _ = read_pieces(path, len(seeds))
    last = next((piece for piece in pieces if piece.first < done <= piece.first + piece.count), None)
    rows, warnings = read_rows(path, experiment, done).of, []
    starts = read_meta(path)[0]["starts"]
    for index in wrong:
        file, row = robot_file(path, seeds[index]), rows.get((seeds[index], done - 1), {})
        genes = {} if last is None else last.best_genes(index, done - 1)
        if row.get("best") is not None and "best_id" in row and genes:
            write_robot(path, experiment, index, genes, row["best_id"], row["best"], starts)
            warnings.append(f"{file}: it was lost or changed; written again from lineage/")
    return warnings


def set_aside(file: Path) -> str:
    """Keep a copy of a file that is to be replaced, if there is one; returns words about it."""
    if not file.is_file():
        return ""
    aside = file.with_suffix(ASIDE)
    shutil.copyfile(file, aside)
    return f"kept as {aside.name}, and "


def is_damaged(file: Path) -> bool:
    """Whether a file of arrays is not whole."""
    try:
        read_label(file)
    except Damaged:
        return True
    return False


def _is_whole(file: Path) -> bool:
    try:
        load_robot(file)
    except UserError:
        return False
    return True

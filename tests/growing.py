"""Run folders that grow without any evolution, for tests of what follows them."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import yaml
from conftest import TINY

from vsr.experiments.config import parse_experiment
from vsr.experiments.storage.files import write_checked_json
from vsr.experiments.storage.settings import fingerprint, read_meta
from vsr.experiments.storage.statistics import (
    COLUMNS,
    FAILURES,
    METRICS,
    STATISTICS,
    Header,
    Statistics,
    as_bytes,
    header_of,
    read_statistics,
    unknown_records,
    write_statistics,
)

ROBOT = "robot: {body: {shape: aa}, controller: sine}\ntask: {placement: {clearance: 0.0}}\n"
"""What best/ holds."""


def begin_run(folder, experiment=TINY):
    """As `vsr evolve` leaves it before the first generation; by default two seeds of five generations."""
    for name in ("best", "lineage", "checkpoints"):
        (folder / name).mkdir(parents=True)
    put_meta(folder)
    (folder / "config.yaml").write_text(experiment)
    put_statistics(folder, [])
    return folder


def put_meta(folder, **more):
    """What a run folder reports itself, with no start."""
    write_checked_json(folder / "meta.json", {"kind": "run", "format": 1, "plugins": {}, "sessions": [], **more})


@lru_cache(maxsize=8)
def _header(config, run, metrics):
    return header_of(parse_experiment(config).resolved(), run, metrics)


def header_in(folder, metrics=()):
    """As the run in a folder writes it."""
    made_by = read_meta(folder)[0].get("experiment")
    run = fingerprint(made_by or {})
    config = (folder / "config.yaml").read_text()
    data = yaml.safe_load(config)
    if data.get("plugins"):  # which are not to be run here
        return replace(_header(TINY, run, tuple(metrics)), measure=data["fitness"])
    return _header(config, run, tuple(metrics))


def put_statistics(folder, rows):
    """Replace the statistics of a folder that has its settings; rows: mappings, one for every generation and seed."""
    metrics = dict.fromkeys(name for row in rows for name in row.get("metrics", {}))
    write_statistics(folder / STATISTICS, of_rows(header_in(folder, metrics), rows))


def of_rows(header: Header, rows):
    """Rows as statistics, the generations from 0; `failures` and `metrics` are mappings, None is not a number."""
    count = max((row["generation"] + 1 for row in rows), default=0)
    records = unknown_records(header, count)
    for row in rows:
        own = {"failures": {}, "metrics": {}, **row}
        known = {**dict.fromkeys((name for name in COLUMNS if name.startswith(FAILURES)), 0.0), **own}
        known |= {FAILURES + name: value for name, value in own["failures"].items()}
        known |= {METRICS + name: value for name, value in own["metrics"].items()}
        for place, name in enumerate(header.columns):
            value = known.get(name)
            records["values"][row["generation"], place, header.seeds.index(row["seed"])] = (
                np.nan if value is None else value
            )
        records["seconds"][row["generation"]] = own.get("seconds", np.nan)
    return Statistics(header, records)


def rows_of(folder):
    """All statistics of a run as mappings, one for every generation and seed, without wall-clock times."""
    found = read_statistics(folder / STATISTICS)
    return [
        {"generation": generation, "seed": seed}
        | {name: _number(found.column(name)[index, generation]) for name in found.header.columns}
        for generation in range(found.generations)
        for index, seed in enumerate(found.header.seeds)
    ]


def _number(value):
    return None if np.isnan(value) else float(value)


def rows(generation, seeds=(0, 1), *, best=None, failed=0, seconds=0.5):
    """Of one generation; seconds: that it took; best: of each seed, None for one whose robots all failed."""
    values = best or [0.1 * (generation + 1) + seed for seed in seeds]
    return [
        {
            "generation": generation,
            "seed": seed,
            "best": value,
            "median": None if value is None else value / 2,
            "failed": failed,
            "best_id": 6 * generation,
            "seconds": seconds,
        }
        for seed, value in zip(seeds, values, strict=True)
    ]


def record(folder, generation, **more):
    """The bytes that a run appends."""
    header = header_in(folder)
    one = of_rows(header, [{**row, "generation": 0} for row in rows(generation, header.seeds, **more)])
    one.records["generation"] = generation
    return as_bytes(one).removeprefix(header.line())


def add_generation(folder, generation, **more):
    """Written as the run writes it."""
    with (folder / STATISTICS).open("ab") as file:
        file.write(record(folder, generation, **more))


def put_best(folder, seed, individual, robot=ROBOT, value=0.5):
    """A checkpoint's robot; value: what it reached."""
    text = f"# best of seed {seed}: individual {individual}, relative_velocity {value}\n{robot}"
    (folder / "best" / f"seed-{seed}.yaml").write_text(text)

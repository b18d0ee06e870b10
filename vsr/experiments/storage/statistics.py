"""Statistics of a run: one append-only file of binary records of equal size, one record a generation.

    statistics.bin   one line of JSON: kind, format, fingerprint of the run's settings, goal, seeds, names of columns
                     then for each generation: wall-clock time, columns x seeds, number of the generation, CRC-32

The form follows from three demands.

- A kill at any moment loses nothing that was recorded. A generation is one write at the end of the file, so a kill
  leaves whole records and at most a part of one: readers ignore that part, resuming cuts it off. Records are on disk
  (fsync) before the checkpoint that counts on them. Resuming keeps as many records as the checkpoint has generations,
  so that the file goes on bit for bit as without the stop, except for wall-clock times.
- Reading is quick. Columns are views of the file's bytes: nothing is parsed. The header has all that curves and
  comparisons need, so that neither plugins nor the description of the experiment are read.
- Corruption is noticed. Checksums begin with the fingerprint of the settings, and numbers of generations must fit their
  places: changed, moved and foreign records are found. The others stay readable, as all have the same size.

Numbers are float64, which is exact for every one of them; not a number stands for what is not known. Of a generation
without any known number `failed` is not a number either. `vsr plot --csv` writes the same as text.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array

from vsr.arrays import MOST_BYTES, CorruptFileError, read_regular
from vsr.experiments.encodings import Genes
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.files import json_line, parse_json_line, write_bytes
from vsr.physics.failure import REASONS

STATISTICS = "statistics.bin"
KIND, FORMAT = "statistics", 1
FAILURES, METRICS = "failures.", "metrics."
"""Before the names of columns: failed robots by reason, and metrics that the search reports about itself."""
CONFIRMED = ("confirmed", "confirmed_low", "confirmed_high")
"""Fitness in fresh trials, and the quartiles of these; known of the last generation only."""
COLUMNS = (
    "best",
    "median",
    "failed",
    "best_id",
    "spread",
    "bodies",
    *CONFIRMED,
    *(FAILURES + reason.name for reason in REASONS),
)
"""Columns of every run; metrics of its search follow."""
MOST_OF_A_HEADER = 2**20
"""[bytes]"""


@dataclass(frozen=True)
class Header:
    """The run's description in the file."""

    run: str
    """fingerprint of its settings"""
    measure: str
    direction: str
    """`maximize` or `minimize`"""
    search: str
    """type of the optimizer"""
    population_size: int
    generations: int
    """how many are planned"""
    episode_seconds: float
    """simulated time of an episode [s]"""
    seeds: tuple[int, ...]
    columns: tuple[str, ...] = COLUMNS

    @property
    def sign(self) -> float:
        """Fitness, which is always maximized, over the measure."""
        return 1.0 if self.direction == "maximize" else -1.0

    @cached_property
    def record(self) -> np.dtype:
        """One generation; all numbers little-endian."""
        shape = len(self.columns), len(self.seeds)
        return np.dtype([("seconds", "<f8"), ("values", "<f8", shape), ("generation", "<u4"), ("crc32", "<u4")])

    def line(self) -> bytes:
        """As it is written."""
        return json_line({"kind": KIND, "format": FORMAT, **asdict(self)}).encode()

    def crc32(self, record: bytes | memoryview) -> int:
        """Of a record, without the last four bytes."""
        return zlib.crc32(record[:-4], int(self.run[:8], 16))


@dataclass(frozen=True)
class Statistics:
    """Contents of the file."""

    header: Header
    records: np.ndarray
    """up to the last whole one, (generations,) of `Header.record`; corrupted ones are not a number"""
    corrupted: tuple[int, ...] = ()
    """generations whose records are not as they were written"""

    @property
    def generations(self) -> int:
        return len(self.records)

    @property
    def seconds(self) -> np.ndarray:
        """Wall-clock time of each generation, without compiling [s], (generations,)."""
        return self.records["seconds"]

    def column(self, name: str) -> np.ndarray:
        """(seeds, generations)"""
        return self.records["values"][:, self.header.columns.index(name)].T

    def columns(self, prefix: str) -> dict[str, np.ndarray]:
        """All that begin with a prefix, by the rest of their names, each (seeds, generations)."""
        names = (name for name in self.header.columns if name.startswith(prefix))
        return {name.removeprefix(prefix): self.column(name) for name in names}

    @property
    def is_confirmed(self) -> bool:
        """Whether the best robots of the last generation are known in fresh trials."""
        known = "confirmed" in self.header.columns and self.generations == self.header.generations
        return known and bool(~np.isnan(self.column("confirmed")[:, -1]).any())

    @property
    def best(self) -> np.ndarray:
        """Best fitness so far; of the last generation the confirmed one, if there is any, (seeds, generations)."""
        best = self.column("best")
        if self.is_confirmed:
            best = best.copy()
            last = self.column("confirmed")[:, -1]
            best[:, -1] = np.where(np.isfinite(last), last, np.nan)
        return best

    @property
    def quartiles(self) -> np.ndarray:
        """Of the fitness of each seed's best robot in fresh trials; not a number where there are none, (2, seeds)."""
        if not self.is_confirmed or CONFIRMED[-1] not in self.header.columns:
            return np.full((2, len(self.header.seeds)), np.nan)
        return np.stack([self.column(name)[:, -1] for name in CONFIRMED[1:]])

    @property
    def unknown(self) -> list[int]:
        """Generations that nothing is known of, apart from corrupted ones."""
        lost = np.isnan(self.column("failed")).any(0)
        return [generation for generation in np.flatnonzero(lost).tolist() if generation not in self.corrupted]

    def with_header(self, header: Header) -> Statistics:
        """The same under another header, which may have more columns."""
        records = unknown_records(header, self.generations)
        records["seconds"] = self.seconds
        for place, name in enumerate(header.columns):
            if name in self.header.columns:
                records["values"][:, place] = self.column(name).T
        return Statistics(header, records, self.corrupted)


def header_of(experiment: Experiment, run: str, metrics: Sequence[str] = ()) -> Header:
    """run: fingerprint of the settings; metrics: names of the numbers that the search reports."""
    return Header(
        run=run,
        measure=experiment.fitness.measure,
        direction=experiment.fitness.direction,
        search=experiment.optimizer.type,
        population_size=experiment.optimizer.population_size,
        generations=experiment.generations,
        episode_seconds=float(experiment.schedule().total_time),
        seeds=tuple(experiment.seeds),
        columns=(*COLUMNS, *(METRICS + name for name in metrics)),
    )


def unknown_records(header: Header, count: int) -> np.ndarray:
    """Empty records of the first generations."""
    records = np.zeros(count, header.record)
    records["seconds"], records["values"], records["generation"] = np.nan, np.nan, np.arange(count)
    return records


def record_of(header: Header, generation: int, stats: GenerationStats, seconds: float) -> bytes:
    """One generation as the file has it; stats: of all seeds."""
    failures = np.asarray(stats.failures, float)
    known: Mapping[str, Any] = {
        **{name: _known(stats, name) for name in COLUMNS if not name.startswith(FAILURES)},
        **{FAILURES + reason.name: failures[:, place] for place, reason in enumerate(REASONS)},
        **{METRICS + name: values for name, values in stats.metrics.items()},
    }
    values = np.stack([np.asarray(known[name], float) for name in header.columns])
    record = np.zeros(1, header.record)
    record["generation"], record["seconds"] = generation, round(seconds, 4)
    # Of robots that failed in fresh trials that is kept, since it differs from not being confirmed.
    kept = np.isfinite(values) | np.isin(header.columns, CONFIRMED)[:, None]
    record["values"] = np.where(kept, values, np.nan)
    return _signed(header, record)


def _known(stats: GenerationStats, name: str) -> Any:
    value = getattr(stats, name)
    return np.full(np.shape(stats.best), np.nan) if value is None else value


def write_statistics(file: Path, statistics: Statistics) -> None:
    """Replace the whole file."""
    write_bytes(file, as_bytes(statistics))


def as_bytes(statistics: Statistics) -> bytes:
    """As the file has them."""
    return statistics.header.line() + _signed(statistics.header, statistics.records)


def _signed(header: Header, records: np.ndarray) -> bytes:
    """Records with their checksums."""
    size, data = header.record.itemsize, bytearray(records.tobytes())
    for end in range(size, len(data) + 1, size):
        data[end - 4 : end] = header.crc32(memoryview(data)[end - size : end]).to_bytes(4, "little")
    return bytes(data)


def read_statistics(file: Path, known: Statistics | None = None) -> Statistics:
    """All complete records; raises CorruptFileError if the file is missing or its header is incomplete.

    known: what was read of this file before; if it only grew since, the rest is read.
    """
    if known is not None:
        with file.open("rb") as content:
            line = content.readline(MOST_OF_A_HEADER)
            start = len(line) + known.generations * known.header.record.itemsize
            if line == known.header.line() and content.seek(0, 2) >= start and not known.corrupted:
                content.seek(start)
                more, corrupted = _verified(known.header, content.read(), known.generations)
                if not len(more):
                    return known
                return Statistics(known.header, np.concatenate([known.records, more]), corrupted)
    data = read_regular(file)
    end = data.find(b"\n", 0, MOST_OF_A_HEADER) + 1
    header = _header(file, data[:end])
    return Statistics(header, *_verified(header, memoryview(data)[end:], 0))


def _verified(header: Header, data: bytes | memoryview, first: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Records up to the last whole one, and the numbers of generations before it that are corrupted."""
    size, view = header.record.itemsize, memoryview(data)
    count = len(view) // size
    records = np.frombuffer(view[: count * size], header.record)
    sums = (header.crc32(view[start : start + size]) for start in range(0, count * size, size))
    numbers = np.arange(first, first + count)
    whole = (np.fromiter(sums, np.uint32, count) == records["crc32"]) & (records["generation"] == numbers)
    length = int(whole.nonzero()[0][-1]) + 1 if whole.any() else 0
    records, whole = records[:length], whole[:length]
    if not whole.all():
        records = records.copy()
        for name in ("seconds", "values"):
            records[name][~whole] = np.nan
    return records, tuple(numbers[:length][~whole].tolist())


def _header(file: Path, line: bytes) -> Header:
    values: dict[str, Any] | None = parse_json_line(line[:-1]) if line else None
    if values is None:
        raise CorruptFileError(
            file, "its header is not as it was written" if line else "empty, or not a file of statistics"
        )
    if (values.pop("kind", None), values.pop("format", None)) != (KIND, FORMAT):
        raise CorruptFileError(file, f"it is no file of kind {KIND}, format {FORMAT}")
    try:
        known: dict[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in values.items()}
        header = Header(**known)
        counts = header.population_size, header.generations, *header.seeds
        texts = header.measure, header.direction, header.search, *header.columns
        sound = (
            all(type(one) is int for one in counts)
            and all(isinstance(one, str) for one in texts)
            and min(header.population_size, header.generations, len(header.seeds)) >= 1
            and isinstance(header.episode_seconds, float)
            and set(COLUMNS) <= set(header.columns)
            and header.record.itemsize < MOST_BYTES
            and int(header.run[:8], 16) >= 0
        )
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise CorruptFileError(file, "its header does not describe a run")
    return header


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GenerationStats:
    """Statistics of a generation of one seed; with a leading axis (seeds,) after `gathered`."""

    best: Array
    """fitness of the best survivor, WORST if all failed"""
    median: Array
    """median fitness of the survivors that did not fail, not a number if all failed"""
    failed: Array
    """how many of the individuals evaluated in this generation failed"""
    failures: Array
    """how many for each of vsr.physics.failure.REASONS, (reasons,)"""
    best_genes: Genes
    """of the best survivor"""
    best_id: Array
    """of the best survivor"""
    id: Array
    """of every individual evaluated in this generation, (population_size,)"""
    parents: Array
    """their parents' ids, (population_size, 2)"""
    fitness: Array
    """their fitness, WORST for a failure, (population_size,)"""
    spread: Array
    """standard deviation of a gene over the survivors, averaged over all genes"""
    bodies: Array
    """how many different bodies the survivors have"""
    metrics: dict[str, Array] = field(default_factory=dict)
    """further metrics of the search, by name: coverage of archives, volume of fronts"""
    confirmed: Any = None
    """fitness of the best survivor in fresh trials, WORST if it failed there; None before the run's end"""
    confirmed_low: Any = None
    """lower quartile of the fitness in these trials"""
    confirmed_high: Any = None
    """upper quartile"""


def gather(stats: tuple[GenerationStats, ...]) -> GenerationStats:
    """All seeds' statistics as one on the host, with a leading axis (seeds,)."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(stats))

"""Evolving on several hosts: process 0 leads and the others follow.

Process 0 alone reads and writes files, searches, prints, and hears first of all that the user asked to stop. The others
get the experiment from it and take part in every evaluation. Before each, all exchange one number: process 0 announces
that an evaluation comes, or dismisses the others with an exit code; the others report whether they were asked to stop.
So the end of process 0 ends all, in the same generation. Where a process is lost, the others notice at their next
exchange and end too; the run goes on from its last checkpoint."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import jax
from jax import Array

from vsr.experiments.config import dump_yaml, parse_experiment
from vsr.experiments.config.problems import UserError
from vsr.experiments.encodings import Genes
from vsr.experiments.evolve.generation import (
    Counted,
    Evolution,
    SearchStates,
    compile_led_evaluation,
    compile_led_evolution,
)
from vsr.experiments.experiment import Experiment
from vsr.experiments.hosts import PeerLostError, broadcast_text, detect_peer_loss, exchange
from vsr.experiments.installed import source_digest
from vsr.experiments.launch import leave
from vsr.experiments.memory import memory_limit
from vsr.experiments.storage.sources import sources_of
from vsr.experiments.storage.statistics import GenerationStats
from vsr.scene import precision

EVALUATE, CONFIRM = -1, -2
"""Announcements of process 0 before an evaluation, and before a last look at the best robots; exit codes, by which it
dismisses the others, are not negative."""
MEBIBYTE = 2**20


class EndedTogether(UserError):
    """Data that all processes have, so that nothing need be broadcast."""

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(message)
        self.exit_code = exit_code


class Leader:
    """Process 0 of several."""

    def __init__(self, experiment: Experiment, file: str, at_work: list[Any]):
        """Send the experiment to the others; file: beside which plugins are; at_work: where results to come are
        kept."""
        self.at_work = at_work
        plugins = sources_of(experiment).digests
        text = json.dumps({"experiment": dump_yaml(experiment), "file": file, "plugins": plugins})
        length = len(text.encode())
        exchange(-length)
        broadcast_text(text, length)
        with together():
            pass  # the others read it
        self.limit = _smallest_memory()

    def compile(self, experiment: Experiment, counted: Counted) -> Evolution:
        """The search, which all processes evaluate; counted: see `compile_evolution`."""
        return compile_led_evolution(experiment, self.limit, counted)

    def begin(
        self, evolution: Evolution, searches: SearchStates, stop: list[int]
    ) -> tuple[SearchStates, tuple[GenerationStats, ...]]:
        """Begin a generation on all processes; stop: is added to if another process was asked to stop."""
        _announce(EVALUATE, stop)
        pending = evolution.step(searches)
        self.at_work[:] = [pending]
        return pending

    def confirm(self, evolution: Evolution, best: Genes, stop: list[int]) -> list[Array]:
        """Begin the last look at the best robots on all processes; stop: likewise."""
        assert evolution.confirm is not None
        pending = evolution.confirm(best, lambda: _announce(CONFIRM, stop))
        self.at_work[:] = [pending]
        return pending


def _announce(what: int, stop: list[int]) -> None:
    wishes = exchange(what)[1:, 0]
    stop.extend(int(number) for number in wishes if number)


def follow(stop: list[int]) -> None:
    """The work of every process but the first, until process 0 dismisses it; stop: signals that have come."""
    length = -_hear(stop)
    received = json.loads(broadcast_text("", length))
    with together():
        experiment = parse_experiment(received["experiment"], received["file"], run_plugins=True)
        _check_plugins(experiment, received["plugins"])
    limit = _smallest_memory()
    with precision(experiment.physics.precision):
        take_part = compile_led_evaluation(experiment, limit)
        while True:
            take_part(_hear(stop) == CONFIRM)


def _hear(stop: list[int]) -> int:
    """The announcement of process 0; raises EndedTogether when it dismisses this one."""
    said = int(exchange(stop[0] if stop else 0)[0, 0])
    if said >= 0:
        raise EndedTogether(f"process {jax.process_index()}: process 0 has ended; see its output", said)
    return said


def check_same_command(command: str) -> None:
    """Refuse to go on if processes were started to do different objects, or with different programs."""
    sources = json.dumps([source_digest(), *map(version, ("jax", "jaxlib"))])
    said = exchange(*(zlib.crc32(text.encode()) % 2**31 for text in (command, sources)))
    for column, (what, hint) in enumerate(
        (
            ("was started with other arguments", "give the same to all, or --processes 1 to evolve independently"),
            ("has another version of vsr or jax", "install the same everywhere"),
        )
    ):
        different = [process for process, number in enumerate(said[:, column]) if number != said[0, column]]
        if different:
            raise EndedTogether(f"process {different[0]} {what} than process 0; {hint}")


def _check_plugins(experiment: Experiment, expected: dict[str, str]) -> None:
    changed = sources_of(experiment).changed_since(expected)
    if changed is not None:
        raise UserError(
            f"process {jax.process_index()}: plugin '{changed}' is not the same as on process 0; copy it to all hosts"
        )


def _smallest_memory() -> float:
    """Memory that every device of every process may use [bytes]."""
    return MEBIBYTE * float(exchange(max(1, int(memory_limit() / MEBIBYTE))).min())


@contextlib.contextmanager
def together() -> Iterator[None]:
    """An error that a user has to fix on one process ends all of them."""
    failure = None
    try:
        yield
    except UserError as error:
        failure = error
    codes = exchange(failure.exit_code if failure else 0)[:, 0]
    if failure is not None:
        raise EndedTogether(str(failure), failure.exit_code)
    if codes.any():
        process = int(codes.argmax())
        raise EndedTogether(f"process {process} could not go on; see its output", int(codes[process]))


@contextlib.contextmanager
def end_together() -> Iterator[list[Any]]:
    """The end of process 0 dismisses the others; any other error ends the process at once, and is noticed.

    Gives a list for results that all processes are at work on: they are waited for before anyone is dismissed.
    """
    first = jax.process_index() == 0
    at_work: list[Any] = []
    try:
        yield at_work
        if first:
            exchange(0)
        leave()
    except EndedTogether as error:
        leave()
        if error.exit_code:
            raise
    except PeerLostError:
        raise
    except UserError as error:
        if first:
            _dismiss(error.exit_code, at_work)
        else:
            error.leave_at_once = True
        raise
    except KeyboardInterrupt:
        _end_at_once(130)
    except BaseException:
        traceback.print_exc()
        _end_at_once(1)


def _dismiss(code: int, at_work: list[Any]) -> None:
    try:
        with detect_peer_loss():
            jax.block_until_ready(at_work)
        exchange(code)
    except PeerLostError:
        return
    leave()


def _end_at_once(code: int) -> None:
    """Without JAX's own goodbye, which would wait for processes that wait for this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

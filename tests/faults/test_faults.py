"""A short deterministic round of every kind of fault, the long campaign, and that broken promises are noticed."""

import faulthandler
import re
import shutil
import signal
import time
from random import Random

import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT

import vsr.cli as cli
from faults import folder_faults, fuzz, run_faults
from faults.injection import Fault, refuse_network
from faults.processes import Job, Result, run_here, spawn
from faults.reference import RUN, read_end, readers
from vsr.evo.population import WORST, offspring, with_fitness
from vsr.experiments.storage import files

KINDS = {
    "kill": run_faults.kill,
    "signal": run_faults.interrupt,
    "write": run_faults.fail_write,
    "disk": run_faults.fill_disk,
    "writers": run_faults.write_concurrently,
    "damage": folder_faults.corrupt,
    "craft": folder_faults.craft,
    "fuzz": fuzz.trial,
}
QUICK = ("compare", "resume")
"""Commands that the short round asks about run folders."""
TRIAL_SECONDS = 1800.0
"""After which a trial of the campaign hangs: a traceback of every thread is printed, and the tests end [s]."""


# A short round


@pytest.mark.slow
def test_a_killed_run_ends_as_if_it_had_not_been_killed(reference):
    assert run_faults.kill(reference, 0, Random(0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3])
def test_a_run_that_is_asked_to_stop_does_so_and_goes_on(reference, number):
    assert run_faults.interrupt(reference, number, Random(number)) == []


@pytest.mark.slow
def test_a_failing_disk_is_reported_and_costs_no_complete_file(reference):
    assert len(reference.operations) > 60
    for number in (0, 1):
        assert run_faults.fail_write(reference, number, Random(number)) == []


@pytest.mark.slow
def test_a_disk_that_is_too_small_is_reported_and_the_run_goes_on_elsewhere(reference):
    if not run_faults.can_mount():
        pytest.skip("no file system may be mounted here")
    assert run_faults.fill_disk(reference, 0, Random(0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_concurrent_processes_do_not_disturb_each_other(reference, number):
    assert run_faults.write_concurrently(reference, number, Random(number)) == []


@pytest.mark.slow
def test_corrupted_files_are_found_and_not_trusted(reference):
    """Every file of a stopped run, each in one way."""
    issues = []
    for number, name in enumerate(folder_faults.files_of(reference.stopped)):
        way = folder_faults.WAYS[number % 3]
        issues += folder_faults.corrupt_file(
            reference, reference.stopped, name, way, f"{way}-{number}", Random(number), QUICK
        )
    assert issues == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_crafted_folders_lead_nowhere(reference, number):
    assert folder_faults.craft(reference, number, Random(number), QUICK) == []


@pytest.mark.slow
@hypothesis.settings(max_examples=160, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(fuzz.inputs())
def test_fuzzed_inputs_are_refused_in_words(given):
    assert fuzz.issue_of(given) is None


# The campaign


@pytest.mark.full
@pytest.mark.campaign
@pytest.mark.timeout(0)  # every trial has its own
@pytest.mark.parametrize("kind", KINDS)
def test_campaign(kind, campaign, option, write_figures):
    if kind == "disk" and not run_faults.can_mount():
        pytest.skip("no file system may be mounted here")
    began, trials, failures = time.monotonic(), 0, []
    minutes, first = option("minutes"), option("first")

    def goes_on():
        return trials < option("trials") if minutes is None else time.monotonic() - began < 60 * minutes

    while goes_on():
        number = first + trials
        faulthandler.dump_traceback_later(TRIAL_SECONDS, exit=True)
        issues = KINDS[kind](campaign, number, Random(f"{option('fault_seed')}/{kind}/{number}"))
        faulthandler.cancel_dump_traceback_later()
        trials += 1
        if issues:
            failures.append({"trial": number, "issues": issues})
        else:
            shutil.rmtree(campaign.folder / "trials" / f"{kind}-{number}", ignore_errors=True)
        figures = {"trials": trials * (fuzz.INPUTS if kind == "fuzz" else 1), "failed": len(failures)}
        write_figures(kind, {**figures, "seconds": round(time.monotonic() - began, 1), "failures": failures})
    assert failures == []


# Inputs that once ended in a traceback, or might


@pytest.mark.parametrize(
    ("target", "content", "words"),
    [
        ("robot", "robot: {body: {shape: aa, engine: [squares]}, controller: sine}", "engine: ['squares']"),
        ("robot", "robot: {body: {shape: aa, engine: {a: 1}}, controller: sine}", "engine: {'a': 1}"),
        (
            "experiment",
            "robot: {body: {type: material_grid, grid: [2, 2], engine: {a: 1}}, controller: sine}",
            "engine: {'a': 1}",
        ),
        ("mesh", "v 1 0 0\nv 0 1 0\nv 0\nf 1 3 2\nf 1 ", "not a mesh"),
    ],
)
def test_inputs_that_ended_in_a_traceback_are_refused(tmp_path, target, content, words):
    file = tmp_path / ("input.obj" if target == "mesh" else "input.yaml")
    file.write_text(content)
    result = fuzz.read_input(target, file, (), tmp_path)
    assert (result.code, words in result.output) == (2, True), result.output


def test_a_file_without_end_is_refused():
    result = CliRunner().invoke(cli.main, ["check", "/dev/zero"])
    assert (result.exit_code, "/dev/zero: larger than 32 MiB" in result.output) == (2, True), result.output


@pytest.mark.slow
def test_names_that_are_no_text_are_refused_before_anything_is_written(reference, tmp_path):
    result = run_here(["evolve", str(reference.config), "--out", "a\udcff"], tmp_path)
    assert (result.code, "'a\\udcff' is not text (UTF-8)" in result.output) == (2, True), result.output
    assert not list(tmp_path.iterdir())


def test_a_corrupted_training_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text("{")
    result = CliRunner().invoke(cli.main, ["train", "bulldozing", "--resume", "--out", str(tmp_path)])
    assert (result.exit_code, "settings.json" in result.output) == (2, True), result.output


# Nothing is fetched, and the same settings give the same result


@pytest.mark.slow
def test_nothing_is_fetched(reference):
    """A process to which every connection is an error evolves, and is none the worse for it."""
    run = reference.trial_folder("offline") / RUN
    [result] = spawn(Job(reference.evolve(run), run.parent, fault=Fault(offline=True)))
    assert reference.issues_of_finished(result, run) == []


def test_a_connection_would_be_noticed():
    with pytest.raises(PermissionError, match="nothing is fetched"):
        refuse_network("socket.connect", (None, ("192.0.2.1", 80)))
    with pytest.raises(PermissionError, match=r"example\.org"):
        refuse_network("socket.getaddrinfo", ("example.org", 443, 0, 0, 0))
    refuse_network("socket.connect", (None, ("127.0.0.1", 80)))
    refuse_network("socket.connect", (None, "/tmp/a-socket-of-this-computer"))


@pytest.mark.slow
def test_the_same_settings_give_the_same_result(reference):
    """In a process of its own, and in this one in another folder."""
    assert reference.issues_of_resuming(reference.trial_folder("again") / RUN) == []


def test_an_infinite_fitness_never_wins():
    population = offspring({"a": jnp.zeros(4)}, jnp.full((4, 2), -1), jnp.int32(0), jnp.int32(0))
    fitness = jnp.array([jnp.inf, jnp.nan, 9.0, 1.0])
    known = with_fitness(population, fitness, jnp.array([False, False, True, False])).fitness
    np.testing.assert_array_equal(known, [WORST, WORST, WORST, 1.0])


# Broken promises are noticed


@pytest.mark.slow
def test_a_file_that_is_not_written_atomically_is_noticed(reference, monkeypatch):
    """If files were written under their own names, a full disk would leave half of one that was complete before."""

    def write_carelessly(path, write):
        with path.open("wb") as file:
            write(file)

    monkeypatch.setattr(files, "write_atomically", write_carelessly)
    run = reference.trial_folder("careless") / RUN
    _, counted = reference.evolve_here(run, fault=Fault(str(run)))
    _, second = (number for number, operation in enumerate(counted.operations) if operation == "write meta.json")
    shutil.rmtree(run)
    _, record = reference.evolve_here(run, fault=Fault(str(run), second))
    assert run_faults.lost_files(run, record) == ["meta.json was complete before and is no longer"]


@pytest.mark.slow
def test_another_end_is_noticed(reference):
    run = shutil.copytree(reference.finished, reference.trial_folder("other") / RUN)
    assert read_end(run).differences(reference.end) == []
    last = max((run / "checkpoints").iterdir())
    with np.load(last) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = next(name for name, values in arrays.items() if values.dtype == np.float32 and values.size)
    arrays[name] = np.nextafter(arrays[name], np.float32(9))
    np.savez(last, **arrays)
    robot = next((run / "best").iterdir())
    robot.write_text(robot.read_text() + "\n")
    assert read_end(run).differences(reference.end) == [f"checkpoint: {name} differs", f"best: {robot.name} differs"]


@pytest.mark.parametrize(
    ("result", "answer", "words"),
    [
        (Result(0, ""), 1, None),
        (Result(0, ""), 2, "another answer"),
        (Result(0, "warning: lineage/0.npz: corrupted"), 2, None),
        (Result(2, "run/lineage/0.npz: corrupted"), None, None),
        (Result(2, "no"), None, "without naming the file: no"),
        (Result(1, "oh"), None, "code 1: oh"),
        (Result(0, "Traceback (most recent call last):\n  File\nKeyError: 'a'\n"), None, "KeyError: 'a'"),
    ],
)
def test_answers_about_corrupted_files_are_judged(result, answer, words):
    issue = folder_faults.judge(result, answer, 1, "lineage/0.npz")
    assert issue is None if words is None else words in issue


def test_a_signal_that_is_not_handled_is_noticed():
    assert run_faults.issues_of_interruption(Result(-signal.SIGKILL, ""), True, True)
    assert run_faults.issues_of_interruption(Result(130, "stopped"), True, True) == []
    assert run_faults.issues_of_interruption(Result(1, "Aborted!"), True, False) == ["code 1: Aborted!"]


def test_a_fuzzed_input_with_a_traceback_is_noticed_and_made_simple(monkeypatch):
    monkeypatch.setattr(fuzz, "TURNS", ("robot",))
    monkeypatch.setitem(fuzz.TARGETS, "robot", lambda file, arguments: {}["key"])
    [issue] = fuzz.trial(None, 0, Random(0))
    assert "KeyError: 'key'" in issue


@pytest.mark.slow
def test_every_command_that_reads_runs_is_tried(reference):
    """A new command has to be added to the readers, or to those that read no runs."""
    others = ["check", "list", "schema", "bench", "validate", "train", "reach", "reproduce", "sweep", "convert"]
    others += ["new", "doctor", "completion"]
    tried = {reader.arguments[0] for reader in readers(reference, 0)}
    assert {*tried, *others, "landscape"} == set(cli.main.commands)


def test_every_promise_names_tests_that_exist():
    parts = re.split(r"^## (?=\d)", (ROOT / "docs" / "reliability.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(parts) == 9
    for part in parts:
        tests = re.findall(r"`([\w/]+\.py)::(test_\w+)`", part.split("\n## ")[0])
        assert tests, part
        for file, name in tests:
            assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), f"{file}::{name}"

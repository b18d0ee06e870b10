"""The campaign against runs: a short round of every fault, what the promises say, and that broken ones are noticed."""

import contextlib
import json
import re
import shutil
import signal
import time
from random import Random

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT, TINY

import vsr.cli as cli
import vsr.experiments.evolve.command as evolve_module
from vsr.evo.population import WORST, evaluated, newborns
from vsr.experiments import files
from vsr.experiments.config import dump_yaml
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.torture import ages, damage, disk, kills, orders, rivals, signals, small_disk, write_faults
from vsr.experiments.torture.campaign import KINDS, Budget, Tally, try_out
from vsr.experiments.torture.children import Nursery, Process, Reader, Worker
from vsr.experiments.torture.ends import different, read_end
from vsr.experiments.torture.faults import Fault
from vsr.experiments.torture.fuzz import targets
from vsr.experiments.torture.ground import RUN, Ground, run_whole, smaller, stop_half
from vsr.experiments.torture.here import Ended
from vsr.experiments.torture.readers import readers

DOCS = ROOT / "docs" / "reliability.md"


def carried_out(self, order, seconds):
    """In this process, which has imported and compiled everything already."""
    return json.loads(json.dumps(orders.carry_out(order)))


class Here(Worker):
    order = carried_out


class HereReader(Reader):
    order = carried_out


@pytest.fixture(scope="module")
def _compiled_once():
    """For runs in this process: those of others take programs from the store."""
    known = {}

    def compile_once(experiment):
        key = dump_yaml(experiment.model_copy(update={"generations": 1}))
        if key not in known:
            known[key] = compile_evolution(experiment)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evolve_module, "compile_evolution", compile_once)
        yield


@pytest.fixture(scope="module")
def ground(tmp_path_factory, _compiled_once):
    """The tests' usual experiment, run once and stopped once; the processes to kill are real ones."""
    folder = tmp_path_factory.mktemp("torture")
    config = folder / "tiny.yaml"
    config.write_text(TINY)
    ground = Ground(folder, config, (), Nursery({}), Here({}), HereReader({}), reports=False)
    ground.nursery.begin()
    run_whole(ground)
    stop_half(ground)
    yield ground
    ground.close()


# A short round


def test_a_killed_run_ends_as_if_nobody_had_killed_it(ground):
    assert kills.kill_once(ground, ground.trial_folder("killed") / RUN, 0.6 * ground.seconds, {}) == []
    assert ground.faults_of_resuming(ground.folder / "trials" / "killed" / RUN) == []


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_a_run_that_is_asked_to_stop_does_so_and_goes_on(ground, number):
    assert signals.trial(ground, number, Random(number)) == []


def test_a_failing_disk_is_told_and_costs_nothing_that_was_whole(ground):
    assert len(ground.operations) > 60
    for number in (0, 1):
        assert write_faults.trial(ground, number, Random(number)) == []


@pytest.mark.skipif(not disk.is_possible(), reason="no disk of one's own is permitted here")
def test_a_disk_that_is_too_small_is_told_and_the_run_goes_on_elsewhere(ground):
    assert small_disk.trial(ground, 0, Random(0)) == []


def test_two_processes_do_not_disturb_each_other(ground):
    assert rivals.two_writers(ground, ground.trial_folder("two"), Random(0)) == []


QUICK = ("compare", "resume")


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("checkpoints/00000003.npz", "flip"),
        ("lineage/00000001.npz", "truncate"),
        ("statistics.jsonl", "flip"),
        ("statistics.jsonl", "remove"),
        ("best/seed-0.yaml", "flip"),
        ("config.yaml", "flip"),
        ("meta.json", "truncate"),
    ],
)
def test_damage_is_found_and_not_believed(ground, name, way):
    found = damage.try_damage(ground, ground.half, name, way, f"damage-{way}", Random(f"{name}{way}"), QUICK)
    assert found == []


def test_folders_of_older_versions_are_read_and_go_on(ground):
    assert ages.try_age(ground, ground.half, "all", "older", QUICK) == []


def test_strange_inputs_are_refused_in_words(ground):
    tallies = {"fuzz": Tally()}
    try_out(ground, 7, tallies, Budget(trials=160))
    assert tallies["fuzz"].failures == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_round(ground, kind):
    if not KINDS[kind].is_possible():
        pytest.skip("not possible on this computer")
    tallies = {kind: Tally()}
    try_out(ground, 1, tallies, Budget(trials=2000 if kind == "fuzz" else 24))
    assert tallies[kind].failures == []


# What the fuzzer found


@pytest.mark.parametrize(
    ("target", "content", "words"),
    [
        ("robot", "robot: {body: {shape: aa, masses: [squares]}, controller: sine}", "masses: ['squares'] given"),
        ("robot", "robot: {body: {shape: aa, masses: {a: 1}}, controller: sine}", "masses: {'a': 1} given"),
        (
            "experiment",
            "robot: {body: {type: material_grid, grid: [2, 2], masses: {a: 1}}, controller: phases}",
            "masses: {'a': 1} given",
        ),
        ("mesh", "v 1 0 0\nv 0 1 0\nv 0\nf 1 3 2\nf 1 ", "not a mesh that can be read ("),
    ],
)
def test_what_once_ended_in_a_traceback_is_refused(tmp_path, target, content, words):
    file = tmp_path / ("input.obj" if target == "mesh" else "input.yaml")
    file.write_text(content)
    ended = targets.try_input(target, str(file), [], tmp_path)
    assert (ended.code, words in ended.output) == (2, True), ended.output


def test_a_file_without_end_is_refused():
    result = CliRunner().invoke(cli.main, ["check", "/dev/zero"])
    assert result.exit_code == 2
    assert result.output == "/dev/zero: larger than 32 MiB, the most that is read\n"


def test_names_that_are_no_text_are_refused_before_anything_is_written(ground, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, ["evolve", str(ground.config), "--out", "a\udcff"])
    assert (result.exit_code, "'a\\udcff' is not text (UTF-8)" in result.output) == (2, True), result.output
    assert not list(tmp_path.iterdir())


def test_a_damaged_training_is_refused_in_words(tmp_path):
    (tmp_path / "settings.json").write_text("{")
    result = CliRunner().invoke(cli.main, ["train", "bulldozing", "--resume", "--out", str(tmp_path)])
    assert (result.exit_code, "settings.json: damaged" in result.output) == (2, True), result.output


# Nothing is fetched


def test_nothing_is_fetched(ground):
    """A process to which every connection is an error evolves, plots, and is none the worse for it."""
    run = ground.trial_folder("offline") / RUN
    [ended] = ground.nursery.run(Process(ground.evolve(run), run.parent, fault=Fault(offline=True)))
    assert ended.code == 0, ended.output
    assert different(read_end(run), ground.end) == []


def test_a_connection_would_be_noticed(tmp_path):
    from vsr.experiments.torture.faults import _refuse_network

    with pytest.raises(PermissionError, match="nothing is fetched"):
        _refuse_network("socket.connect", (None, ("192.0.2.1", 80)))
    with pytest.raises(PermissionError, match=r"example\.org"):
        _refuse_network("socket.getaddrinfo", ("example.org", 443, 0, 0, 0))
    _refuse_network("socket.connect", (None, ("127.0.0.1", 80)))
    _refuse_network("socket.connect", (None, "/tmp/a-socket-of-this-computer"))


# Same settings, failures


def test_the_same_settings_give_the_same_result(ground):
    """Of a process of its own, and of this one in another folder."""
    assert ground.faults_of_resuming(ground.trial_folder("again") / RUN) == []


def test_an_infinite_fitness_never_wins():
    population = newborns({"a": jnp.zeros(4)}, jnp.full((4, 2), -1), jnp.int32(0), jnp.int32(0))
    fitness = jnp.array([jnp.inf, jnp.nan, 9.0, 1.0])
    known = evaluated(population, fitness, jnp.array([False, False, True, False])).fitness
    np.testing.assert_array_equal(known, [WORST, WORST, WORST, 1.0])


# What is broken is noticed


def test_a_file_that_is_not_written_whole_is_noticed(ground, monkeypatch):
    """If files were written under their own names, a full disk would leave half of one that was whole before."""

    def write_carelessly(path, write):
        with path.open("wb") as file:
            write(file)

    monkeypatch.setattr(files, "write_atomically", write_carelessly)
    run = ground.trial_folder("careless") / RUN
    _, counted = ground.worker.run(ground.evolve(run), run.parent, fault=Fault(str(run)))
    _, second = (n for n, operation in enumerate(counted.operations) if operation == "write meta.json")
    shutil.rmtree(run)
    _, record = ground.worker.run(ground.evolve(run), run.parent, fault=Fault(str(run), second))
    assert write_faults.lost_files(run, record) == ["meta.json was complete before and is no longer"]


def test_another_end_is_noticed(ground):
    run = ground.trial_folder("other") / RUN
    shutil.copytree(ground.whole, run)
    assert different(read_end(run), ground.end) == []
    last = run / "checkpoints" / "00000005.npz"
    with np.load(last) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = next(name for name, values in arrays.items() if values.dtype == np.float32 and values.size)
    arrays[name] = np.nextafter(arrays[name], np.float32(9))
    np.savez(last, **arrays)
    rows = (run / "statistics.jsonl").read_text().splitlines(keepends=True)
    (run / "statistics.jsonl").write_text("".join(rows[:-1]))
    found = different(read_end(run), ground.end)
    assert found == [f"checkpoint: {name} differs", "the statistics differ"]


@pytest.mark.parametrize(
    ("ended", "answer", "fault"),
    [
        (Ended(0, "", 0.0), 1, None),
        (Ended(0, "", 0.0), 2, "another answer, without a word about the file"),
        (Ended(0, "warning: lineage/0.npz: damaged", 0.0), 2, None),
        (Ended(2, "run/lineage/0.npz: damaged", 0.0), None, None),
        (Ended(2, "no", 0.0), None, "refused without naming the file: no"),
        (Ended(1, "oh", 0.0), None, "code 1: oh"),
        (Ended(1, "Traceback (most recent call last):\n  File\nKeyError: 'a'\n", 0.0), None, "KeyError: 'a'"),
    ],
)
def test_answers_about_damaged_files_are_judged(ended, answer, fault):
    assert damage.judge(ended, answer, 1, "lineage/0.npz") == fault


def test_a_signal_that_is_not_heard_is_noticed():
    deaf = Ended(-signal.SIGKILL, "", 60.0)
    assert "not heard" in signals.faults_of_ending(deaf, True, True, "SIGINT")[0]
    assert signals.faults_of_ending(Ended(130, "stopped", 1.0), True, True, "SIGINT") == []
    assert signals.faults_of_ending(Ended(1, "Aborted!", 1.0), True, False, "SIGINT") == ["SIGINT: code 1: Aborted!"]


def test_a_reader_on_many_cores_has_memory_for_its_threads(tmp_path):
    """Each of 64 devices has threads that reserve memory; commands that look for devices used to die of the limit."""
    reader = Reader({"XLA_FLAGS": "--xla_force_host_platform_device_count=64"})
    with contextlib.closing(reader):
        ended = reader.read("command", "none", ["reach", "."], tmp_path)
    assert (ended.code, "folder" in ended.output) == (2, True), ended


# The command


def test_the_same_seed_makes_the_same_trials(ground, monkeypatch):
    def inputs_of(seed):
        made = []
        monkeypatch.setattr(ground.reader, "read", lambda *given: made.append(given[:3]) or Ended(0, "", 0.0))
        try_out(ground, seed, {"fuzz": Tally()}, Budget(trials=32))
        return made

    assert inputs_of(1) == inputs_of(1)
    assert inputs_of(1) != inputs_of(2)


def test_a_budget_of_time_gives_every_kind_a_trial(ground, monkeypatch):
    tried = []
    kind = KINDS["fuzz"]
    for name in KINDS:
        monkeypatch.setitem(KINDS, name, type(kind)("", lambda *_, name=name: tried.append(name) or []))
    try_out(ground, 0, {name: Tally() for name in KINDS}, Budget(until=time.monotonic()))
    assert tried == list(KINDS)


def test_an_experiment_is_made_small(tmp_path):
    experiment, settings = smaller(ROOT / "vsr" / "configs" / "body_and_brain.yaml")
    assert (experiment.generations, experiment.ea.n_pop, len(experiment.seeds)) == (4, 6, 1)
    assert "task.duration=0.5" in settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "kil"], "there is no kind of fault 'kil'; did you mean 'kill'"),
        (["--only", "kill:x"], "write kill, or kill:12 alone"),
        (["none.yaml"], "none.yaml: there is no such file"),
        (["--json", "no/where.json"], "there is no folder no"),
    ],
)
def test_what_cannot_be_tried_is_told(arguments, message, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = CliRunner().invoke(cli.main, ["torture", *arguments])
    assert (result.exit_code, message in result.output) == (2, True), result.output
    assert not list(tmp_path.iterdir())


def test_a_broken_promise_is_reported_with_its_command(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken = type(KINDS["fuzz"])("what is tried", lambda *_: ["it broke"], needs_runs=False)
    monkeypatch.setitem(KINDS, "fuzz", broken)
    target = tmp_path / "figures.json"
    result = CliRunner().invoke(
        cli.main, ["torture", "--only", "fuzz", "--trials", "2", "--seed", "5", "--json", str(target)]
    )
    assert result.exit_code == 1, result.output
    assert "vsr torture --seed 5 --only fuzz:1\n    it broke" in result.output
    figures = json.loads(target.read_text())["faults"]["fuzz"]
    assert (figures["trials"], figures["failed"], figures["failures"][1]["trial"]) == (2, 2, 1)
    again = CliRunner().invoke(cli.main, ["torture", "--only", "fuzz:1", "--seed", "5"])
    assert "fuzz:1 failed: it broke" in again.output


def test_every_command_that_reads_runs_is_tried(ground):
    tried = {reader.arguments[0] for reader in readers(ground, 0)}
    others = {
        "check",
        "list",
        "schema",
        "bench",
        "validate",
        "train",
        "reach",
        "reproduce",
        "sweep",
        "torture",
        "convert",
        "landscape",
    }
    assert tried | others == set(cli.main.commands)


# Promises


def promises():
    """Every heading of the page, with the tests that are named under it."""
    found = {}
    for part in re.split(r"^## ", DOCS.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        found[title] = re.findall(r"`(test_\w+)\.py::(test_\w+)`", text)
    return found


def test_every_promise_names_tests_that_exist():
    held = {title: tests for title, tests in promises().items() if title[:1].isdigit()}
    assert len(held) == 9
    for title, tests in held.items():
        assert tests, f"{title}: no test is named"
        for module, name in tests:
            text = (ROOT / "tests" / f"{module}.py").read_text()
            assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{title}: there is no {module}.py::{name}"

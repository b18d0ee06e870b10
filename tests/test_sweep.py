"""Sweeps: every combination checked, run, and reported; here and through submitit."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner
from conftest import ROOT
from conftest import TINY as SHARED
from hypothesis import given
from hypothesis import strategies as st

import vsr.cli as cli
from vsr.experiments.config import ConfigError, UserError, load_experiment
from vsr.experiments.options import SweepOptions
from vsr.experiments.storage.runs import read_run
from vsr.experiments.storage.statistics import COLUMNS
from vsr.experiments.sweep import folder as folder_module
from vsr.experiments.sweep import launch
from vsr.experiments.sweep.command import plan_sweep
from vsr.experiments.sweep.folder import combine, read_axes, read_jobs, split_values, write_sweep

TINY = """
robot: {body: {shape: aa}, controller: sine}
task: {duration: 0.3, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 7, tournament_size: 2}
generations: 2
checkpoint_seconds: 0
"""

# Stands for `vsr evolve CONFIG --out RUN ...`: leaves a run with as many generations as it has, at once.
QUICK = """
import json, pathlib, struct, sys, time, zlib
config, run = (pathlib.Path(sys.argv[i]) for i in (2, 4))
print("arguments:", sys.argv[5:], flush=True)
if "population_size=9" in run.name and not (run.parent / "fixed").exists():
    sys.exit("it cannot be done")
(run / "checkpoints").mkdir(parents=True, exist_ok=True)
(run / "config.yaml").write_text(config.read_text())
(run / "meta.json").write_text("{}")
best = int(run.name.split("population_size=")[1].split(",")[0]) / 10
columns = COLUMNS
known = {"kind": "statistics", "format": 1, "run": "0" * 64, "measure": "relative_velocity", "direction": "maximize"}
sizes = {"search": "ga", "population_size": 7, "generations": 2, "episode_seconds": 0.3, "seeds": [0]}
header = json.dumps({**known, **sizes, "columns": columns})[:-1].encode()
with (run / "statistics.bin").open("wb") as file:
    file.write(header + b', "crc32": "%08x"}\\n' % zlib.crc32(header))
    for generation in range(2):
        numbers = [best if name in ("best", "confirmed") else 0.0 for name in columns]
        record = struct.pack(f"<{1 + len(columns)}dI", 0.5, *numbers, generation)
        file.write(record + struct.pack("<I", zlib.crc32(record)))
from vsr.arrays import packed
(run / "checkpoints" / "00000002.npz").write_bytes(packed({}, {"generation": 2})[0])
""".replace("COLUMNS", repr(COLUMNS))

# Stands for a run that takes long, saves when it is asked to, and is quick when it goes on.
LONG = """
import pathlib, signal, sys, time
saved = pathlib.Path(sys.argv[4]).parent / "saved"
def save(*_):
    saved.touch()
    print("saved", flush=True)
    sys.exit(130)
signal.signal(signal.SIGTERM, save)
while not saved.exists():
    print("working", flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def tiny(tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    return file


@pytest.fixture
def vsr():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(launch, "COMMAND", [sys.executable, "-c", QUICK])


# what varies

MANY = ",".join(map(str, range(2, 103)))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("50,100", ("50", "100")),
        ("50, 100", ("50", "100")),
        ("[a,b],[c, d]", ("[a,b]", "[c, d]")),
        ("{type: hilly, height: 0.5},flat", ("{type: hilly, height: 0.5}", "flat")),
        ("'a,b',\"c]\"", ("'a,b'", '"c]"')),
        ("1/30,-1.5e-3,~", ("1/30", "-1.5e-3", "~")),
        ("[[a,b],[c,d]]", ("[[a,b],[c,d]]",)),
    ],
)
def test_values_are_split_as_yaml(text, values):
    assert split_values(text) == values


@given(st.lists(st.text("ab019_.+-,", min_size=1, max_size=6), min_size=1, max_size=4).map(",".join))
def test_simple_values_are_split_as_yaml_would(text):
    if folder_module.SIMPLE.fullmatch(text):
        assert tuple(text.split(",")) == folder_module._split_by_yaml(text, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no values"),
        ("a,,b", "not a list of YAML values"),
        ("[a,b", "not a list of YAML values"),
        ("a]", "not a list of YAML values"),
        ("1] # ", "not a list of YAML values"),
        ("100,50,100", "100 is given twice"),
        ("[1,2],[1, 2]", "is given twice"),
    ],
)
def test_values_that_cannot_be_are_reported(text, message):
    with pytest.raises(ValueError, match=message):
        split_values(text)


def test_names_are_safe_readable_and_different():
    def names(*sweeps):
        return [combination.name for combination in combine(read_axes(sweeps, ()))]

    assert names("optimizer.population_size=50,100", "optimizer.sigma=0.1") == [
        "population_size=50,sigma=0.1",
        "population_size=100,sigma=0.1",
    ]
    assert names("world.terrain=flat,{type: hilly}") == ["terrain=flat", "terrain=type-hilly"]
    assert names("a.x=1", "b.x=-1") == ["a.x=1,b.x=-1"]
    assert names("task.path='../../etc; rm *'") == ["path=..-..-etc-rm"]
    assert names("x=[]") == ["x=empty"]
    same = names("x=[a b],[a-b],c")
    assert len(set(same)) == 3
    assert same[2] == "x=c"
    long = names(f"x={'a' * 300}b,{'a' * 300}c")
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 120


def test_every_combination_is_an_experiment(tiny):
    order = SweepOptions(
        str(tiny),
        ("task.duration=1",),
        seeds=3,
        sweeps=("optimizer.population_size=5,6", "robot.body.shape=[aa],[aaa, a.a]"),
    )
    plan = plan_sweep(order)
    assert [(e.optimizer.population_size, e.robot.body.possible.shape) for e in plan.experiments] == [
        (5, (1, 2)), (5, (2, 3)), (6, (1, 2)), (6, (2, 3)),
    ]  # fmt: skip
    assert all(e.task.duration == 1 and e.seeds == (0, 1, 2) for e in plan.experiments)
    plan = plan_sweep(SweepOptions(str(tiny), seed=4, sweeps=("optimizer.population_size=5,6",)))
    assert [e.seeds for e in plan.experiments] == [(4,), (4,)]


def test_all_errors_of_all_combinations_are_reported_and_nothing_is_written(vsr, tiny, tmp_path):
    result = vsr(
        "sweep", tiny, "--sweep", "optimizer.population_size=0,5,-1", "--sweep", "task.lenght=3",
        "--set", "optimizer.sigma=x", "--out", tmp_path / "sweep",
    )  # fmt: skip
    assert result.exit_code == 2
    lines = result.output.splitlines()
    assert len(lines) == 4
    for text in (
        "--sweep optimizer.population_size=0: optimizer.population_size",
        "--sweep optimizer.population_size=-1: optimizer.population_size",
        "--set optimizer.sigma=x: optimizer.sigma",
    ):
        assert any(line.startswith(text) for line in lines)
    assert any("task.lenght: unknown key" in line for line in lines)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--sweep: missing; give values"),
        (["--sweep", "optimizer.population_size"], "--sweep optimizer.population_size: write it as path=value,value"),
        (
            ["--sweep", "optimizer.population_size=5,6", "--sweep", "optimizer.population_size=7"],
            "optimizer.population_size is swept twice",
        ),
        (
            ["--sweep", "optimizer.population_size=5,6", "--set", "optimizer.population_size=7"],
            "optimizer.population_size is set too",
        ),
        (["--sweep", "seeds=1,2", "--seeds", "7"], "seeds is set too"),
        (
            ["--sweep", f"optimizer.population_size={MANY}", "--sweep", f"generations={MANY}"],
            "10201 combinations; at most 10000",
        ),
        (
            ["--sweep", "optimizer.population_size=5", "--seeds", "2", "--seed", "1"],
            "--seeds and --seed: give one of them",
        ),
        (
            ["--sweep", "optimizer.population_size=5", "--slurm", "partition=gpu"],
            "--slurm partition=gpu: only with --executor slurm",
        ),
        (
            ["--sweep", "optimizer.population_size=5", "--executor", "slurm", "--jobs", "2"],
            "--jobs 2: only on this computer",
        ),
        (
            ["--sweep", "optimizer.population_size=5", "--executor", "slurm", "--slurm", "x"],
            "--slurm x: write it as KEY=VALUE",
        ),
        (["--sweep", "optimizer.population_size=5", "--executor", "slurm"], "--executor slurm: there is no srun here"),
        (["--sweep", "optimizer.population_size=5", "--out", "{here}"], "it exists and is not the folder of a sweep"),
    ],
)
def test_what_cannot_be_done_is_reported(vsr, tiny, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setenv("PATH", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    out = () if "--out" in arguments else ("--out", tmp_path / "sweep")
    result = vsr("sweep", tiny, *out, *(argument.format(here=tmp_path) for argument in arguments))
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_package_is_reported(vsr, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    result = vsr(
        "sweep", tiny, "--sweep", "optimizer.population_size=5", "--executor", "slurm", "--out", tmp_path / "sweep"
    )
    assert result.exit_code == 2
    assert "the package submitit is not installed; pip install 'voxel-soft-robots[slurm]'" in result.output
    assert not (tmp_path / "sweep").exists()


# here


@pytest.mark.slow
def test_one_that_fails_stops_no_other_and_resuming_runs_only_what_is_missing(vsr, tiny, tmp_path, quick):
    path = tmp_path / "sweep"
    values = ("--sweep", "optimizer.population_size=8,9,10", "--out", path)
    result = vsr("sweep", tiny, *values, "--jobs", 2, "--device", "cpu")
    assert result.exit_code == 1
    assert "population_size=9: ended with exit code 1 (it cannot be done)" in result.output
    assert "failed with exit code 1" in result.output
    assert f"1 of 3 runs are not finished; to go on: vsr sweep {path} --resume" in result.output
    rows = list(csv.DictReader((path / "summary.csv").open()))
    assert [(row["run"], row["optimizer.population_size"], row["state"], row["final"]) for row in rows] == [
        ("population_size=8", "8", "finished", "0.8"),
        ("population_size=9", "9", "failed with exit code 1", ""),
        ("population_size=10", "10", "finished", "1.0"),
    ]
    assert (path / "fitness.png").read_bytes().startswith(b"\x89PNG")
    assert "'--device', 'cpu'" in (path / "logs" / "population_size=8.txt").read_text()
    assert load_experiment(path / "configs" / "population_size=9.yaml").optimizer.population_size == 9

    result = vsr("sweep", tiny, *values)
    assert result.exit_code == 2
    assert "it already holds a sweep; add --resume" in result.output

    shown = vsr("sweep", path)
    assert shown.exit_code == 0
    assert "not begun" in shown.output

    (path / "fixed").touch()
    before = (path / "logs" / "population_size=8.txt").read_text()
    result = vsr("sweep", path, "--resume")
    assert result.exit_code == 0, result.output
    assert (path / "logs" / "population_size=8.txt").read_text() == before
    assert "population_size=9: finished" in result.output
    assert "population_size=8: " not in result.output

    more = vsr("sweep", tiny, "--sweep", "optimizer.population_size=8,11", "--out", path, "--resume")
    assert more.exit_code == 0, more.output
    assert "population_size=11: begins (1 of 1)" in more.output

    other = vsr("sweep", tiny, *values, "--set", "optimizer.sigma=0.3", "--resume")
    assert other.exit_code == 2
    assert other.output.count("optimizer.sigma: 0.15 in the run, 0.3 now") == 3
    assert "is a sweep, whose values are settled" in vsr("sweep", path, "--resume", "--seeds", 2).output


def test_a_damaged_sweep_is_reported(vsr, tmp_path):
    (tmp_path / "sweep.json").write_text('{"axes": ')
    result = vsr("sweep", tmp_path, "--resume")
    assert result.exit_code == 2
    assert "sweep.json: corrupted" in result.output


@pytest.mark.full
def test_runs_are_real_runs(vsr, tmp_path):
    """The whole way once, with a program that both runs share."""
    shared, path = tmp_path / "shared.yaml", tmp_path / "sweep"
    shared.write_text(SHARED)
    result = vsr("sweep", shared, "--sweep", "generations=1,3", "--set", "seeds=[4, 5]", "--out", path)
    assert result.exit_code == 0, result.output
    runs = [path / f"generations={number}" for number in (1, 3)]
    assert [read_run(run).generations for run in runs] == [1, 3]
    assert read_run(runs[0]).experiment.seeds == (4, 5)
    assert vsr("compare", *runs).exit_code == 0
    assert vsr("plot", *runs, "--out", tmp_path / "curves.png").exit_code == 0
    again = vsr("sweep", path, "--resume")
    assert again.exit_code == 0
    assert "begins" not in again.output


@pytest.mark.slow
def test_ctrl_c_stops_runs_politely_and_begins_no_more(tiny, tmp_path):
    path = tmp_path / "sweep"
    code = (
        "import sys, vsr.cli as cli; from vsr.experiments.sweep import launch; "
        f"launch.COMMAND = [sys.executable, '-c', {LONG!r}]; "
        "sys.argv = ['vsr', *sys.argv[1:]]; cli.main()"
    )
    arguments = ("sweep", tiny, "--sweep", "optimizer.population_size=8,9", "--out", path)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    log = path / "logs" / "population_size=8.txt"
    deadline = time.monotonic() + 60
    while not (log.exists() and "working" in log.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f"stopped: 2 of 2 runs are not finished; to go on: vsr sweep {path} --resume" in output
    assert "saved" in log.read_text()
    assert not (path / "logs" / "population_size=9.txt").exists()


# on a cluster


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A cluster that only takes notes."""
    pytest.importorskip("submitit")
    tools = tmp_path / "tools"
    tools.mkdir()
    scripts = {
        "srun": "exit 1",
        "sbatch": f'cp "$1" {tools}/batch.sh; echo "Submitted batch job 12"',
        "squeue": f"cat {tools}/queue 2>/dev/null",
    }
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return tools


def test_jobs_are_handed_to_slurm_once(vsr, tiny, tmp_path, slurm):
    path = tmp_path / "sweep"
    options = ("--executor", "slurm", "--slurm", "partition=gpu", "--slurm", "gpus_per_node=1")
    result = vsr("sweep", tiny, "--sweep", "optimizer.population_size=8,9", "--out", path, *options)
    assert result.exit_code == 0, result.output
    assert "submitted (job 12_1)" in result.output
    assert f"2 jobs submitted; how they stand: vsr sweep {path}" in result.output
    assert read_jobs(path) == {"population_size=8": "12_0", "population_size=9": "12_1"}
    batch = (slurm / "batch.sh").read_text()
    for line in ("--partition=gpu", "--gpus-per-node=1", "--array=0-1", "--time=1440", "--job-name=vsr"):
        assert f"#SBATCH {line}" in batch
    (slurm / "queue").write_text("12_0 RUNNING\n12_1 PENDING\n")
    shown = vsr("sweep", path)
    assert "running (job 12_0)" in shown.output
    assert "pending (job 12_1)" in shown.output
    assert "0 jobs submitted" in vsr("sweep", path, "--resume", "--executor", "slurm").output
    (slurm / "queue").write_text("12_0 RUNNING\n")
    assert "1 jobs submitted" in vsr("sweep", path, "--resume", "--executor", "slurm").output
    assert read_jobs(path) == {"population_size=8": "12_0", "population_size=9": "12"}


def test_what_slurm_does_not_know_is_reported(vsr, tiny, tmp_path, slurm):
    values = ("--sweep", "optimizer.population_size=8,9", "--out", tmp_path / "sweep", "--executor", "slurm")
    result = vsr("sweep", tiny, *values, "--slurm", "partitoin=gpu")
    assert result.exit_code == 2
    assert "Unavailable parameter(s): ['partitoin']" in result.output
    assert "partition (default: None)" in result.output
    assert not (tmp_path / "sweep").exists()
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'invalid partition specified' >&2; exit 1\n")
    result = vsr("sweep", tiny, *values, "--slurm", "partition=none")
    assert result.exit_code == 2
    assert "the cluster did not take the jobs" in result.output
    assert "invalid partition specified" in result.output
    assert "Traceback" not in result.output


def begun(tiny, path, *values):
    plan = plan_sweep(SweepOptions(str(tiny), sweeps=values, out=str(path)))
    write_sweep(plan, str(tiny))
    return plan


@pytest.mark.slow
def test_submitit_runs_jobs_and_reports_which_failed(tiny, tmp_path, monkeypatch):
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(launch, "COMMAND", [sys.executable, "-c", QUICK])
    plan = begun(tiny, tmp_path / "sweep", "optimizer.population_size=8,9")
    executor = submitit.LocalExecutor(plan.path / "jobs")
    numbers = launch.submit(plan, ["population_size=8", "population_size=9"], executor, ["--device", "cpu"])
    jobs = {name: submitit.LocalJob(plan.path / "jobs", number) for name, number in numbers.items()}
    deadline = time.monotonic() + 60
    while not all(job.paths.result_pickle.exists() for job in jobs.values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert jobs["population_size=8"].exception() is None
    assert "exit code 1; see" in str(jobs["population_size=9"].exception())
    assert plan.unfinished() == ["population_size=9"]
    assert json.loads((plan.path / "jobs.json").read_text()) == numbers


@pytest.mark.full
def test_a_job_out_of_time_saves_and_goes_on(tiny, tmp_path, monkeypatch):
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(launch, "COMMAND", [sys.executable, "-c", LONG])
    plan = begun(tiny, tmp_path / "sweep", "optimizer.population_size=8")
    executor = submitit.LocalExecutor(plan.path / "jobs")
    executor.update_parameters(
        timeout_min=1, signal_delay_s=46
    )  # the warning comes after 14 s, when the job has loaded
    launch.submit(plan, ["population_size=8"], executor, [])
    (pickled,) = [submitit.LocalJob(plan.path / "jobs", number) for number in read_jobs(plan.path).values()]
    deadline = time.monotonic() + 120
    while not pickled.paths.result_pickle.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert pickled.exception() is None
    log = (plan.path / "logs" / "population_size=8.txt").read_text().splitlines()
    assert log[-1] == "saved"
    assert log.count("saved") == 1


def test_faults_of_a_sweep_have_their_own_words(tiny):
    with pytest.raises(
        ConfigError, match=r"--sweep optimizer\.population_size=x: optimizer\.population_size: 'x' given"
    ):
        plan_sweep(SweepOptions(str(tiny), sweeps=("optimizer.population_size=x",)))
    with pytest.raises(UserError, match="--set nothing: write it as path=value"):
        plan_sweep(SweepOptions(str(tiny), ("nothing",), sweeps=("optimizer.population_size=5",)))

"""Benchmarks: what they time, count and draw; never how quick it was."""

import json
from dataclasses import replace
from importlib import import_module

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from PIL import Image

import vsr.cli as cli
from vsr.evidence.bench import SUITES, BenchOptions, archives, environments, growth, planar
from vsr.evidence.bench.benchmark import Benchmark, duration, peak_bytes, without_compilation_cache
from vsr.evidence.bench.command import bench, device_shown
from vsr.evidence.bench.contact import BenchContact
from vsr.evidence.bench.environments import BenchEnvironment
from vsr.evidence.bench.evolve import bipeds
from vsr.evidence.bench.fluid import BenchFluid
from vsr.evidence.bench.growth import LABELS, Series, plot_growth, slope, summarize
from vsr.evidence.bench.lattice import BenchLattice
from vsr.evidence.bench.planar import BenchScene
from vsr.evidence.bench.sand import BenchSand
from vsr.experiments.population import on_all_devices
from vsr.physics.contact.system import STRIDE
from vsr.terrain import Sand

pytestmark = pytest.mark.usefixtures("quickly_compiled")
PAIR = BenchScene("pair", {"shape": "aa"}, 3, seconds=(0.1, 0.1))


@pytest.fixture
def vsr():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


@pytest.mark.slow
def test_times_are_compared_with_those_of_a_file(tmp_path, capsys, vsr):
    target, other = tmp_path / "before.json", replace(PAIR, robots=2)
    bench(BenchOptions("2d", json=str(target), repeats=1), {"2d": [PAIR]})
    report = json.loads(target.read_text())
    report["2d"][0]["median_s"] = 1e9
    target.write_text(json.dumps(report))
    capsys.readouterr()
    bench(BenchOptions("2d", against=str(target), repeats=1), {"2d": [PAIR, other]})
    printed = capsys.readouterr().out
    assert "1e+09 s before" in printed
    assert "0.000 times" in printed
    assert printed.count("compile") >= 2
    assert "not in the earlier file" in printed  # of two robots
    target.write_text("[]")
    refused = vsr("bench", "2d", "--against", target)
    assert refused.exit_code == 2
    assert "before.json" in refused.output


@pytest.mark.slow
def test_scenes_report_what_was_timed(tmp_path, capsys):
    """Figures belong together: more voxels or robots are counted as such."""
    target = tmp_path / "figures.json"
    other = replace(PAIR, name="other", body={"shape": "a"})
    suites = {"2d": [other, PAIR], "3d": [other]}
    bench(BenchOptions("all", scenes=("pair",), repeats=2, json=str(target)), suites)
    report = json.loads(target.read_text())
    assert set(report) == {"machine", "2d", "scenes_left"}  # a scene was named, so nothing else was timed
    assert report["scenes_left"] == 0
    (metrics,) = report["2d"]
    assert (metrics["scene"], metrics["robots"], metrics["voxels"], metrics["substeps"]) == ("pair", 3, 6, 6)
    assert metrics["simulated_s"] == pytest.approx(0.1)
    assert metrics["svsps"] == pytest.approx(6 * 6 / metrics["median_s"])
    assert metrics["spring_updates_per_s"] == pytest.approx(metrics["svsps"] * 6 * 18)
    assert metrics["fastest_s"] <= metrics["median_s"] <= metrics["slowest_s"]
    assert metrics["compile_s"] > 0
    assert metrics["peak_bytes"] > 0
    assert metrics["implementation"] in ("xla", "fused")
    if jax.default_backend() == "cpu":
        assert metrics["svsps_per_core"] == pytest.approx(metrics["svsps"] / jax.device_count())
        assert metrics["implementation"] == "xla"
    printed = capsys.readouterr()
    assert "pair" in printed.out
    assert "3 robots, 0.1 s x 6" in printed.out
    assert metrics["implementation"] in printed.out


class Stopped(Benchmark):
    def measure(self, settings):
        raise KeyboardInterrupt

    def rows(self, metrics):
        raise AssertionError


class Quick(Benchmark):
    def measure(self, settings):
        return {"repeats": settings.repeats}

    def rows(self, metrics):
        return [(self.name, f"{metrics['repeats']} times")]


def test_a_bench_that_is_stopped_leaves_what_it_has_measured(tmp_path, capsys):
    target = tmp_path / "figures.json"
    suites = {"first": [Quick("done"), Stopped("stopped")], "second": [Quick("never")]}
    with pytest.raises(KeyboardInterrupt):
        bench(BenchOptions(repeats=7, json=str(target)), suites)
    report = json.loads(target.read_text())
    assert report["first"] == [{"scene": "done", "repeats": 7}]
    assert report["scenes_left"] == 2
    assert "second" not in report
    printed = capsys.readouterr()
    assert "7 times" in printed.out
    assert "compiling" in printed.err
    assert "stopped" in printed.err  # said before it was compiled
    assert "never" not in printed.err


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_has_scenes_with_names(suite):
    scenes = import_module(f"vsr.evidence.bench.{SUITES[suite]}").SCENES
    assert all(isinstance(scene, Benchmark) and scene.name for scene in scenes)
    assert any(scene.everywhere for scene in scenes)


@pytest.mark.full
def test_lattices_and_3d_robots_are_timed(tmp_path, capsys):
    target = tmp_path / "figures.json"
    lattices = [BenchLattice("bounce-2", 2, steps=(3, 3)), BenchLattice("bounce-2-x2", 2, 2, steps=(3, 3))]
    robot = replace(PAIR, name="cubes", body={"shape": [["aa"]]})
    bench(BenchOptions("3d", repeats=1, json=str(target)), {"3d": [*lattices, robot]})
    *bounced, metrics = json.loads(target.read_text())["3d"]
    for found, springs in zip(bounced, (28, 56), strict=True):
        assert (found["springs"], found["steps"]) == (springs, 3)
        assert found["spring_updates_per_s"] == pytest.approx(springs * 3 / found["median_s"])
    assert (metrics["voxels"], metrics["substeps"]) == (6, 7)
    assert metrics["spring_updates_per_s"] == pytest.approx(metrics["svsps"] * 7 * 28)
    printed = capsys.readouterr().out
    assert "bounce-2-x2" in printed
    assert "cubes" in printed


@pytest.mark.full
def test_growth_is_timed_and_drawn(tmp_path, capsys):
    points = replace(PAIR, robots=1, seconds=(0.2, 0.2)), PAIR
    series = Series("robots", (points, points))
    json_file, plot = tmp_path / "figures.json", tmp_path / "growth.svg"
    bench(BenchOptions("growth", repeats=1, json=str(json_file), plot=str(plot)), {"growth": [series]})
    (metrics,) = json.loads(json_file.read_text())["growth"]
    assert (metrics["over"], metrics["x"]) == ("robots", [1, 3])
    assert metrics["fixed"] == {"voxels": 2, "substeps": 6}
    assert metrics["svsps"] == pytest.approx([2 * 12 / metrics["median_s"][0], 6 * 6 / metrics["median_s"][1]])
    assert metrics["s_per_simulated_s"] == pytest.approx(
        [metrics["median_s"][0] / 0.2, metrics["median_s"][1] / 0.1], rel=1e-6
    )
    printed = capsys.readouterr().out
    assert "growth over robots" in printed
    assert "2 voxels each, 6 substeps" in printed
    assert "<svg" in plot.read_text()


@pytest.mark.parametrize("device", [0, 1])
def test_series_differ_in_one_number_that_grows(device):
    """Every scene that is timed is sound, and all series meet in one."""
    assert [series.name for series in growth.SCENES] == list(LABELS)
    for series in growth.SCENES:
        numbers = []
        for scene in series.scenes[device]:
            experiment = scene.experiment(scene.seconds[0])
            voxels = int(experiment.robot.body.possible.sum())
            numbers.append({"voxels": voxels, "robots": scene.robots, "substeps": experiment.schedule().substeps})
        for name in LABELS:
            values = [number[name] for number in numbers]
            assert values == sorted(set(values)) if name == series.name else len(set(values)) == 1
    first = growth.SCENES[0].scenes[device]
    assert [scene for scene in first if all(scene in series.scenes[device] for series in growth.SCENES)]


def test_scenes_of_the_paper_are_sound():
    for scene in planar.SCENES:
        assert scene.experiment(0.1, "xla").robot.gene_count > 0
    assert bipeds("xla").physics.implementation == "xla"


def made_up(over, x, cost):
    """A series with given costs per simulated second."""
    points = []
    for number, seconds in zip(x, cost, strict=True):
        point = {"robots": 4, "substeps": 6, "simulated_s": 0.5, "implementation": "xla", "repeats": 3}
        point |= {"voxels": 20 * point["robots"]} | {over: number}
        if over == "voxels":
            point["voxels"] *= point["robots"]
        elif over == "robots":
            point["voxels"] = 20 * number
        median = seconds * point["simulated_s"]
        point |= {"median_s": median, "fastest_s": 0.9 * median, "slowest_s": 1.2 * median, "peak_bytes": 1000}
        points.append(point | {"svsps": point["voxels"] * 30 / median})
    return summarize(over, points)


def test_slopes_are_exponents():
    assert slope([1, 2, 4, 8], [3, 6, 12, 24]) == pytest.approx(1)
    assert slope([1, 10], [5, 5]) == pytest.approx(0, abs=1e-12)
    assert slope([1, 3, 9], [2, 18, 162]) == pytest.approx(2)


def test_growth_arithmetic():
    metrics = made_up("voxels", [2, 4, 8, 16], [0.1, 0.1, 0.1, 0.2])
    assert metrics["x"] == [2, 4, 8, 16]
    assert metrics["fixed"] == {"robots": 4, "substeps": 6}
    assert metrics["s_per_simulated_s"] == pytest.approx([0.1, 0.1, 0.1, 0.2])
    assert metrics["s_per_voxel_step"] == pytest.approx([0.1 / (4 * n * 60) for n in (2, 4, 8)] + [0.2 / (64 * 60)])
    assert metrics["slope_at_end"] == pytest.approx(1)
    assert metrics["slope"] == pytest.approx(0.3)  # by hand: deviations -1.5 to 1.5, of which only the last counts
    assert made_up("robots", [1, 2], [0.1, 0.2])["fixed"] == {"voxels": 20, "substeps": 6}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_plots_of_growth(tmp_path, suffix):
    growth = [made_up(name, [2, 8, 32], [0.1, 0.2, 0.7]) for name in LABELS]
    target = tmp_path / f"growth.{suffix}"
    plot_growth(growth, "How cost grows", target)
    assert target.stat().st_size > 5000
    if suffix == "png":
        with Image.open(target) as image:
            assert len(image.convert("RGB").getcolors(1 << 24)) > 50


def test_peak_memory_counts_all_devices():
    """What the compiler reports is one device's share."""
    count = 1024 * jax.device_count()
    everyone = jnp.ones((count, 16))

    def program(function):
        return jax.jit(function).lower(everyone).compile()

    shared = peak_bytes(program(lambda rows: on_all_devices(lambda row: row * 2, rows, 256)))
    alone = peak_bytes(program(lambda rows: rows * 2))
    both_ends = 2 * everyone.nbytes
    assert shared is not None
    assert both_ends <= shared < 3 * both_ends
    assert alone == pytest.approx(both_ends, rel=0.01)


def test_compiling_without_a_cache_leaves_the_stores_as_they_were():
    before = jax.config.jax_enable_compilation_cache
    with without_compilation_cache():
        assert not jax.config.jax_enable_compilation_cache
    assert jax.config.jax_enable_compilation_cache == before


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2.00 s"), (0.2264, "226 ms"), (3.6e-6, "3.60 µs"), (1.234e-8, "12.3 ns")]
)
def test_durations_have_three_digits(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("device", "devices", "text"),
    [
        ("cpu: cpu", 2, "2 CPU cores (Linux x86_64)"),
        ("gpu: NVIDIA H200", 1, "NVIDIA H200"),
        ("gpu: NVIDIA H200", 4, "4 x NVIDIA H200"),
    ],
)
def test_devices_are_named(device, devices, text):
    assert device_shown({"device": device, "devices": devices, "machine": "Linux x86_64"}) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2d", "--scene", "worm-9x4"], "--scene worm-9x4: bench 2d has no such scene; did you mean 'worm-9x3'?"),
        (["growth", "--scene", "worm-9x3"], "bench growth has no such scene; choose from voxels, robots, substeps"),
        (["growth", "--plot", "growth.jpg"], "--plot growth.jpg: the name should end in .png or .pdf or .svg"),
        (["2d", "--plot", "growth.png"], "--plot growth.png: it draws how cost grows, which bench 2d leaves out"),
        (["--scene", "worm-9x3", "--plot", "g.png"], "--plot g.png: it draws how cost grows, which --scene leaves out"),
        (["2d", "--json", "no/such/file.json"], "there is no folder"),
    ],
)
def test_user_errors_are_one_line_and_exit_code_2(vsr, arguments, message):
    result = vsr("bench", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("implementation", ["fused", "fusde"])
def test_an_implementation_that_cannot_run_is_refused(vsr, implementation):
    if implementation == "fused" and jax.default_backend() != "cpu":
        pytest.skip("it can run here")
    result = vsr("bench", "2d", "--implementation", implementation)
    assert result.exit_code == 2
    assert f"'{implementation}'" in result.output
    assert "Traceback" not in result.output


@pytest.mark.full
def test_sand_is_timed(tmp_path):
    tiny = Sand(radius=0.6, depth=1.5, period=14.0, settle=0.5)
    scenes = (BenchSand("bed", 2, tiny, 2, steps=(3, 3)), BenchSand("walk", 2, tiny, steps=(12, 12), robot=("aa",)))
    target = tmp_path / "sand.json"
    bench(BenchOptions("sand", repeats=1, json=str(target)), {"sand": scenes})
    bed, walk = json.loads(target.read_text())["sand"]
    assert bed["grains"] == walk["grains"] == tiny.count(2)
    assert bed["grain_steps_per_s"] == pytest.approx(2 * 3 * bed["grains"] / bed["median_s"])
    assert (bed["worlds"], walk["steps"]) == (2, 12)


def test_fluid_is_timed(tmp_path, capsys):
    scenes = (
        BenchFluid("cavities", 2, 10, detail=1, rounds=(2, 2)),
        BenchFluid("bodies", 3, cells=(1, 2, 2), rounds=(2, 2)),
    )
    target = tmp_path / "fluid.json"
    bench(BenchOptions("fluid", repeats=1, json=str(target)), {"fluid": scenes})
    cavities, bodies = json.loads(target.read_text())["fluid"]
    assert (cavities["faces"], cavities["grid"], cavities["bodies"]) == (80, 10, 2)
    assert (bodies["faces"], bodies["grid"], bodies["bodies"]) == (24, None, 3)
    assert bodies["bodies_per_s"] == pytest.approx(2 * 3 / bodies["median_s"])
    assert bodies["round_s"] == pytest.approx(bodies["median_s"] / 2)
    assert "2 x 80 faces, 10² columns" in capsys.readouterr().out


@pytest.mark.full
def test_contact_is_timed_beside_nothing_to_touch(tmp_path, capsys):
    tiny, target = BenchContact("tiny", ("aa",), "points", robots=(2, 2)), tmp_path / "figures.json"
    bench(BenchOptions("contact", repeats=1, json=str(target)), {"contact": [tiny]})
    (metrics,) = json.loads(target.read_text())["contact"]
    assert metrics["worlds"].keys() == {"nothing", "box", "self", "both"}
    assert metrics["worlds"]["nothing"]["times"] == 1.0
    assert metrics["worlds"]["both"]["substeps"] % STRIDE == 0
    assert "2 robots, both" in capsys.readouterr().out


@pytest.mark.full
def test_environments_are_timed_in_steps(tmp_path, capsys):
    target = tmp_path / "figures.json"
    tiny = BenchEnvironment("tiny", "points", "a", size=1, robots=(3, 3), steps=(2, 2))
    unasked = replace(tiny, name="large", everywhere=jax.default_backend() != "cpu", robots=(10**9, 3))
    bench(BenchOptions("environments", repeats=1, json=str(target)), {"environments": [tiny, unasked]})
    metrics, *_ = json.loads(target.read_text())["environments"]
    assert (metrics["robots"], metrics["steps"], metrics["voxels"]) == (3, 2, 1)
    assert metrics["interval_s"] == pytest.approx(0.055)
    assert metrics["steps_per_s"] == pytest.approx(6 / metrics["median_s"])
    printed = capsys.readouterr().out
    assert "environment steps/s" in printed
    assert {scene.task for scene in environments.SCENES} == {"Walker-v0"}


@pytest.mark.full
def test_archives_are_timed(tmp_path):
    small = ("optimizer.population_size=6", "robot.body.grid=[3, 3]", "robot.body.voxels=3")
    searches = [replace(search, settings=small) for search in archives.SCENES]
    bench(BenchOptions("archives", repeats=2, json=str(tmp_path / "archives.json")), {"archives": searches})
    metrics = json.loads((tmp_path / "archives.json").read_text())["archives"]
    assert [one["scene"] for one in metrics] == ["ga", "three_archives"]
    assert all(one[part]["median_s"] > 0 for one in metrics for part in archives.PARTS)
    assert set(metrics[1]["coverage"]) == {f"{name}.coverage" for name in ("body", "brain", "behavior")}
    assert 0 < metrics[1]["coverage"]["body.coverage"] <= 60 / 1024

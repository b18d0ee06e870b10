"""What is too large for this computer is refused before it is begun, and what is not is estimated."""

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from conftest import TINY
from faults.fuzz import documents

import vsr.cli as cli
from vsr.compute.gpu.language import kernel_call, load, store
from vsr.experiments import memory
from vsr.experiments.config import UserError, parse_experiment, parse_scene
from vsr.experiments.memory import (
    explain_out_of_memory,
    memory_lines,
    needs_of_experiment,
    needs_of_scene,
    needs_of_training,
    require_memory,
)
from vsr.experiments.options import RefineOptions
from vsr.experiments.population import in_parts
from vsr.experiments.refine import refine
from vsr.experiments.run_time import FEW, operations_of, seconds_of

NETWORK = """
robot:
  body: {shape: aa}
  controller: {type: mlp, sensors: [{quantity: area_ratio}], hidden: [100000, 100000]}
"""
GRID = """
robot:
  body: {type: material_grid, grid: [100, 100, 100], engine: points, materials: {a: {}}}
  controller: sine
"""


@pytest.mark.parametrize(
    ("text", "reduce"),
    [
        (NETWORK, "robot.controller.hidden ([100000, 100000]"),
        (GRID, "robot.body.grid ([100, 100, 100], 1,000,000 cells"),
    ],
)
@pytest.mark.parametrize("command", ["check", "evolve"])
def test_what_does_not_fit_is_refused_with_what_to_reduce(command, text, reduce, tmp_path, monkeypatch):
    (tmp_path / "large.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "host_memory", lambda: 16e9)
    result = CliRunner().invoke(cli.main, [command, "large.yaml"])
    assert result.exit_code == 2, result.output
    assert "large.yaml: this needs about" in result.output
    assert "this computer has 16 GB left" in result.output
    assert reduce in result.output.split("; reduce ")[1]
    assert [file.name for file in tmp_path.iterdir()] == ["large.yaml"]


@pytest.mark.parametrize("command", [("verify",), ("evaluate", "--on", "transfer")])
def test_robots_that_do_not_fit_are_refused(command, tmp_path, monkeypatch):
    robot = tmp_path / "robot.yaml"
    robot.write_text(documents("evolved")[0])
    monkeypatch.setattr(memory, "host_memory", lambda: 1e8)
    result = CliRunner().invoke(cli.main, [*command, str(robot)])
    assert result.exit_code == 2, result.output
    assert "this computer has 100 MB left" in result.output


@pytest.mark.slow
def test_check_tells_memory_and_time(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    result = CliRunner().invoke(cli.main, ["check", str(tmp_path / "tiny.yaml")])
    assert result.exit_code == 0, result.output
    for line in ("memory of this computer", "time of a generation", "time of the run"):
        assert f"{line} " in result.output


def test_needs_grow_with_what_is_asked_for():
    def total(*settings):
        needs = needs_of_experiment(parse_experiment(TINY, "f.yaml", settings))
        return sum(need.bytes for need in needs if need.settings)

    assert total("optimizer.population_size=60000") > 2 * total("optimizer.population_size=6000") > 4 * total()
    assert total("checkpoint_seconds=1000", "generations=10000") > 2 * total()
    sand = parse_scene("robot:\n  body: {shape: aa}\nworld: {terrain: sand}\ntask: {duration: 10}\n")
    hard = parse_scene("robot:\n  body: {shape: aa}\ntask: {duration: 10}\n")
    longer = parse_scene("robot:\n  body: {shape: aa}\ntask: {duration: 1000}\n")
    needed = [sum(need.bytes for need in needs_of_scene(scene)) for scene in (hard, longer, sand)]
    assert needed[0] < min(needed[1:])
    with pytest.raises(UserError, match=r"vsr train: .* reduce --grains \(1,000,000\)"):
        require_memory("vsr train", needs_of_training(100_000, 4, 1_000_000))


def test_what_nearly_fits_is_tried(monkeypatch):
    needs = [memory.Need("objects", 1e9, ("objects (many)",))]
    monkeypatch.setattr(memory, "host_memory", lambda: 0.9e9)
    require_memory("f.yaml", needs)
    assert "tight" in memory_lines(needs)[0][1]
    monkeypatch.setattr(memory, "host_memory", lambda: 0.7e9)
    with pytest.raises(
        UserError, match=r"f.yaml: this needs about 1 GB .* 0?700 MB left: 1 GB for objects; reduce objects"
    ):
        require_memory("f.yaml", needs)


def test_memory_that_is_not_there_after_all_is_told():
    needs = [memory.Need("objects", 1e9, ("objects (many)",))]
    message = r"not enough memory for this; reduce objects \(many\); all is saved"
    with pytest.raises(UserError, match=message), explain_out_of_memory(needs, "all is saved"):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")
    with pytest.raises(UserError), explain_out_of_memory(needs):
        raise MemoryError
    with pytest.raises(ValueError, match="other"), explain_out_of_memory(needs):
        raise ValueError("other")


def test_limits_of_a_container_count(tmp_path, monkeypatch):
    (tmp_path / "self").write_text("0::/job/mine\n")
    for folder, most, used in ((tmp_path / "job", "5000", "1000"), (tmp_path / "job" / "mine", "max", "900")):
        folder.mkdir()
        (folder / "memory.max").write_text(most)
        (folder / "memory.current").write_text(used)
    monkeypatch.setattr(memory, "OWN_GROUP", tmp_path / "self")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory.host_memory() == 4000
    monkeypatch.setattr(memory, "OWN_GROUP", tmp_path / "none")
    assert memory.host_memory() > 4000


def test_operations_are_counted_with_loops_and_choices():
    def looped(x):
        return jax.lax.scan(lambda x, _: (x * 2 + 1, None), x, length=50)[0]

    one = operations_of(jax.make_jaxpr(lambda x: x * 2 + 1)(jnp.ones(100)))
    assert one.plain == 200
    assert operations_of(jax.make_jaxpr(looped)(jnp.ones(100))).plain == 50 * one.plain

    def counted(x):
        return jax.lax.while_loop(lambda now: now[0] < 50, lambda now: (now[0] + 1, now[1] * 2 + 1), (0, x))[1]

    assert 50 * one.plain <= operations_of(jax.make_jaxpr(counted)(jnp.ones(100))).plain <= 50 * (one.plain + 3)
    chosen = jax.make_jaxpr(lambda p, x: jax.lax.cond(p, looped, lambda x: x, x))(True, jnp.ones(100))
    assert 50 * one.plain <= operations_of(chosen).plain < 51 * one.plain
    assert seconds_of(one.times(2)) == pytest.approx(2 * seconds_of(one))
    assert seconds_of(one) > 0


def test_kernels_of_few_programs_take_as_long_as_some():
    def program(values, results):
        lane = jnp.arange(32, dtype=jnp.int32)
        store(results.at[lane], 2 * load(values.at[lane]))

    def counted(worlds):
        shapes = [jax.ShapeDtypeStruct((32,), jnp.float32)]
        call = kernel_call(program, programs=1, lanes=32, results=shapes, name="test", interpret=True)
        return operations_of(jax.make_jaxpr(jax.vmap(call))(jnp.ones((worlds, 32)))).in_kernels

    assert counted(1) == counted(FEW) > 0
    assert counted(2 * FEW) == 2 * counted(FEW)


@pytest.mark.parametrize("robots", [10, 50])
def test_robots_in_parts_count_all(robots):
    def heavy(x):
        return jax.lax.scan(lambda x, _: (x * 2 + 1, None), x, length=1000)[0]

    one = operations_of(jax.make_jaxpr(heavy)(1.0))
    all_parts = operations_of(jax.make_jaxpr(lambda x: in_parts(heavy, x, 10))(jnp.ones(robots)))
    assert all_parts.plain == pytest.approx(robots * one.plain, rel=0.05)


def test_grounds_of_too_many_points_are_told():
    with pytest.raises(UserError, match=r"world.terrain: 1e\+08 points are too many; at most 1,000,000"):
        parse_scene("robot:\n  body: {shape: aa}\nworld: {terrain: {type: hilly, length: 1.0e+7, width: 0.1}}\n")


SANDY = """
robot: {body: {shape: aa}}
world: {terrain: {type: sand, radius: 0.4, depth: 2, period: 24}}
task: {duration: 0.1}
"""


@pytest.fixture
def no_bed(monkeypatch, tmp_path):
    """Beds are not kept, and must not be built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("vsr.physics.granular.bed._settled", None)  # cannot be called


@pytest.mark.parametrize("command", ["check", "evolve", "simulate", "refine"])
def test_sand_that_does_not_fit_is_refused_before_it_is_built(command, no_bed, tmp_path, monkeypatch):
    file = tmp_path / "sandy.yaml"
    large = SANDY.replace("period: 24", "period: 100000")
    file.write_text(large.replace("shape: aa}", "shape: aa}, controller: sine") if command == "evolve" else large)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "host_memory", lambda: 1e9)
    result = CliRunner().invoke(cli.main, [command, "sandy.yaml"])
    assert result.exit_code == 2, result.output
    assert "this needs about" in result.output
    reduced = result.output.split("; reduce ")[1]
    assert "world.terrain.period (100000 m)" in reduced
    assert "world.terrain.depth (2 m)" in reduced
    assert "world.terrain.radius (0.4 m)" in reduced
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", ["check", "simulate", "refine"])
def test_sand_that_settles_for_hours_is_refused_at_once(command, no_bed, tmp_path):
    (tmp_path / "deep.yaml").write_text(SANDY.replace("depth: 2", "depth: 3000"))
    result = CliRunner().invoke(cli.main, [command, str(tmp_path / "deep.yaml")])
    assert result.exit_code == 2, result.output
    assert "a bed of 117,472 grains takes about" in result.output
    assert "world.terrain.depth (3000 m)" in result.output


def test_how_long_a_bed_settles_is_said_beforehand(no_bed, capsys):
    require_memory("deep.yaml", needs_of_scene(parse_scene(SANDY.replace("depth: 2", "depth: 200"))))
    assert "settling a bed of 7,840 grains, about" in capsys.readouterr().err
    require_memory("shallow.yaml", needs_of_scene(parse_scene(SANDY)))
    assert not capsys.readouterr().err


@pytest.mark.parametrize("trials", [10_000_000, 99_999_999_999_999])
def test_more_starts_than_fit_are_refused(trials, tmp_path, monkeypatch):
    (tmp_path / "walk.yaml").write_text("robot: {body: {shape: aa}}\ntask: {duration: 0.1}\n")
    monkeypatch.setattr(memory, "host_memory", lambda: 16e9)
    options = RefineOptions((str(tmp_path / "walk.yaml"),), (1,), trials, None, None, None)
    with pytest.raises(UserError, match=rf"vsr refine: this needs about .* reduce --trials \({trials:,}\)"):
        refine(options)

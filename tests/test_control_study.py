"""The study of sensing against pace: a frequency that evolves, a limit to the rate of control, the study's files."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

import vsr
from vsr.controllers import MLP
from vsr.episode import record, reset, rollout, scenario_of
from vsr.experiments.check import check_file
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.study import SHIPPED, find_studies
from vsr.physics.engine import assemble_body, engine_of
from vsr.scene import Physics, Scene, simulate
from vsr.sensors import Sensor
from vsr.world.schedule import Schedule
from vsr.world.spec import Robot, World

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KEY = jax.random.key(0)
BODY = vsr.Body(engine="points", shape=("aa",))
ONE = vsr.Body(engine="points", shape=("a",))
SENSORS = (Sensor(quantity="area_ratio"), Sensor(quantity="velocity_y"))


# A frequency that evolves


def phases(controller="sine", **options):
    return EvolvedRobot.model_validate({"body": {"shape": ["aa", "a."]}, "controller": {"type": controller, **options}})


def with_last(robot, gene):
    """Genes of a random individual whose last gene is given."""
    genes = jax.tree.map(lambda leaf: leaf[0], robot.sample(KEY, 1))
    return {**genes, "controller": genes["controller"].at[-1].set(gene)}


@pytest.mark.parametrize(("controller", "per_voxel"), [("sine", 1), ("development", 3)])
def test_an_evolved_frequency_is_one_more_gene(controller, per_voxel):
    assert phases(controller).gene_count == 3 * per_voxel
    assert phases(controller, frequencies=[0.2, 7.5]).gene_count == 3 * per_voxel + 1
    with pytest.raises(ValidationError, match="the smaller first"):
        phases(controller, frequencies=[7.5, 0.2])


def test_the_gene_of_the_frequency_stays_in_its_range():
    """The initial range is that of the frequencies, evenly; what mutation takes beyond it counts as its ends."""
    robot = phases(frequencies=[0.5, 6.5], initial=[-3, 3])
    build = jax.jit(lambda genes: robot.build(genes, 20.0)[1].frequency)
    for gene, expected in ((-9, 0.5), (-3, 0.5), (-1.5, 2.0), (0, 3.5), (3, 6.5), (3.1, 6.5), (1e6, 6.5)):
        frequency = np.asarray(build(with_last(robot, gene)))
        np.testing.assert_allclose(frequency, np.full((2, 2), expected), rtol=1e-6)
        assert frequency.min() >= 0.5
        assert frequency.max() <= 6.5


@pytest.mark.parametrize("controller", ["sine", "development"])
def test_the_described_sine_is_the_evolved_one(controller):
    robot = phases(controller, frequencies=[0.2, 7.5])
    genes = with_last(robot, 0.7)
    model, built = jax.jit(lambda genes: robot.build(genes, 20.0))(genes)
    described = robot.describe(jax.tree.map(np.asarray, genes), 20.0)
    assert described.controller.type == {"sine": "sine"}.get(controller, controller)
    assert 0.2 < described.controller.frequency < 7.5
    own = described.controller.build(described.body)
    for time in (0.3, 7.2):
        values = [controller.control(jnp.float32(time), None) * model.present for controller in (built, own)]
        np.testing.assert_allclose(*values, atol=5e-5)
        assert np.abs(values[0]).max() > 0.01


# A limit to the rate of control


def limited_scene(limit):
    count = MLP(sensors=SENSORS, weights=()).weight_count(BODY)
    weights = tuple(np.random.default_rng(1).uniform(-4, 4, count).tolist())
    return Scene(
        robot=Robot(body=BODY, controller=MLP(sensors=SENSORS, weights=weights, rate_limit=limit)),
        task=vsr.Locomotion(duration=1.02),
        physics=Physics(time_step=1 / 60, control_every=2, substeps=4),
    )


@pytest.fixture(scope="module")
def recorded():
    """Summary and trajectory under a limit."""
    scenario, _ = limited_scene(None).build()
    run = jax.jit(lambda scenario, controller: record(scenario, controller, reset(KEY, scenario)))
    return lambda limit: run(scenario, limited_scene(limit).robot.controller.build(BODY))


@pytest.mark.slow
def test_control_values_change_no_faster_than_the_limit(recorded):
    control = np.asarray(recorded(3.0)[1].control)
    change = np.abs(np.diff(control, axis=0))
    assert change.max() <= 3.0 / 30 + 1e-6
    assert (change > 3.0 / 30 - 1e-6).any(), "it is reached"
    assert np.abs(np.diff(recorded(None)[1].control, axis=0)).max() > 3.0 / 30


def test_a_limit_that_is_never_reached_changes_nothing(recorded):
    for wide, free in zip(*map(jax.tree.leaves, (recorded(1000.0), recorded(None))), strict=True):
        np.testing.assert_allclose(wide, free, atol=1e-4)


@pytest.mark.slow
def test_rollout_record_and_simulate_keep_the_limit_alike(recorded):
    scenario, controller = limited_scene(3.0).build()
    whole = rolled_out(scenario, controller)
    assert float(whole.mean_squared_control) == pytest.approx(float(recorded(3.0)[0].mean_squared_control), rel=1e-4)
    np.testing.assert_allclose(whole.end, recorded(3.0)[0].end, atol=1e-4)
    measures = simulate(limited_scene(3.0)).measures
    assert measures["average_squared_control"] == pytest.approx(float(whole.mean_squared_control), rel=1e-4)


@jax.jit
def rolled_out(scenario, controller):
    return rollout(scenario, controller, reset(KEY, scenario))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Full:
    """All voxels at 1, without sensors."""

    rate_limit: jax.Array
    sensors = ()

    def control(self, time, readings):
        return jnp.ones(ONE.cells.shape, self.rate_limit.dtype)


def test_the_limit_holds_without_senses(monkeypatch):
    """Also where controls of many calls could be given at once: a ramp, then what was decided."""
    model = assemble_body(ONE)
    monkeypatch.setattr(type(engine_of(model).kernel), "takes_many_controls", lambda *_: True)
    scenario = scenario_of(model, World().build(), Schedule(duration=8 / 60, substeps=1))
    summary = rolled_out(scenario, Full(jnp.float32(9.0)))
    assert float(summary.mean_squared_control) == pytest.approx(np.mean([0.3**2, 0.6**2, 0.9**2, 1.0]), rel=1e-5)


@pytest.mark.parametrize("limit", [0, -1, "fast"])
def test_a_limit_is_positive(limit):
    with pytest.raises(ValidationError, match="rate_limit"):
        limited_scene(limit)


def test_the_limit_is_kept_in_files():
    robot = EvolvedRobot.model_validate(
        {
            "body": {"shape": "aa"},
            "controller": {"type": "mlp", "sensors": [{"quantity": "area_ratio"}], "rate_limit": 4.0},
        }
    )
    genes = np.zeros(robot.gene_count, np.float32)
    built = robot.controller.build(jnp.asarray(genes), BODY.cells, robot.body, 20.0)
    assert float(built.rate_limit) == 4.0
    assert robot.controller.describe(genes, BODY.cells, robot.body, 20.0).rate_limit == 4.0


# The study; tests/test_studies.py traces all of it


@pytest.mark.parametrize(("name", "genes"), [("biped_frequency", 7), ("biped_limited", 228)])
@pytest.mark.slow
def test_new_experiments_are_sound(name, genes):
    checked = dict(check_file(str(SHIPPED / "control" / f"{name}.yaml")))
    assert checked["genes"] == f"0 for the body, {genes} for the controller"
    assert checked["control"] == "every 0.06667 s"


def test_pairs_differ_in_sensing_alone_and_from_each_other_in_ground_and_friction():
    (study,), (sensing,) = find_studies("control"), find_studies("sensing")
    found = {name: study.experiment(name) for name in study.study.experiments}
    for body, ground in itertools.product(("worm", "biped", "tripod"), ("", "_low", "_low_rough")):
        blind, feeling = (found[f"{body}_{kind}{ground}"] for kind in ("frequency", "sensors"))
        expected = [sensing.experiment(f"{body}_{kind}").robot.controller for kind in ("phases", "sensing")]
        assert blind.robot.controller == expected[0].model_copy(update={"frequencies": (0.2, 7.5)})
        assert feeling.robot.controller == expected[1]
        assert feeling.model_copy(update={"robot": blind.robot}) == blind
        assert feeling.robot.body == blind.robot.body
        assert (blind.evaluation.trials, blind.evaluation.jitter.frequency) == (3, 0.05)
        assert blind.task.type == ("fresh_ground" if "rough" in ground else "locomotion")
        (material,) = blind.robot.body.materials.values()
        combined = (material.friction * blind.world.terrain.friction) ** 0.5
        assert combined == pytest.approx(1 if ground else 4.472, abs=1e-3)
    assert found["biped_limited"].robot.controller.rate_limit == 4.0
    assert found["biped_1hz"].robot == sensing.experiment("biped_phases").robot
    assert len(found) == 20
    full = {study.experiment(name, study.scale("full").settings(name)).seeds for name in found}
    assert full == {tuple(range(1000, 1020))}, "no seed that anything was chosen with"
    claims = {
        claim.family: [one for one in study.study.claims if one.family == claim.family] for claim in study.study.claims
    }
    assert {family: len(own) for family, own in claims.items()} == {"rough": 3, "flat": 6, "pace": 2}
    assert all(claim.needs == (claim.than.replace("frequency", "sensors"), claim.than) for claim in claims["rough"])


def test_all_studies_are_those_of_the_paper():
    assert [file.name for file in find_studies("all")] == ["body", "devo", "sensing"]

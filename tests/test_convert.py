"""`vsr convert`: robots of EvoGym and of VoxCad."""

import base64
import zlib

import jax
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.controllers import decide
from vsr.controllers.policy import pack, policy_count
from vsr.episode import observe_task, reset
from vsr.experiments.config import load_scene
from vsr.experiments.convert.evogym_files import all_connections
from vsr.robot import KINDS

STRUCTURE = np.array([[0, 3, 4], [1, 2, 0], [1, 0, 0]])


def converted(*arguments, code=0):
    result = CliRunner().invoke(cli.main, ["convert", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def test_a_robot_goes_to_yaml_and_comes_back(tmp_path):
    source, ours, back = tmp_path / "robot.npz", tmp_path / "robot.yaml", tmp_path / "back.npz"
    np.savez(source, STRUCTURE.astype(float), all_connections(STRUCTURE))
    assert "not carried over" not in converted(source, ours)
    scene = load_scene(ours)
    assert scene.robot.body.shape == (".hv", "rs.", "r..")
    assert (scene.robot.body.engine, scene.task.type) == ("evogym", "Walker-v0")
    converted(ours, back)
    with np.load(back) as file:
        assert np.array_equal(file["arr_0"], STRUCTURE)
        assert np.array_equal(file["arr_1"], [[1, 1, 3, 3], [2, 4, 4, 6]])


def test_a_robot_of_points_keeps_its_kinds(tmp_path):
    source, ours, back = tmp_path / "robot.npz", tmp_path / "robot.yaml", tmp_path / "back.npz"
    np.savez(source, STRUCTURE, all_connections(STRUCTURE)[:, 1:])
    said = converted(source, ours, "--engine", "points", "--task", "UpStepper-v0")
    assert "1 pairs of neighbors are not connected" in said
    assert load_scene(ours).robot.body.materials["h"].actuation == "horizontal"
    converted(ours, back)
    with np.load(back) as file:
        assert np.array_equal(file["arr_0"], STRUCTURE)


MOVED = """
robot:
  body: {shape: [hhv, v.r], engine: evogym}
  controller: CONTROLLER
task: TASK
"""
SINE = "{type: sine, frequency: 11.0, phase: [[0.1, 0.2, 0.3], [0.4, null, 0.0]]}"


def moved(tmp_path, controller=SINE, task="Walker-v0"):
    path = tmp_path / "robot.yaml"
    path.write_text(MOVED.replace("CONTROLLER", controller).replace("TASK", task))
    return path


def test_a_robot_moves_to_another_physics_and_back(tmp_path):
    """Its voxels are the same kinds there, and in every control step it has the same control values."""
    source, other, back = moved(tmp_path), tmp_path / "other.yaml", tmp_path / "back.yaml"
    converted(source, other, "--engine", "points")
    converted(other, back, "--engine", "evogym")
    scenes = [load_scene(path) for path in (source, other, back)]
    first, second, third = (scene.robot for scene in scenes)
    assert second.body.shape == first.body.shape
    assert {symbol: second.body.materials[symbol] for symbol in "hrv"} == {s: KINDS["points"][s] for s in "hrv"}
    assert third.body == first.body
    assert third.controller.frequency == pytest.approx(11.0, rel=1e-12)
    controls, seen = [], []
    for scene in scenes[:2]:
        scenario, controller = scene.build()
        times = scenario.schedule.interval * np.arange(1, 6)
        controls.append([decide(controller, None, time, None)[0] for time in times])
        seen.append(observe_task(scenario, reset(jax.random.key(0), scenario))[0])
        assert scenario.limit == 500
    short = tmp_path / "short.yaml"
    moved(tmp_path, task="{type: Walker-v0, duration: 0.06}")
    converted(source, short, "--engine", "points")
    assert load_scene(short).build()[0].limit == 20
    there = scenes[0].build()[0].model.present > 0
    np.testing.assert_allclose(*(np.array(values)[:, there] for values in controls), atol=1e-5)
    assert np.ptp(np.array(controls[0])[:, there], axis=0).min() > 0.1
    np.testing.assert_allclose(*seen, atol=1e-6)


@pytest.mark.parametrize(
    ("engine", "controller", "task", "said"),
    [
        ("evogym", SINE, "Walker-v0", "is of this engine already"),
        ("points", SINE, "locomotion", "task locomotion is none of EvoGym's"),
        ("points", SINE, "BridgeWalker-v0", "which only `engine: evogym` knows"),
        ("points", "{type: policy, weights: WEIGHTS, sensors: [area_ratio]}", "Walker-v0", "reads sensors"),
    ],
)
def test_what_cannot_move_to_another_physics_is_explained(tmp_path, engine, controller, task, said):
    weights = policy_count(6, (64, 64), 6)
    controller = controller.replace("WEIGHTS", pack(np.zeros(weights, np.float32)))
    source, target = moved(tmp_path, controller, task), tmp_path / "other.yaml"
    assert said in converted(source, target, "--engine", engine, code=2)
    assert not target.exists()


@pytest.mark.parametrize(
    ("structure", "said"),
    [
        (np.array([[5, 3]]), "fixed"),
        (np.array([[7, 3]]), "kind 7 is not known"),
        (np.zeros((2, 2)), "no voxel"),
        (np.array([[0.5, 3]]), "whole numbers"),
        (np.array([3, 3]), "rows and columns"),
    ],
)
def test_what_is_no_robot_is_refused_and_nothing_is_written(tmp_path, structure, said):
    source, ours = tmp_path / "robot.npz", tmp_path / "robot.yaml"
    np.savez(source, structure)
    assert said in converted(source, ours, code=2)
    assert not ours.exists()


def test_other_mistakes_are_explained(tmp_path):
    source = tmp_path / "robot.npz"
    np.savez(source, STRUCTURE)
    assert "should end in .yaml" in converted(source, tmp_path / "robot.txt", code=2)
    assert "should end in .npz" in converted(tmp_path / "robot.png", tmp_path / "robot.yaml", code=2)
    assert "no such file" in converted(tmp_path / "none.npz", tmp_path / "robot.yaml", code=2)
    ours = tmp_path / "paper.yaml"
    ours.write_text("robot: {body: {shape: [aa]}}\n")
    assert "none of EvoGym's kinds" in converted(ours, tmp_path / "out.npz", code=2)
    assert "did you mean 'Walker-v0'" in converted(source, tmp_path / "r.yaml", "--task", "Walker-v1", code=2)


VXA = """<?xml version="1.0"?>
<VXA Version="1.1">
  <Environment>
    <Gravity><GravEnabled>1</GravEnabled><GravAcc>-9.81</GravAcc></Gravity>
    <Thermal><TempEnabled>1</TempEnabled><VaryTempEnabled>1</VaryTempEnabled><TempAmp>20</TempAmp>
    <TempPeriod>0.25</TempPeriod></Thermal>
    <Friction_Model>coulomb</Friction_Model>
  </Environment>
  <VXC>
    <Lattice><Lattice_Dim>0.01</Lattice_Dim></Lattice>
    <Palette>
      <Material ID="1"><Name>Active+</Name><Mechanical><Elastic_Mod>1e+07</Elastic_Mod><Density>1e+06</Density>
      <Poissons_Ratio>0.35</Poissons_Ratio><CTE>0.01</CTE><uDynamic>0.5</uDynamic></Mechanical></Material>
      <Material ID="3"><Name>Bone</Name><Mechanical><Elastic_Mod>5e+08</Elastic_Mod><Density>1e+06</Density>
      </Mechanical></Material>
      <Material ID="4"><Name>Active-</Name><Mechanical><Elastic_Mod>1e+07</Elastic_Mod><CTE>-0.01</CTE></Mechanical>
      </Material>
    </Palette>
    <Structure Compression="{how}">
      <X_Voxels>3</X_Voxels><Y_Voxels>2</Y_Voxels><Z_Voxels>2</Z_Voxels>
      <Data>{data}</Data>
    </Structure>
  </VXC>
</VXA>
"""
LAYERS = ("134000", "033011")


@pytest.mark.parametrize("how", ["ASCII_READABLE", "BASE64", "ZLIB"])
def test_a_robot_of_voxcad(tmp_path, how):
    def packed(layer):
        raw = bytes(int(one) for one in layer)
        packing = {"ASCII_READABLE": lambda: layer, "BASE64": lambda: base64.b64encode(raw).decode()}
        return packing.get(how, lambda: base64.b64encode(zlib.compress(raw)).decode())()

    source, ours = tmp_path / "robot.vxa", tmp_path / "robot.yaml"
    data = "".join(f"<Layer><![CDATA[{packed(layer)}]]></Layer>" for layer in LAYERS)
    source.write_text(VXA.format(how=how, data=data))
    said = converted(source, ours)
    for lost in ("Poissons_Ratio = 0.35", "Friction_Model = coulomb"):
        assert f"not carried over: {lost}" in said
    scene = load_scene(ours)
    body = scene.robot.body
    # The upper layer first, as seen from above: the row of the larger y first.
    assert body.shape == ((".aa", ".bb"), ("...", "abc"))
    assert body.voxel_side == 0.01
    assert body.materials["b"].actuation == "none"
    assert body.materials["b"].young_modulus == 5e8
    assert body.materials["a"].max_area_change == pytest.approx(1.2**3 - 1, abs=1e-5)
    assert scene.robot.controller.frequency == 4
    phases = scene.robot.controller.phase
    assert phases[1][1] == (pytest.approx(np.pi), pytest.approx(0), pytest.approx(0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("<X_Voxels>3", "<X_Voxels>4"), "every layer needs 4 x 2"),
        (("<Z_Voxels>2", "<Z_Voxels>3"), "2 layers of voxels given"),
        (("<Lattice_Dim>0.01", "<Lattice_Dim>x"), "should be a number"),
        (("</VXA>", ""), "not XML"),
        (("ASCII_READABLE", "RLE"), "'RLE' is not known"),
        (("Structure", "Shape"), "no <Structure>"),
    ],
)
def test_broken_files_of_voxcad_are_explained(tmp_path, change, said):
    source = tmp_path / "robot.vxa"
    data = "".join(f"<Layer>{layer}</Layer>" for layer in LAYERS)
    source.write_text(VXA.format(how="ASCII_READABLE", data=data).replace(*change))
    assert said in converted(source, tmp_path / "robot.yaml", code=2)

"""EvoGym's physics beside traces of EvoGym, its first contact on the lattice, and rigid edges one after the other."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_evogym import ENGINE, body_of

from vsr.environment import Environment
from vsr.evidence.validate import evogym
from vsr.evidence.validate.evogym import (
    CLOSE,
    NOISE,
    OBSERVATION,
    REWARD,
    SHIPPED,
    STORED,
    compared,
    findings_of,
    runs_of,
)
from vsr.physics.engine import assemble_body
from vsr.physics.evogym import EvogymObject, GroundCells, law, springs
from vsr.physics.evogym.first import HALF, STEPS, Beginning, Piece, first_contacts
from vsr.physics.evogym.kernel import waves
from vsr.physics.evogym.model import edge_bits, joint, outer_edges
from vsr.scene import precision
from vsr.tasks.evogym.furnishing import beginning_of
from vsr.tasks.evogym.seen import part_of
from vsr.tasks.evogym.table import ROWS
from vsr.tasks.evogym.task import floor

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def at_nodes(table, present):
    """Forces of a robot's table on its nodes, in contacts' forces at depth 0, (rows + 1, columns + 1, 2)."""
    edges = np.asarray(edge_bits(outer_edges(jnp.asarray(present))))
    rows, columns = np.indices(present.shape)
    return added_up(np.where(present[..., None], np.moveaxis(table, 1, 0)[:, edges, rows, columns], 0))


def added_up(corners):
    """Forces on corners, (4, rows, columns, 2), in contacts' forces at depth 0, on nodes."""
    _, rows, columns, _ = corners.shape
    total = np.zeros((rows + 1, columns + 1, 2))
    for force, (up, right) in zip(corners, STEPS, strict=True):
        total[up : up + rows, right : right + columns] += force / 2
    return total


def test_a_block_on_flat_ground_gets_evogyms_first_forces():
    """Counted in EvoGym: 3, 7, 7 and 3 upward forces of 10,500 on the lowest nodes, one sideways at either end."""
    ground = Piece.of(0, 0, np.ones((1, 100), bool))
    first = first_contacts(Beginning((1, 1), (ground,), ()), 3, 3)
    found = at_nodes(first.robot, np.ones((3, 3), bool))
    assert found[0, :, 1].tolist() == [3, 7, 7, 3]
    assert found[0, :, 0].tolist() == [1, 0, 0, -1]
    assert pytest.approx(10_500) == 2 * HALF


def test_the_last_bit_decides_who_touches():
    """Climber's floor is 3.6e-16 lower than its robots, DownStepper's a voxel; Lifter's package touches the robot."""
    for task, touches in (("Walker-v0", True), ("DownStepper-v0", False), ("Pusher-v0", True)):
        first = first_contacts(beginning_of(task), 5, 5)
        assert (np.abs(first.robot[..., 1]).max() > 0) == touches
    climber = at_nodes(first_contacts(beginning_of("Climber-v0"), 5, 5).robot, np.ones((5, 5), bool))
    assert np.abs(climber[..., 1]).max() == 0
    assert climber[..., 0].min() >= 0  # the left wall is at the same double as the robot, the right one beyond
    assert first_contacts(beginning_of("Carrier-v0"), 5, 5).objects_by_robot == (None,)  # 1.1e-16 above the robot
    lifter = first_contacts(beginning_of("Lifter-v0"), 5, 5)
    assert lifter.objects_by_robot[0] is not None
    assert not lifter.objects_by_robot[0][:, 1:].any()  # only the lowest row of a robot reaches the package
    assert first_contacts(beginning_of("Catcher-v0"), 5, 5).objects == (None, None, None)
    assert first_contacts(beginning_of("BeamSlider-v0"), 5, 5).landings == (None,)  # it lies on pegs


def test_objects_land_on_the_lattice_as_in_evogym():
    """Counted in EvoGym: in the second substep of Pusher, and in the 428th of Catcher on the end of a peg, where the
    last bit of x, which the random shift decides, says whether a corner is beside the peg or above it."""
    (pusher,) = first_contacts(beginning_of("Pusher-v0"), 5, 5).landings
    assert pusher is not None
    assert pusher.after == 1
    found = added_up(pusher.force[0])
    assert found[0, :, 0] == pytest.approx([1, 0, 0, -1])
    assert found[0, :, 1] == pytest.approx([3.00055, 7.00128, 7.00128, 3.00055], abs=1e-5)
    assert found[1, :, 0] == pytest.approx([1, 0, 0, -1])
    package, *pegs = first_contacts(beginning_of("Catcher-v0"), 5, 5).landings
    assert package is not None
    assert pegs == [None, None]
    assert (package.after, package.shift, len(package.force)) == (427, -6, 11)
    counted = {-4: [(1, 2.725235), (0, 0.545047), (0, 0), (0, 0)], -2: [(0, 1.635141), (2, 2.160151), (0, 0.545047)]}
    for shift, lowest in counted.items():
        found = added_up(package.force[shift - package.shift])
        assert found[0, : len(lowest)] == pytest.approx(np.array(lowest), abs=1e-6)


@pytest.mark.parametrize("task", sorted(ROWS))
def test_every_task_has_a_first_contact_for_any_grid(task):
    for rows, columns in ((5, 5), (1, 2)):
        first = first_contacts(beginning_of(task), rows, columns)
        assert first.robot.shape == (16, 4, rows, columns, 2)
        assert np.array_equal(first.robot, np.round(first.robot))
        assert not first.robot[0].any()  # a voxel without outer edges touches nothing


def test_edges_of_a_rigid_voxel_are_pulled_back_one_after_the_other():
    """Against a plain loop over its edges: top, right, bottom, left."""
    random = np.random.default_rng(2)
    corner = np.array([[0.0, 0.1, 0.0, 0.1], [0.0, 0.0, 0.1, 0.1]]) + random.normal(0, 0.008, (2, 4))
    expected = corner.T.copy()
    for a, b in ((2, 3), (3, 1), (1, 0), (0, 2)):
        along = expected[a] - expected[b]
        length = np.hypot(*along)
        excess = max(length - 0.103, 0) + min(length - 0.097, 0)
        expected[a] -= 0.25 * excess / length * along
        expected[b] += 0.25 * excess / length * along
    found = springs.within_rigid_limits(jnp.asarray(0.1), jnp.ones(4), tuple(jnp.asarray(corner)))
    assert np.asarray(found) == pytest.approx(expected.T, abs=1e-8)
    assert np.abs(expected.T - corner).max() > 1e-3
    clamped = springs.within_rigid_limits(jnp.asarray(0.1), jnp.zeros(4), tuple(jnp.asarray(corner)))
    assert np.asarray(clamped) == pytest.approx(corner, abs=1e-8)


def test_waves_of_the_kernel_keep_the_order_of_voxels_that_share_a_node():
    models = tuple(assemble_body(body_of(*rows)) for rows in (("rrrr", "rrrr", "rrrr"), ("rr", "rr")))
    bodies = joint(models, ())
    wave, owner = np.asarray(waves(bodies)), bodies.owner
    assert wave[:, :4].min() == 0
    assert wave[:, :4].max() == 2 * 2 + 3
    check_order(wave, owner)


def test_few_rigid_voxels_need_few_waves():
    models = tuple(assemble_body(body_of(*rows)) for rows in (("rhrhr", "hhhhr", "rrhhh", "h.rhr"), ("hr", "rh")))
    bodies = joint(models, ())
    wave = np.asarray(waves(bodies))
    assert ((wave >= 0) == np.asarray(bodies.rigid > 0)).all()
    assert wave.max() == 2  # of the three that touch in a row
    check_order(wave, bodies.owner)


def check_order(wave, owner):
    """Of rigid cells of one owner."""
    rows, columns = owner.shape
    order = [(row, column) for row in range(rows - 1, -1, -1) for column in range(columns) if wave[row, column] >= 0]
    for place, (row, column) in enumerate(order):
        for later_row, later_column in order[place + 1 :]:
            near = abs(row - later_row) <= 1 and abs(column - later_column) <= 1
            if near and owner[row, column] == owner[later_row, later_column]:
                assert wave[row, column] < wave[later_row, later_column]


def test_a_corner_of_the_ground_between_two_columns_is_in_neither():
    corners = np.zeros((3, 12), bool)
    corners[1] = True
    part = part_of(jnp.array([[0.55, 0.3]]), jnp.zeros((1, 2)), jnp.array([True]))
    assert np.asarray(floor(part, corners, 1)) == pytest.approx([0.5] * 3)
    beside = part_of(jnp.array([[0.551, 0.3]]), jnp.zeros((1, 2)), jnp.array([True]))
    assert np.asarray(floor(beside, corners, 1)) == pytest.approx([0.2] * 3)


def test_traces_of_all_tasks_but_those_without_any_are_shipped():
    tasks = {path.stem for path in SHIPPED.glob("*.npz")}
    assert len(tasks) == 16
    assert tasks <= set(ROWS)
    assert [run.done[-1] for run in runs_of(SHIPPED / "DownStepper-v0.npz")] == [False, False, True, True]
    for run in runs_of(SHIPPED / "Carrier-v0.npz", 3):
        assert run.robot.shape == (4, len(run.robot[0]), 2)
        assert run.object is not None
        assert len(run.reward) == len(run.done) == len(run.target) == 3


def test_a_suite_that_finds_a_difference_reports_it():
    error = np.zeros((2, 6))
    error[1, 3:] = 0.01
    reward = np.zeros_like(error)
    reward[1, 4] = 1.0
    none = np.zeros_like(error)
    found = evogym.Compared(error, error, reward, none, none, none)
    passed = {row.name: row.passed for row in findings_of("Walker-v0", found).rows}
    assert passed["worst point after 1 steps"]
    assert not passed["worst point after 5 steps"]
    assert passed["reward of a step"]  # differs only after points parted
    ends = np.zeros_like(error)
    ends[1, 3] = 1  # points agreed until then
    passed = {row.name: row.passed for row in findings_of("Walker-v0", replace(found, ends=ends)).rows}
    assert not passed["ends that differ"]
    reward[0, 2] = 1.0
    passed = {row.name: row.passed for row in findings_of("Walker-v0", found).rows}
    assert not passed["reward of a step"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["Walker-v0", "Pusher-v0", "Catcher-v0", "BridgeWalker-v0"])
def test_the_first_steps_are_those_of_evogym(task):
    """Traces are stored with 32 bits. Catcher's package lands in step 15."""
    runs = runs_of(SHIPPED / f"{task}.npz", 16 if task == "Catcher-v0" else 5)
    with precision("float64"):
        found = compared(task, runs)
    assert found.error.max() < STORED
    assert found.reward.max() < REWARD
    assert found.ends.sum() == 0
    observed = found.observation[:1]
    assert np.isfinite(observed[:, 1:]).all()
    assert observed.max() < OBSERVATION
    assert found.orientation[:1].max() < NOISE


@pytest.mark.slow
def test_single_precision_is_as_near_as_it_can_be():
    found = compared("Walker-v0", runs_of(SHIPPED / "Walker-v0.npz", 5), "float32")
    assert found.error.max() < CLOSE


@pytest.mark.slow
def test_the_kernel_has_the_same_first_contact_and_the_same_order_of_rigid_voxels():
    """A robot that begins on the lattice, with voxels that touch at a corner; one with edges beyond their limits; an
    object beside them that lands straight in the second substep."""
    model = assemble_body(body_of("rh.", "r.v", "rrr"))
    solid = np.ones((1, 9), bool)
    package = EvogymObject(assemble_body(body_of("s")), law.SIDE * jnp.array([7.0, 1.0]), "package")
    beginning = Beginning((2, 1), (Piece.of(0, 0, solid),), (Piece.of(7, 1, np.ones((1, 1), bool), falls=True),))
    model = replace(model, ground=GroundCells.of(solid), objects=(package,), beginning=beginning)
    rest = ENGINE.rest_state(model)
    start = replace(rest, position=rest.position + law.SIDE * jnp.array([2, 1]))
    noise = jnp.float32(np.random.default_rng(4).normal(0, 0.01, rest.position.shape))
    stretched = replace(start, position=start.position + noise + jnp.array([0.013, 0.031]))
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), start, stretched)
    environment = Environment(gravity=jnp.float32(law.GRAVITY))
    control = jnp.full((1, 3, 3), 0.5)

    def moved(implementation, model=model):
        def one(state):
            return ENGINE.advance(
                model, environment, state, control, substep=law.SUBSTEP, count=4, implementation=implementation
            )[0]

        return jax.jit(jax.vmap(one))(states)

    kernel = "interpreted" if jax.default_backend() == "cpu" else "fused"
    plain, fused, regular = moved("xla"), moved(kernel), moved("xla", replace(model, beginning=None))
    np.testing.assert_allclose(fused.position, plain.position, atol=2e-6)
    np.testing.assert_allclose(fused.objects[0].position, plain.objects[0].position, atol=2e-6)
    assert np.abs(plain.objects[0].position - regular.objects[0].position).max() > 1e-5
    for ours, theirs in zip(fused.velocity, plain.velocity, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3 * np.abs(theirs).max())
    assert np.abs(plain.position[0] - regular.position[0]).max() > 1e-5  # the table counts where bodies begin ...
    np.testing.assert_allclose(plain.position[1], regular.position[1], atol=1e-6)  # ... and nowhere else

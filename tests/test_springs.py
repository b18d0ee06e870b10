"""Spring forces against a plain loop over the original's list of springs."""

import jax.numpy as jnp
import numpy as np
import plain
import pytest

from vsr.physics.engine import assemble_body
from vsr.physics.squares.contact import Motion, Pose
from vsr.physics.squares.limits import area_pressure, limit_rate, pressure_forces
from vsr.physics.squares.springs import rest_lengths, spring_numbers, voxel_forces
from vsr.robot import Body, Material
from vsr.robot.springs import SQUARE_GROUPS, Group

SCAFFOLDINGS = [SQUARE_GROUPS, (Group.side_external, Group.central_cross), (Group.side_internal,), (Group.side_cross,)]


def random_pose(seed, size=0.25):
    random = np.random.default_rng(seed)
    rest = np.array([[-1.05, -1.05], [1.05, -1.05], [1.05, 1.05], [-1.05, 1.05]])
    return (
        rest + size * random.normal(size=(4, 2)),
        size * random.normal(size=4),
        random.normal(size=(4, 2)),
        random.normal(size=4),
    )


def ours(material, pose, control=0.0):
    """Forces on the masses of one voxel: (4, 2) and (4,)."""
    model = assemble_body(Body(shape="a", materials={"a": material}))
    center, angle, velocity, spin = pose
    column = lambda values: jnp.asarray(values, jnp.float32)[:, None, None]  # noqa: E731
    pose = Pose(column(center[:, 0]), column(center[:, 1]), column(np.cos(angle)), column(np.sin(angle)))
    motion = Motion(column(velocity[:, 0]), column(velocity[:, 1]), column(spin))
    values = jnp.full((1, 1), control, jnp.float32)
    lengths = rest_lengths(model.spring_length, values)
    x, y, torque = voxel_forces(spring_numbers(model, 1e-3), pose, motion, lengths, values)
    return np.stack([x[:, 0, 0], y[:, 0, 0]], -1), np.asarray(torque[:, 0, 0])


@pytest.mark.parametrize("scaffolding", SCAFFOLDINGS, ids="+".join)
@pytest.mark.parametrize("seed", [0, 1])
def test_forces_equal_the_plain_sum_over_springs(original_voxel, scaffolding, seed):
    springs = original_voxel["springs_in_order"]
    material = Material(mass=0.2025, scaffolding=scaffolding, lower_limit=0.0)
    pose = random_pose(seed)
    rest = [spring["rest"] for spring in springs]
    force, torque = plain.voxel_forces(
        springs, *pose, rest, mass=0.2025, inertia=0.0273375, frequency=8.0, damping_ratio=0.3, groups=scaffolding
    )
    our_force, our_torque = ours(material, pose)
    np.testing.assert_allclose(our_force, force, rtol=2e-4, atol=2e-3)
    np.testing.assert_allclose(our_torque, torque, rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize(("control", "name"), [(1.0, "min"), (-1.0, "max")])
def test_full_control_takes_the_originals_rest_lengths(original_voxel, control, name):
    springs = original_voxel["springs_in_order"]
    pose = random_pose(4, size=0.05)
    force, _ = plain.voxel_forces(
        springs, *pose, [spring[name] for spring in springs],
        mass=0.2025, inertia=0.0273375, frequency=8.0, damping_ratio=0.3, groups=SQUARE_GROUPS,
    )  # fmt: skip
    np.testing.assert_allclose(
        ours(Material(mass=0.2025, lower_limit=0.0), pose, control)[0], force, rtol=2e-4, atol=2e-3
    )


def test_rest_lengths_are_linear_on_either_side():
    model = assemble_body(Body(shape="a"))
    length = lambda f: np.asarray(rest_lengths(model.spring_length, jnp.full((1, 1), f)))[:, 0, 0]  # noqa: E731
    np.testing.assert_allclose(length(0.5), (length(0.0) + length(1.0)) / 2, rtol=1e-6)
    np.testing.assert_allclose(length(-0.25), length(0.0) + 0.25 * (length(-1.0) - length(0.0)), rtol=1e-6)


@pytest.mark.parametrize("scaffolding", SCAFFOLDINGS, ids="+".join)
def test_inner_forces_neither_push_nor_turn_the_voxel(scaffolding):
    pose = random_pose(7)
    force, torque = ours(Material(scaffolding=scaffolding), pose)
    scale = float(np.abs(force).max())
    np.testing.assert_allclose(force.sum(0), 0, atol=1e-5 * scale)
    orbital = pose[0][:, 0] * force[:, 1] - pose[0][:, 1] * force[:, 0]
    assert (orbital + torque).sum() == pytest.approx(0, abs=1e-4 * scale)


def test_an_undeformed_voxel_feels_nothing():
    rest = random_pose(0, size=0.0)
    still = (rest[0], rest[1], np.zeros((4, 2)), np.zeros(4))
    force, torque = ours(Material(), still)
    np.testing.assert_allclose(force, 0, atol=2e-3)
    np.testing.assert_allclose(torque, 0, atol=2e-3)


def test_force_actuation_pulls_every_mass_to_the_middle():
    rest = random_pose(0, size=0.0)
    still = (rest[0], rest[1], np.zeros((4, 2)), np.zeros(4))
    force, _ = ours(Material(actuation="force", max_force=50.0), still, control=0.5)
    np.testing.assert_allclose(force, -25 * np.sign(rest[0]) / np.sqrt(2), atol=1e-2)


def squeezed(distance):
    """A voxel whose two bottom masses are at a distance [m] from each other, all else at rest."""
    center = np.array([[-distance / 2, -1.05], [distance / 2, -1.05], [1.05, 1.05], [-1.05, 1.05]])
    return center, np.zeros(4), np.zeros((4, 2)), np.zeros(4)


@pytest.mark.parametrize(("distance", "acts"), [(0.8, True), (1.0, False)])
def test_lower_limit_pushes_masses_apart_only_below_it(distance, acts):
    pose = squeezed(distance)
    extra = ours(Material(), pose)[0] - ours(Material(lower_limit=0.0), pose)[0]
    assert (abs(extra[0, 0]) > 1) == acts
    assert extra[0, 0] <= 0.1
    assert extra[1, 0] >= -0.1


@pytest.mark.parametrize(("distance", "acts"), [(2.2, True), (2.05, False)])
def test_upper_limit_pulls_masses_together_only_above_it(distance, acts):
    pose = squeezed(distance)
    extra = ours(Material(upper_limit=1.0), pose)[0] - ours(Material(), pose)[0]
    assert (abs(extra[0, 0]) > 1) == acts
    assert extra[1, 0] <= 0.1
    assert extra[0, 0] >= -0.1


def test_springs_without_length_are_harmless():
    """With mass_side_ratio 0.5 parallel springs have no length at rest."""
    force, _ = ours(
        Material(mass_side_ratio=0.5),
        (
            np.array([[-0.75, -0.75], [0.75, -0.75], [0.75, 0.75], [-0.75, 0.75]]),
            np.zeros(4),
            np.zeros((4, 2)),
            np.zeros(4),
        ),
    )
    assert np.isfinite(force).all()


def test_limits_belong_to_the_material():
    """The same stiffness at every substep that is fine enough; pressure pushes an inverted voxel back."""
    model = assemble_body(Body(shape="a"))
    rates = [float(limit_rate(model, 1 / 60 / count)[0, 0]) for count in (6, 12, 48)]
    assert rates[0] == rates[1] == rates[2] == pytest.approx(3 * 2 * np.pi * 8, rel=1e-5)
    assert float(limit_rate(model, 1 / 60)[0, 0]) == pytest.approx(0.45 * 60)
    side = 2.1
    flat = jnp.array([side, 0.3, -side, 0.3])  # diagonals of a voxel that is nearly flat
    still = tuple(jnp.zeros(4))
    least = jnp.asarray(0.81)
    stiffness, lag = jnp.asarray(1000.0), jnp.asarray(0.01)
    assert float(area_pressure(stiffness, least, lag, (2.0, 2.0, -2.0, 2.0), still)) == 0
    upright = float(area_pressure(stiffness, least, lag, tuple(flat), still))
    inverted = float(area_pressure(stiffness, least, lag, tuple(flat * jnp.array([1, -1, 1, -1])), still))
    assert inverted > upright > 0
    (first_x, first_y), (second_x, second_y) = pressure_forces(jnp.asarray(1.0), (2.0, 2.0, -2.0, 2.0))
    assert (float(first_x), float(first_y)) == (-1.0, -1.0)  # outwards from the lower left
    assert (float(second_x), float(second_y)) == (1.0, -1.0)  # and from the lower right


def test_force_actuation_neither_pushes_nor_turns_a_voxel_out_of_shape():
    """With pulls of equal size alone, a robot of one voxel swims in empty space."""
    center, angle, *_ = random_pose(3)
    still = (center, angle, np.zeros((4, 2)), np.zeros(4))
    pulls = ours(Material(actuation="force", max_force=500.0), still, control=1.0)
    springs = ours(Material(actuation="force", max_force=500.0), still, control=0.0)
    force, torque = (driven - passive for driven, passive in zip(pulls, springs, strict=True))
    np.testing.assert_allclose(force.sum(0), 0, atol=0.02)
    assert np.abs(force).max() > 100
    np.testing.assert_allclose((center[:, 0] * force[:, 1] - center[:, 1] * force[:, 0] + torque).sum(), 0, atol=0.05)

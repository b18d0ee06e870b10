"""Voxels of fluid in the engine of point masses: chambers, drive, forces, membranes, refusals."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from vsr.compute.vector import join, split
from vsr.environment import Environment
from vsr.experiments.encodings.bodies import FixedBody
from vsr.lattice.integrators import NodeState
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.failure import Failure
from vsr.physics.fluid import law, voxels
from vsr.physics.fluid.finding import chambers_needed, find_chambers, most_chambers
from vsr.physics.points.assembly import PointMaterials, assemble_points
from vsr.physics.points.energy import potential_energy
from vsr.physics.points.fluid import chamber_drive, fluid_forces
from vsr.physics.points.geometry import corners_of_nodes
from vsr.physics.points.reference import _forces, target_side
from vsr.physics.points.stability import longest_substep
from vsr.robot import Body, Fluid, Material
from vsr.scene import Physics, Scene, precision, simulate
from vsr.tasks import Locomotion
from vsr.world.placement import Placement
from vsr.world.spec import Robot, World

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ENGINE = ENGINES["points"]
SILICONE = {"young_modulus": 2e4, "density": 1000.0}
SOLID = Material(**SILICONE)
STILL = Material(**SILICONE, linear_damping=0.0, spring_damping_ratio=0.0)
SIDE = 0.03


def water(**fluid):
    return Material(**SILICONE, fluid=Fluid(**fluid))


def body_of(*shape, side=SIDE, a=SOLID, **others):
    return Body(shape=shape, materials={"a": a, **others}, voxel_side=side, engine="points")


PLANE = body_of("aaaa.", "awwa.", "awwag", "aaww.", w=water(drive="volume"), g=water(kind="gas"))
SPACE = body_of(("aaa", "aaa"), ("aww", "aaw"), ("aaa", "aaa"), w=water(drive="volume", density=800.0))


def corners_at(model, position):
    dimension = model.dimension
    return split(corners_of_nodes(position, model.layer[..., None], dimension), 1 + dimension)


@jax.jit
def forces_at(model, gravity, position, control):
    """Of everything but dampers [N], (layers, n, dimension)."""
    axis = 1 + model.dimension
    still = NodeState(split(position, axis), tuple(jnp.zeros_like(part) for part in split(position, axis)))
    elastic = _forces(model, control, target_side(model, control), None, still)
    fluid = fluid_forces(model, chamber_drive(model, control), gravity, still)
    return (join(elastic, axis) + join(fluid, axis)).at[..., -1].add(-model.node_mass * gravity)


@pytest.mark.parametrize("body", [PLANE, pytest.param(SPACE, marks=pytest.mark.full)], ids=["2-D", "3-D"])
def test_forces_are_minus_the_gradient_of_the_energy(body):
    with precision("float64"):
        model = assemble_body(body, dtype=jnp.float64)
        environment = Environment(gravity=jnp.float64(9.8), terrain=None)
        place, control = jax.random.split(jax.random.key(1))
        rest = ENGINE.rest_state(model).position
        position = rest + 0.1 * SIDE * jax.random.normal(place, rest.shape, jnp.float64)
        control = jax.random.uniform(control, model.present.shape, jnp.float64, -1, 1)
        force = forces_at(model, 9.8, position, control)
        gradient = jax.jit(jax.grad(partial(potential_energy, model, environment)))(position, control)
        np.testing.assert_allclose(force, -gradient, atol=1e-11 * float(abs(force).max()))
        assert model.chambers is not None
        corner = corners_at(model, position)
        fluid = (model.chambers.numbers.density * jax.jit(voxels.volumes)(model.chambers, corner)).sum()
        solid = (model.node_mass - model.chambers.fluid_mass).sum()
        total = force.sum(tuple(range(1 + model.dimension)))
        np.testing.assert_allclose(total, [*(0,) * (model.dimension - 1), -9.8 * (fluid + solid)], atol=1e-10)


def numbers_of(fluid):
    with precision("float64"):
        table = PointMaterials.of([Material(**SILICONE, fluid=fluid)], SIDE, 3, jnp.float64).fluid
        assert table is not None
        return table.numbers


LAWS = {
    "pressure": (Fluid(), 400.0),
    "pressure within volumes": (Fluid(added_volume=(-0.3, 0.2)), 400.0),
    "liquid": (Fluid(drive="volume", bulk_modulus=5e4), 1.1e-4),
    "liquid within pressures": (Fluid(drive="volume", bulk_modulus=5e4, pressure=(-2e3, 3e3)), 1.1e-4),
    "gas": (Fluid(kind="gas", drive="volume"), 1.1e-4),
    "gas within pressures": (Fluid(kind="gas", drive="volume", pressure=(-2e4, 3e4)), 1.1e-4),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_pressure_is_minus_the_slope_of_the_energy(name):
    fluid, drive = LAWS[name]
    numbers, rest = numbers_of(fluid), 1e-4
    with precision("float64"):
        volume = jnp.linspace(0.4, 1.9, 37) * rest
        energy = jax.vmap(jax.grad(lambda v: law.energy(numbers, jnp.array([rest]), jnp.array([drive]), v[None])[0]))
        found = jax.vmap(lambda v: law.pressure(numbers, jnp.array([rest]), jnp.array([drive]), v[None])[0])(volume)
        np.testing.assert_allclose(found, -energy(volume), rtol=1e-9, atol=1e-6)
        if fluid.pressure_limits is not None and fluid.drive == "volume":
            assert fluid.pressure_limits[0] == float(found.min())
            assert fluid.pressure_limits[1] == float(found.max())
    assert len(set(np.asarray(found).tolist())) > 1 or name == "pressure"


def test_gas_keeps_pressure_times_volume():
    numbers = numbers_of(Fluid(kind="gas", drive="volume"))
    with precision("float64"):
        volume = jnp.linspace(0.5, 2, 7)
        pressure = jax.vmap(lambda v: law.pressure(numbers, jnp.ones(1), jnp.array([1.2]), v[None])[0])(volume)
        np.testing.assert_allclose((pressure + 101325) * volume, 101325 * 1.2, rtol=1e-12)


def test_controls_span_the_limits():
    pressure = numbers_of(Fluid(pressure=(-50, 700)))
    volume = numbers_of(Fluid(drive="volume", added_volume=(-0.1, 0.4)))
    with precision("float64"):
        drive = [float(law.drive_of(pressure, jnp.ones(1), jnp.array([u]))[0]) for u in (-1, -0.5, 0, 1)]
        assert drive == [700, 350, 0, -50]
        drive = [float(law.drive_of(volume, jnp.full(1, 2.0), jnp.array([u]))[0]) for u in (-1, 0, 1)]
        np.testing.assert_allclose(drive, [2.8, 2, 1.8], rtol=1e-6)


def test_chambers_that_touch_at_an_edge_or_differ_in_fluid_are_two():
    cells = jnp.array([[1, 0, 2], [0, 1, 1], [1, 1, 0]])
    found = find_chambers(cells, (cells > 0).astype(jnp.float32), None)
    member = np.asarray(found.member).astype(int)
    assert member.shape == (most_chambers((3, 3)), 3, 3)
    assert member[:3].tolist() == [
        [[1, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 1], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 1, 1], [1, 1, 0]],
    ]
    assert not member[3:].any()
    assert chambers_needed(np.asarray(cells), [SOLID, water(), water()]) == 3


@pytest.mark.slow
def test_one_program_makes_the_chambers_of_any_body():
    table = PointMaterials.of([SOLID, water(drive="volume")], SIDE, 2)
    cells = jax.random.randint(jax.random.key(2), (4, 4, 4), -1, 2)
    build = partial(assemble_points, table=table, voxel_side=SIDE, layers=2)

    def moved(cells):
        model = build(cells)
        state = ENGINE.rest_state(model)
        control = jnp.where(cells > 0, -1.0, 0.0)[None]
        state, _ = ENGINE.advance(
            model, Environment(gravity=jnp.float32(9.8), terrain=None), state, control, substep=2e-4, count=20
        )
        return model, state

    models, states = jax.jit(jax.vmap(moved))(cells)
    alone_moved = jax.jit(moved)
    for index in range(len(cells)):
        model, state = alone_moved(cells[index])
        of_vmap = jax.tree.map(lambda leaf, index=index: leaf[index], (models, states))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-6), of_vmap, (model, state))
        alone = assemble_body(body_of(*drawn(cells[index]), w=water(drive="volume")))
        count = len(alone.chambers.rest_volume)
        np.testing.assert_allclose(model.chambers.rest_volume[:count], alone.chambers.rest_volume, rtol=1e-6)
        assert not model.chambers.rest_volume[count:].any()


def drawn(cells):
    return ["".join(".aw"[index + 1] for index in row) for row in np.asarray(cells)[::-1]]


def free_motion(body, control, *, substep, seconds, dtype=jnp.float64):
    """The model, and the state after some time in free space under one control value."""
    model = assemble_body(body, dtype=dtype)
    space = Environment(gravity=jnp.zeros((), dtype), terrain=None)
    controls = jnp.full((1, *model.present.shape), control, dtype)
    count = round(seconds / substep)
    state, _ = ENGINE.advance(model, space, ENGINE.rest_state(model), controls, substep=substep, count=count)
    return model, space, state, controls[0]


PUMPED = {
    "liquid": water(drive="volume", bulk_modulus=2e4),
    "gas": water(kind="gas", drive="volume", outside_pressure=1e4),
    "pressure": water(),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["liquid", *(pytest.param(name, marks=pytest.mark.full) for name in ("gas", "pressure"))]
)
def test_pumping_keeps_momentum_and_energy(name):
    body = body_of("aaaa", "awwa", "aaaa", a=STILL, w=PUMPED[name].model_copy(update={"linear_damping": 0.0}))
    with precision("float64"):
        drift = []
        for substep in (2e-4, 1e-4):
            model, space, state, control = free_motion(body, -0.5, substep=substep, seconds=0.05)
            kinetic = 0.5 * (model.node_mass[..., None] * state.velocity**2).sum()
            stored = potential_energy(model, space, state.position, control)
            before = potential_energy(model, space, ENGINE.rest_state(model).position, control)
            drift.append(float(stored + kinetic - before) / float(kinetic))
            momentum = ENGINE.momentum(model, state)
            speed = jnp.sqrt(2 * kinetic * model.node_mass.sum())
            assert abs(momentum).max() < 1e-12 * speed
            assert kinetic > 1e-4 * abs(before - stored)
    assert abs(drift[1]) < 0.01
    assert abs(drift[1]) < 0.4 * abs(drift[0])  # of second order: a quarter


@pytest.mark.slow
def test_volume_is_held_and_follows_its_drive():
    body = body_of("aaaa", "awwa", "aaaa", w=water(drive="volume", bulk_modulus=1e6, added_volume=(-0.3, 0.3)))
    with precision("float64"):
        for control, expected in ((0.0, 1.0), (-1.0, 1.3), (1.0, 0.7)):
            model, _, state, controls = free_motion(body, control, substep=2e-5, seconds=0.1)
            chambers, corner = model.chambers, corners_at(model, state.position)
            drive = chamber_drive(model, controls)
            clamped = float((voxels.volumes(chambers, corner) / chambers.rest_volume)[0])
            pressure = float(voxels.pressures(chambers, corner, drive)[0])
            assert clamped == pytest.approx(expected, abs=0.01)
            assert clamped - expected == pytest.approx(-pressure / 1e6, abs=1e-9)


@pytest.mark.slow
def test_plane_against_a_slice_of_space():
    """A 2-D chamber as deep as a voxel, and one of voxels in 3-D with the same outline: the same load."""
    with precision("float64"):
        flat = assemble_body(body_of("aaaa", "awwa", "aaaa", w=water(depth=SIDE)), dtype=jnp.float64)
        solid = assemble_body(body_of(("aaaa",), ("awwa",), ("aaaa",), w=water()), dtype=jnp.float64)
        move = 0.1 * SIDE * jax.random.normal(jax.random.key(0), (*flat.node_mass.shape[1:], 2), jnp.float64)
        place = flat.rest_position + move
        deep = solid.rest_position.at[..., jnp.array([0, 2])].set(place[:, None])
        loads = []
        for model, position in ((flat, place), (solid, deep)):
            corner = corners_at(model, position[None])
            loads.append(jax.jit(voxels.loads)(model.chambers, corner, jnp.array([500.0]), 9.8))
        (x, z), (wide, across, high) = loads
        for of_plane, of_space in ((x, wide), (z, high)):
            folded = of_space.reshape(2, 2, 2, *of_space.shape[1:]).sum(1)[:, :, :, 0]
            # The faces in front and behind push along y only.
            np.testing.assert_allclose(folded.reshape(of_plane.shape), of_plane, atol=1e-12)
        assert abs(across).max() > 0


@pytest.mark.slow
def test_nodes_amid_the_fluid_go_along_and_carry_nothing():
    body = body_of("aaaaa", "awwwa", "awwwa", "awwwa", "aaaaa", w=water(drive="volume"))
    model, _, state, _ = free_motion(body, -1.0, substep=1e-4, seconds=0.1, dtype=jnp.float32)
    follows = np.asarray(model.chambers.follows) > 0
    assert follows.sum() == 4
    assert not np.asarray(model.node_mass)[follows].any()
    assert float(model.chambers.fluid_mass.sum()) == pytest.approx(9 * SIDE**2 * 1000, rel=1e-5)
    motion = ENGINE.voxel_motion(model, Environment(gravity=jnp.float32(0), terrain=None), state)
    inside = np.asarray(motion.size_ratio)[1:4, 1:4]
    assert inside.min() > 0.9
    assert inside.mean() > 1.05


def scene_of(body, **physics):
    placed = Locomotion(duration=0.2, placement=Placement(clearance=0.001))
    return Scene(robot=Robot(body=body), task=placed, physics=Physics(**physics))


@pytest.mark.slow
def test_a_bag_of_water_lies_on_the_ground():
    bag = body_of("aaaa", "aWWa", "aWWa", "aaaa", W=water(drive="volume"))
    outcome = simulate(scene_of(bag))
    assert not outcome.failed


def test_membranes_are_as_the_voxels_around_or_as_they_say():
    hard = Material(young_modulus=8e4, density=2000.0)
    borrowed = assemble_body(body_of("h", "w", h=hard, w=water()))
    own = assemble_body(body_of("h", "w", h=hard, w=water(membrane="own")))
    np.testing.assert_allclose(borrowed.stiffness[:, 0, 0], borrowed.stiffness[:, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(borrowed.mass, borrowed.mass[1, 0], rtol=1e-6)
    assert borrowed.chambers is not None
    # With masses of its own, stiff springs of heavy neighbors tore light membranes apart.
    membrane = borrowed.node_mass - borrowed.chambers.fluid_mass
    np.testing.assert_allclose(membrane[0, :, 0], borrowed.mass[1, 0] * np.array([1, 2, 1]), rtol=1e-5)
    assert float(own.stiffness[0, 0, 0]) == pytest.approx(float(own.stiffness[0, 1, 0]) / 4, rel=1e-5)
    # Three edges of the fluid's square are outside; the one it shares and both diagonals are not its own.
    assert np.asarray(borrowed.springs[:, 0, 0]).sum() == 3
    assert np.asarray(borrowed.springs[:, 1, 0]).sum() == 6


@pytest.mark.slow
def test_only_springs_that_are_there_break():
    brittle = Material(**SILICONE, yield_force=1e-9)
    body = body_of("a", "w", a=brittle, w=Material(**SILICONE, yield_force=1e-9, fluid=Fluid()))
    model = assemble_body(body)
    start = ENGINE.rest_state(model)
    stretched = replace(start, position=start.position * 1.1)
    space = Environment(gravity=jnp.float32(0), terrain=None)
    still = jnp.zeros((1, *model.present.shape))
    state, _ = ENGINE.advance(model, space, stretched, still, substep=1e-4, count=1)
    assert int(ENGINE.broken_springs(model, state)) == 6 + 3  # of the square, and of the membrane's three sides


def test_open_chambers_are_refused_and_fail():
    leaky = body_of("aaa", "awa", "a.a", w=water(membrane="none"))
    message = r"robot\.body\.shape: fluid without a membrane reaches the outside at row 2, column 2: close"
    with pytest.raises(ValidationError, match=message):
        scene_of(leaky)
    with pytest.raises(ValidationError, match="row 2, column 2"):
        FixedBody(**leaky.to_plain())
    assert int(ENGINE.flaw(assemble_body(leaky))) == Failure.leaking
    tight = body_of("aaa", "awa", "aaa", w=water(membrane="none"))
    assert int(ENGINE.flaw(assemble_body(tight))) == 0
    assert scene_of(tight)


@pytest.mark.parametrize(
    ("material", "message"),
    [
        ({"fluid": {"pressure": [100, 200]}}, "the lowest must be at most 0"),
        ({"fluid": {"added_volume": [-1.5, 0]}}, "would empty the chamber"),
        ({"fluid": {"kind": "gas", "pressure": [-2e5, 0]}}, "less than nothing"),
        ({"fluid": {"density": -1}}, "greater than or equal to 0"),
        ({"fluid": {"membrane": "paper"}}, "'neighbors', 'own' or 'none'"),
        ({"fluid": {"viscosity": 1}}, "Extra inputs"),
    ],
)
def test_bad_fluids_are_refused(material, message):
    with pytest.raises(ValidationError, match=message):
        Material.model_validate(material)


def test_what_cannot_hold_fluid_says_so():
    with pytest.raises(ValidationError, match="squares cannot hold fluid: give the body `engine: points`"):
        Body(shape=("w",), materials={"w": Material(fluid=Fluid())})
    with pytest.raises(ValidationError, match="no gradients for this body: a material is a fluid"):
        scene_of(PLANE, implementation="differentiable")
    with pytest.raises(ValidationError, match=r"one depth; given are 0\.1 m, 1 m"):
        body_of("awg", w=water(), g=water(depth=0.1))


def test_stiffer_fluid_asks_for_shorter_steps():
    soft, hard = (longest_substep([SOLID, water(drive="volume", bulk_modulus=k)], SIDE, 3) for k in (1e4, 1e6))
    assert hard < 0.3 * soft < 0.3 * longest_substep([SOLID], SIDE, 3)


@pytest.mark.slow
def test_stability_bound_of_a_single_stiff_voxel():
    """Just within the bound a shaken chamber stays as it is; the bound is not far too careful."""
    fluid = water(drive="volume", bulk_modulus=1e6, membrane="own", density=0.0)
    body = body_of(("w",), w=fluid)
    bound = longest_substep([fluid], SIDE, 3)
    model = assemble_body(body)
    space = Environment(gravity=jnp.float32(0), terrain=None)
    still = ENGINE.rest_state(model)
    start = replace(still, position=still.position * 1.01)
    ends = []
    for share in (0.9, 2.0):
        still = jnp.zeros((1, *model.present.shape))
        state, _ = ENGINE.advance(model, space, start, still, substep=share * bound, count=400)
        ends.append(float(jnp.nan_to_num(abs(state.position), nan=jnp.inf).max()))
    assert ends[0] < 2 * SIDE
    assert ends[1] > 10 * SIDE


def test_world_without_ground_needs_no_terrain():
    world = World(terrain=None, gravity=0.0)
    scene = Scene(robot=Robot(body=PLANE), world=world, task=Locomotion(duration=0.1))
    assert not simulate(scene).failed

"""Voxels of point masses, in 2-D and 3-D: joints, actuation, volumes, stability; lattices are the judge."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from vsr.environment import Environment
from vsr.experiments.simulate import as_plain
from vsr.experiments.terminal import show_outcome
from vsr.lattice import INTEGRATORS, advance, isotropic, of_cells
from vsr.lattice import rest_state as lattice_at_rest
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.points.advance import advance_through
from vsr.physics.points.assembly import PointMaterials, assemble_points, layers_needed, most_layers
from vsr.physics.points.geometry import center, nodes_of_corners, rest_state, size, voxel_motion
from vsr.physics.points.springs import broken_springs
from vsr.physics.points.stability import longest_point_substep
from vsr.robot import Body, Material
from vsr.scene import Scene, simulate
from vsr.sensors.quantities import QUANTITIES
from vsr.tasks import MEASURES
from vsr.terrain import Flat
from vsr.world.placement import Placement, move_rigidly, place

pytestmark = pytest.mark.usefixtures("quickly_compiled")
UNDAMPED = {"linear_damping": 0.0, "spring_damping_ratio": 0.0}
WEIGHTLESS = Environment(gravity=jnp.float32(0))
SHAPES = {2: ("aa", "a."), 3: (("aa", "a."), ("a.", ".."))}
dimensions = pytest.mark.parametrize("dimension", [2, 3])
FALLING = ("explicit_euler", 2), ("semi_implicit_euler", 3), ("verlet", 2), ("rk4", 2)
"""Each integrator once: none knows the dimension."""


def body_of(dimension, **material):
    return Body(shape=SHAPES[dimension], engine="points", materials={"a": Material(**material)})


def shaken(model, seed=0, amount=0.1):
    state = rest_state(model)
    there = (model.inverse_mass > 0)[..., None]
    random = np.random.default_rng(seed).normal(0, amount, (2, *state.position.shape)).astype(np.float32)
    return replace(state, position=state.position + there * random[0], velocity=state.velocity + there * random[1])


def run(model, state, *, time, substep, control=0.0, environment=WEIGHTLESS):
    controls = jnp.full((1, *model.present.shape), control, model.mass.dtype)
    return advance_through(model, environment, state, controls, substep=substep, count=round(time / substep))[0]


@pytest.mark.slow
@dimensions
def test_voxels_move_like_the_lattice_of_the_same_solid(dimension):
    """Voxel by voxel with shared corners, or spring by spring with shared stiffness: the same motion."""
    modulus, density, side = 2e4, 30.0, 3.0
    material = Material(young_modulus=modulus, density=density, **UNDAMPED)
    shape = SHAPES[dimension]
    body = Body(shape=shape, engine="points", materials={"a": material}, voxel_side=side)
    model = assemble_body(body, integrator="semi_implicit_euler")
    lattice = of_cells(body.present, side, isotropic(modulus, side, dimension), density)
    state = shaken(model)
    at_rest = lattice_at_rest(lattice)
    other = replace(at_rest, position=state.position[0], velocity=state.velocity[0])
    step, count = 0.3 * longest_point_substep(material, side, dimension, "semi_implicit_euler"), 40
    ours = run(model, state, time=count * step, substep=step)
    theirs = advance(lattice, Environment(gravity=0.0), other, step=step, count=count)
    there = np.asarray(model.node_mass[0]) > 0
    np.testing.assert_allclose(ours.position[0][there], theirs.position[there], atol=2e-4)
    assert np.abs(np.asarray(ours.position - state.position)).max() > 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "layers"),
    [
        (("a.", ".a"), 2),  # a corner in 2-D
        (("aa", ".a"), 1),
        ((("a.", ".a"), ("..", "..")), 2),  # an edge in 3-D
        ((("a.", ".."), ("..", ".a")), 2),  # a corner in 3-D
        ((("a.", ".a"), (".a", "a.")), 4),  # four at one corner
        ((("aa", ".a"), ("..", "..")), 1),
    ],
)
def test_voxels_that_only_touch_are_not_joined(shape, layers):
    model = assemble_body(Body(shape=shape, engine="points", materials={"a": Material(**UNDAMPED)}))
    assert model.node_mass.shape[0] == layers
    voxels = int(model.present.sum())
    corners = 2**model.dimension
    assert float(model.node_mass.sum()) == pytest.approx(voxels * corners)
    # Push one voxel's corners: whatever is joined to it by faces follows, nothing else does.
    first = tuple(np.argwhere(np.asarray(model.present) > 0)[0])
    blow = jnp.zeros(model.layer.shape[1:]).at[(slice(None), *first)].set(1.0)
    hit = nodes_of_corners(blow, model.layer, model.dimension) > 0
    state = rest_state(model)
    state = replace(state, velocity=jnp.where(hit[..., None], jnp.ones(model.dimension), 0.0))
    moved = run(model, state, time=0.2, substep=1 / 500)
    motion = voxel_motion(model, WEIGHTLESS, moved)
    speed = np.abs(np.asarray(motion.velocity)).max(-1)[np.asarray(model.present) > 0]
    assert (speed > 1e-3).sum() == (voxels if layers == 1 else 1)


def test_layers_needed_are_never_more_than_the_most():
    random = np.random.default_rng(1)
    for dimension, grid in ((2, (4, 4)), (3, (3, 3, 3))):
        found = {layers_needed(random.random(grid) < 0.5) for _ in range(40)}
        assert max(found) == most_layers(dimension)
        assert min(found) >= 1


@pytest.mark.slow
@dimensions
def test_inner_forces_keep_momentum(dimension):
    model = assemble_body(body_of(dimension, linear_damping=0.0))
    state = shaken(model, amount=0.3)
    later = run(model, state, time=0.5, substep=1 / 600, control=0.7)

    def momenta(at):
        mass = model.node_mass[..., None]
        axes = tuple(range(dimension + 1))
        turning = at.position[..., :, None] * (mass * at.velocity)[..., None, :]
        return (mass * at.velocity).sum(axes), (turning - jnp.swapaxes(turning, -1, -2)).sum(axes)

    for before, after in zip(momenta(state), momenta(later), strict=True):
        np.testing.assert_allclose(after, before, atol=5e-3)
    assert float(jnp.abs(later.position - state.position).max()) > 0.05


@dimensions
@pytest.mark.parametrize(("control", "ratio"), [(1.0, 0.8), (-1.0, 1.2), (0.0, 1.0)])
def test_a_driven_voxel_takes_the_area_or_volume_asked_for(dimension, control, ratio):
    shape = "a" if dimension == 2 else (("a",),)
    model = assemble_body(Body(shape=shape, engine="points"))
    end = run(model, rest_state(model), time=3.0, substep=1 / 300, control=control)
    assert float(voxel_motion(model, WEIGHTLESS, end).size_ratio.squeeze()) == pytest.approx(ratio, abs=1e-4)


@pytest.mark.slow
@dimensions
def test_force_actuation_draws_corners_in(dimension):
    shape = "a" if dimension == 2 else (("a",),)
    material = Material(actuation="force", max_force=500.0)
    model = assemble_body(Body(shape=shape, engine="points", materials={"a": material}))
    small, large = (run(model, rest_state(model), time=2.0, substep=1 / 300, control=value) for value in (1.0, -1.0))
    ratios = [float(voxel_motion(model, WEIGHTLESS, end).size_ratio.squeeze()) for end in (small, large)]
    assert ratios[0] < 0.99 < 1.01 < ratios[1]


@pytest.mark.slow
@dimensions
def test_a_robot_cannot_swim_in_empty_space_by_force_actuation(dimension):
    """Out of shape, because its voxels are driven in turns; with pulls of equal size its momentum was a tenth."""
    model = assemble_body(body_of(dimension, actuation="force", max_force=500.0))
    control = model.present * jnp.linspace(-1, 1, model.present.size).reshape(model.present.shape)
    end = run(model, rest_state(model), time=0.1, substep=1 / 300, control=control)
    pushing = (model.node_mass * jnp.sqrt((end.velocity**2).sum(-1))).sum()
    assert float(pushing) > 1
    assert np.abs(engine_of(model).momentum(model, end)).max() < 1e-4 * float(pushing)


@pytest.mark.parametrize("seed", [0, 1])
def test_sizes_are_those_of_the_deformed_voxel(seed):
    """A linear map of a square or cube changes its size by its determinant; a twist of two faces has a closed form."""
    random = np.random.default_rng(seed)
    for dimension in (2, 3):
        bits = np.array([[(corner >> axis) & 1 for axis in range(dimension)] for corner in range(2**dimension)])
        matrix = np.eye(dimension) + 0.2 * random.normal(size=(dimension, dimension))
        corner = jnp.asarray(bits @ matrix.T, jnp.float32)
        assert float(size(corner, dimension)) == pytest.approx(np.linalg.det(matrix), rel=1e-5)
    angle = 0.5
    bits = bits.astype(float) - [0.5, 0.5, 0]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    bits[4:, :2] = bits[4:, :2] @ turn.T
    # Cross sections of ruled sides are squares that shrink and grow again: the mean of |(1-s) + s e^{ia}|².
    assert float(size(jnp.asarray(bits, jnp.float32), 3)) == pytest.approx((2 + np.cos(angle)) / 3, rel=1e-5)


@pytest.mark.slow
@dimensions
@pytest.mark.parametrize(
    "material", [{}, {"spring_frequency": 20.0, "spring_damping_ratio": 0.0}, {"young_modulus": 1e5, "density": 10.0}]
)
def test_substeps_are_stable_up_to_the_bound_and_not_beyond(dimension, material):
    model = assemble_body(body_of(dimension, linear_damping=0.0, **material))
    bound = longest_point_substep(Material(**material), 3.0, dimension)
    alone = assemble_body(
        Body(
            shape="a" if dimension == 2 else (("a",),),
            engine="points",
            materials={"a": Material(linear_damping=0.0, **material)},
        )
    )

    def excited(model, share):
        state = shaken(model, amount=1e-4)
        end = advance_through(
            model, WEIGHTLESS, state, jnp.zeros((1, *model.present.shape)), substep=share * bound, count=400
        )[0]
        return float(jnp.abs(end.position - model.rest_position).max())

    # Beyond, the shake of 0.1 mm grows until large deformations hold it, or for ever.
    assert excited(model, 0.97) < 0.005
    assert not excited(alone, 1.06) < 0.01


@pytest.mark.parametrize(
    ("integrator", "dimension"),
    [
        pytest.param(integrator, dimension, marks=() if (integrator, dimension) in FALLING else pytest.mark.full)
        for integrator in INTEGRATORS
        for dimension in (2, 3)
    ],
)
def test_every_integrator_lets_robots_fall_and_land(dimension, integrator):
    model = assemble_body(body_of(dimension, linear_damping=3.0), integrator=integrator)
    ground = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())
    start = place(model, ground.terrain, Placement(clearance=0.5))
    falling = run(model, start, time=0.2, substep=1 / 1000, environment=ground)
    drop = float((center(model, start) - center(model, falling))[-1])
    assert drop == pytest.approx(9.8 / 3**2 * (3 * 0.2 - 1 + np.exp(-3 * 0.2)), rel=0.01)
    landed = falling
    for _ in range(20):  # the same program again, which another length would not be
        landed = run(model, landed, time=0.2, substep=1 / 1000, environment=ground)
    low, _ = engine_of(model).bounding_box(model, landed)
    assert float(low[-1]) == pytest.approx(0.0, abs=1e-3)
    felt = voxel_motion(model, ground, landed)
    assert float(jnp.sqrt((felt.velocity**2).sum(-1)).max()) < 0.05
    contact = np.asarray(QUANTITIES["contact"](felt)) * np.asarray(model.present)
    assert contact[0].any()
    assert not contact[1:].any()


def test_what_voxels_feel_in_3d():
    model = assemble_body(body_of(3))
    velocity = jnp.array([3.0, 1.0, -4.0])
    state = move_rigidly(model, rest_state(model), tilt=0.4, shift=jnp.array([50.0, 0, 5]), velocity=velocity)
    voxels = voxel_motion(model, WEIGHTLESS, state)
    there = np.asarray(model.present) > 0
    known = {name: quantity for name, quantity in QUANTITIES.items() if 3 in quantity.dimensions}
    felt = {name: np.asarray(quantity(voxels))[there] for name, quantity in known.items()}
    wanted = {
        "area_ratio": 1.0,
        "volume_ratio": 1.0,
        "velocity_magnitude": np.sqrt(26),
        "angle": 0.4,
        "velocity_x": 3.0,
        "velocity_y": 1.0,
        "velocity_z": -4.0,
        "rotated_velocity_x": 3 * np.cos(0.4) - 4 * np.sin(0.4),
        "rotated_velocity_y": -4 * np.cos(0.4) - 3 * np.sin(0.4),
        "contact": 0.0,
        "ground_height": np.asarray(voxels.corner).mean(0)[there][:, 2],
        "ground_distance": 10.0,  # as far as it sees
        "yaw": 0.0,
        "own_velocity_x": 3 * np.cos(0.4) - 4 * np.sin(0.4),
        "own_velocity_y": 1.0,
        "own_velocity_z": -4 * np.cos(0.4) - 3 * np.sin(0.4),
        **{f"{side}_compression": 0.0 for side in ("left", "right", "near", "far", "bottom", "top")},
    }
    assert set(felt) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(felt[name], value, atol=1e-4, err_msg=name)


@dimensions
def test_a_placed_robot_stands_where_it_should(dimension):
    model = assemble_body(body_of(dimension))
    state = place(model, Flat().build(), Placement(clearance=0.5, velocity=(2.0, 1.0)))
    low, high = engine_of(model).bounding_box(model, state)
    np.testing.assert_allclose(low, [11.0, *([-3.0] if dimension == 3 else []), 0.5], atol=1e-5)
    np.testing.assert_allclose(high - low, [6.0] * dimension, atol=1e-5)
    moving = np.asarray(state.velocity)[np.asarray(model.node_mass) > 0]
    np.testing.assert_allclose(moving, np.broadcast_to([2.0, *([0.0] if dimension == 3 else []), 1.0], moving.shape))


@pytest.mark.slow
def test_many_bodies_of_a_grid_are_the_same_as_each_alone():
    """One compilation for all bodies; robots lie last in memory, and that changes nothing."""
    random = np.random.default_rng(3)
    cells = jnp.asarray(np.where(random.random((4, 2, 2, 3)) < 0.7, random.integers(0, 2, (4, 2, 2, 3)), -1))
    table = PointMaterials.of([Material(), Material(spring_frequency=12.0)], 3.0, 3)
    ground = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())

    def live(cells):
        model = assemble_points(cells, table, 3.0, layers=most_layers(3))
        state = place(model, ground.terrain, Placement(clearance=0.1))
        return center(model, run(model, state, time=0.3, substep=1 / 300, control=0.5, environment=ground))

    together = jax.jit(jax.vmap(live))(cells)
    alone = jnp.stack([jax.jit(live)(one) for one in cells])
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert np.ptp(np.asarray(together), 0).max() > 0.1


def test_drawings_in_space_are_read_and_written():
    text = "aa\nb.\n\n..\nba"
    body = Body(shape=text, materials={"a": Material(), "b": Material(mass=2.0)})
    assert body.engine == "points"
    assert body.shape == (("aa", "b."), ("..", "ba"))
    assert body == Body.model_validate(body.model_dump(mode="json"))
    np.testing.assert_array_equal(body.cells, [[[1, 0], [-1, -1]], [[1, -1], [0, 0]]])
    assert Body(shape=[["aaa"]]).cells.shape == (1, 1, 3)
    assert Body(shape=["aa\naa", "aa\naa"]).cells.shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"shape": [["a"]], "engine": "squares"}, "squares only exist in 2-D"),
        ({"shape": [["a", "a"], ["a"]]}, "all levels need as many rows"),
        (
            {"shape": "a", "engine": "points", "materials": {"a": {"mass_side_ratio": 0.2}}},
            "mass_side_ratio: it has no meaning",
        ),
        ({"shape": "a", "materials": {"a": {"young_modulus": 1e4, "density": 1}}}, "young_modulus: it has no meaning"),
        (
            {"shape": "a", "materials": {"a": {"yield_force": 10}}},
            "materials.a.yield_force: it has no meaning for squares",
        ),
        ({"shape": "a", "materials": {"a": {"scaffolding": ["edges"]}}}, "edges cannot join squares"),
        ({"shape": [["a"]], "materials": {"a": {"scaffolding": ["side_cross"]}}}, "side_cross cannot join points"),
        ({"shape": "a", "materials": {"a": {"scaffolding": ["edges", "side_cross"]}}}, "one kind or the other"),
        ({"shape": [["a"]], "materials": {"a": {"scaffolding": ["face_diagonals"]}}}, "falls apart"),
        ({"shape": [["a"]], "materials": {"a": {"density": 1}}}, "go together"),
        (
            {"shape": [["a"]], "materials": {"a": {"density": 1, "young_modulus": 1e4, "mass": 2}}},
            "take the place of spring_frequency and mass",
        ),
        (
            {"shape": "a", "engine": "points", "materials": {"a": {"scaffolding": ["edges", "space_diagonals"]}}},
            "space_diagonals cannot join points",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(wrong, reported):
    with pytest.raises(ValidationError, match=reported):
        Body.model_validate(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.full)])
def test_springs_break_beyond_their_yield_force_and_stay_broken(dimension):
    """Voxels hung by their upper corners, at rest under their weight: each vertical edge bears one corner's."""
    weight = 9.8
    shape = ("aa",) if dimension == 2 else (("aa",),)
    materials = {"a": Material(scaffolding=["edges"], spring_damping_ratio=1.0, yield_force=1.0)}
    body = Body(shape=shape, engine="points", materials=materials)
    upper = np.zeros((2**dimension, *body.present.shape), bool)
    upper[2 ** (dimension - 1) :] = True
    model = assemble_body(body, anchored=upper)
    start = rest_state(model)
    sag = weight / float(model.stiffness[0].max())
    low = (jnp.arange(start.position.shape[1]) == 0).reshape(-1, *(1,) * dimension)
    hung = replace(start, position=start.position.at[..., -1].add(-sag * low[..., 0]))

    def lose(share):
        """With voxels of different strength: one share of the weight and another."""
        limited = replace(model, yield_force=weight * jnp.asarray(share).reshape(model.present.shape))
        controls = jnp.zeros((1, *model.present.shape))
        options = {"substep": 1 / 600, "count": 60}
        end, _ = advance_through(limited, Environment(gravity=jnp.float32(weight)), hung, controls, **options)
        again, _ = advance_through(limited, WEIGHTLESS, end, controls, **options)
        return broken_springs(limited, end).reshape(-1), broken_springs(limited, again).reshape(-1), end.position

    holds, breaks = jnp.array([1.02, 1.02]), jnp.array([0.98, 20.0])
    (clamped, lost), (_, still_lost), position = jax.vmap(lose)(jnp.stack([holds, breaks]))
    upright = 2 ** (dimension - 1)
    assert clamped.tolist() == [0, 0]
    assert lost.tolist() == [upright, 0]  # the weak voxel's alone
    assert still_lost.tolist() == lost.tolist()
    np.testing.assert_allclose(position[0], hung.position, atol=1e-4)
    assert float((hung.position - position[1])[..., -1].max()) > 0.02  # what depended on the weak voxel alone falls


def test_what_cannot_break_has_no_state_for_it():
    model = assemble_body(body_of(2))
    assert model.yield_force is None
    assert rest_state(model).intact is None
    strong = assemble_body(body_of(2, yield_force=1e9))
    ends = [run(each, shaken(each), time=0.05, substep=1 / 600) for each in (model, strong)]
    np.testing.assert_allclose(ends[0].position, ends[1].position, atol=1e-5)
    assert int(broken_springs(strong, ends[1]).sum()) == 0


def test_broken_springs_are_told(capsys):
    body = {"shape": "a", "engine": "points", "materials": {"a": {"yield_force": 20.0}}}
    task = {"duration": 1.0, "placement": {"clearance": 3.0}, "measures": ["broken_springs"]}
    scene = {"robot": {"body": body}, "task": task}
    outcome = simulate(Scene.model_validate(scene))
    assert outcome.broken_springs
    assert not outcome.failed
    assert outcome.measures == {"broken_springs": outcome.broken_springs}
    assert MEASURES["broken_springs"](SimpleNamespace(broken_springs=None, total_time=jnp.float32(1))) == 0  # none can
    show_outcome("one voxel", Scene.model_validate(scene), outcome, None)
    assert capsys.readouterr().out.count("broken_springs") == 1
    assert as_plain(Scene.model_validate(scene), outcome)["broken_springs"] == outcome.broken_springs

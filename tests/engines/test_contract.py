"""The contract of engines, tried on every engine in every dimension that its masses exist in."""

from abc import update_abstractmethods
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vsr
from vsr.environment import Environment
from vsr.physics.contract import Capabilities, Contact, Core, Engine, KernelLayout
from vsr.physics.engine import ENGINES, assemble_body, engine_of
from vsr.physics.failure import Failure
from vsr.physics.points.engine import PointEngine
from vsr.physics.points.model import PointModel
from vsr.robot import ENGINE_KINDS, Body

pytestmark = pytest.mark.usefixtures("quickly_compiled")
CASES = [(name, dimension) for name, kind in ENGINE_KINDS.items() for dimension in kind.dimensions]
FREE = Environment(gravity=jnp.float32(0.0))
COUNT = 4


class Case:
    """One engine with a body that has a voxel less than its grid, and its programs, each compiled once."""

    def __init__(self, masses, dimension):
        self.engine, self.dimension = ENGINES[masses], dimension
        first, *others = ENGINE_KINDS[masses].materials
        rows = (first * 2, (others or [first])[0] + ".")
        self.body = Body(shape=rows if dimension == 2 else (rows, (first + ".", "..")), engine=masses)
        self.model = assemble_body(self.body)
        self.rest = self.engine.rest_state(self.model)
        bound = self.engine.longest_substep(
            list(self.body.materials.values()), self.body.voxel_side, dimension, self.engine.default_integrator
        )
        self.substep = self.engine.fixed_substep or 0.5 * bound
        self.still = jnp.zeros((2, *self.model.present.shape))

    @cached_property
    def pushed(self):
        """The body after impulses at its vertices, and these, like the vertices' positions."""
        found = self.engine.vertices(self.model, self.rest)
        size = 0.01 * self.body.voxel_side / self.substep / 100
        impulses = size * jax.random.normal(jax.random.key(0), found.position.shape)
        impulses = jnp.where(found.exists[..., None], impulses, 0)
        return self.engine.push_vertices(self.model, self.rest, impulses, jnp.zeros_like(impulses)), impulses

    def answers(self, state):
        """Of the core and of contact."""
        engine, model = self.engine, self.model
        return {
            "voxel_motion": engine.voxel_motion(model, FREE, state)._replace(ground=None),
            "center": engine.center(model, state),
            "bounding_box": engine.bounding_box(model, state),
            "momentum": engine.momentum(model, state),
            "total_mass": engine.total_mass(model),
            "failure": engine.failure(model, state),
            "vertices": engine.vertices(model, state),
            "hull": engine.hull(model, state),
            "ground_points": engine.ground_points(model, state),
            "energies": engine.energies(model, FREE, state, self.still[0], self.substep),
        }

    def move(self, state):
        return self.engine.advance(self.model, FREE, state, self.still, substep=self.substep, count=COUNT)

    @cached_property
    def _many(self):
        return jax.jit(jax.vmap(lambda state: (self.answers(state), self.move(state))))

    @cached_property
    def together(self):
        """Answers and motion of the body at rest and of the pushed one."""
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), self.rest, self.pushed[0])
        return self._many(both)

    @cached_property
    def later(self):
        """Answers of the pushed body after its motion."""
        return jax.tree.map(lambda leaf: leaf[1], self._many(self.together[1][0])[0])

    def of(self, place):
        """Answers, the state after two intervals and the telemetry: 0 at rest, 1 pushed."""
        answers, (after, seen) = jax.tree.map(lambda leaf: leaf[place], self.together)
        return answers, after, seen


KNOWN = {}


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}D")
def case(request):
    if request.param not in KNOWN:
        KNOWN[request.param] = Case(*request.param)
    return KNOWN[request.param]


def test_shapes_and_kinds_of_numbers(case):
    answers, after, seen = case.of(1)
    dimension, cells, corners = case.dimension, case.model.present.shape, 2**case.dimension
    motion = answers["voxel_motion"]
    assert motion.corner.shape == (corners, *cells, dimension)
    assert motion.velocity.shape == (*cells, dimension)
    assert motion.size_ratio.shape == motion.contact.shape == cells
    assert answers["center"].shape == answers["momentum"].shape == (dimension,)
    assert [one.shape for one in answers["bounding_box"]] == [(dimension,)] * 2
    assert answers["total_mass"].shape == ()
    vertices = answers["vertices"]
    places = case.engine.vertex_indices(case.model)
    assert vertices.position.shape == vertices.velocity.shape == (*vertices.exists.shape, dimension)
    assert vertices.exists.dtype == bool
    assert places.shape == (corners, *cells)
    assert jnp.issubdtype(places.dtype, jnp.integer)
    assert answers["hull"].position.shape == (corners, *cells, dimension)
    assert answers["failure"].shape == seen.failure.shape == seen.height.shape
    assert jnp.issubdtype(seen.failure.dtype, jnp.integer)
    assert jax.tree.structure(after) == jax.tree.structure(case.rest)
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(case.rest), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    assert case.engine.flaw(case.model).shape == ()
    assert engine_of(case.model) is case.engine


def test_a_body_at_rest_stays(case):
    """Without gravity and control nothing moves, and nothing fails."""
    answers, after, seen = case.of(0)
    side = case.body.voxel_side
    np.testing.assert_allclose(after.position, case.rest.position, atol=1e-5 * side)
    assert float(jnp.abs(after.velocity).max()) < 1e-3 * side
    assert not np.asarray(seen.failure).any()
    there = np.asarray(case.body.present)
    np.testing.assert_allclose(np.asarray(answers["voxel_motion"].size_ratio)[there], 1, rtol=1e-4)


def test_many_bodies_move_as_each_alone(case):
    alone = jax.jit(case.move)(case.pushed[0])
    _, after, seen = case.of(1)
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves((after, seen)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert float(jnp.abs(after.position - case.rest.position).max()) > 1e-5 * case.body.voxel_side


def test_pushes_give_their_momentum(case):
    """At vertices and at the hull; and springs keep it, as far as nothing damps."""
    pushed, impulses = case.pushed
    total = np.asarray(impulses.sum(tuple(range(impulses.ndim - 1))))
    size = float(jnp.abs(impulses).sum())
    np.testing.assert_allclose(case.of(1)[0]["momentum"], total, atol=1e-5 * size)
    there = np.asarray(case.model.present) > 0
    at_corners = 0.01 * size * np.ones((2**case.dimension, *there.shape, case.dimension)) * there[None, ..., None]
    after = case.engine.push_hull(case.model, case.rest, jnp.asarray(at_corners, jnp.float32))
    given = at_corners.sum(tuple(range(at_corners.ndim - 1)))
    np.testing.assert_allclose(case.engine.momentum(case.model, after), given, rtol=1e-4)
    assert float(jnp.abs(pushed.velocity).max()) > 0


def test_energy_does_not_grow(case):
    before = case.of(1)[0]["energies"]
    if before is None:
        assert jnp.isinf(case.engine.least_damping(case.model))
        return
    after = case.later["energies"]
    assert before.total.shape == ()
    assert float(before.motion) > 0
    assert float(after.total) < float(before.total) * (1 + 1e-3)
    assert float(case.of(0)[0]["energies"].total) == pytest.approx(0, abs=1e-3 * float(before.total))


def test_what_is_no_number_fails(case):
    exists = case.engine.vertices(case.model, case.rest).exists
    lost = replace(case.rest, position=jnp.where(exists[..., None], jnp.nan, case.rest.position))
    found = np.asarray(case.engine.failure(case.model, lost))
    assert found.max() == Failure.not_finite
    fast = replace(case.rest, velocity=case.rest.velocity + 1e6)
    assert (np.asarray(case.engine.failure(case.model, fast)) == Failure.exploded).any()


def test_the_bounding_box_has_all_vertices_and_the_center(case):
    answers = case.of(1)[0]
    low, high = map(np.asarray, answers["bounding_box"])
    place = np.asarray(answers["vertices"].position)[np.asarray(answers["vertices"].exists)]
    slack = 1e-5 * case.body.voxel_side
    assert (place >= low - slack).all()
    assert (place <= high + slack).all()
    assert ((low < answers["center"]) & (answers["center"] < high)).all()
    width = np.array(case.model.present.shape)[::-1] * case.body.voxel_side
    np.testing.assert_allclose(high - low, width, rtol=1e-4)


def test_vertices_are_the_corners_of_voxels(case):
    """At rest those of a voxel are a cube's, wherever its engine keeps them."""
    vertices = case.of(0)[0]["vertices"]
    place = np.asarray(vertices.position).reshape(-1, case.dimension)
    there = np.asarray(case.model.present) > 0
    corner = place[np.asarray(case.engine.vertex_indices(case.model))][:, there]
    bits = np.array([[number >> axis & 1 for axis in range(case.dimension)] for number in range(len(corner))])
    expected = np.argwhere(there)[:, ::-1] + bits[:, None]
    # A vertex that voxels share by a side lies within their welded masses, at most a mass away from the lattice.
    np.testing.assert_allclose(corner / case.body.voxel_side, expected, atol=0.31)
    points, held = case.of(0)[0]["ground_points"]
    assert np.asarray(held).any()
    assert float(points[..., -1].min()) == pytest.approx(0, abs=1e-5)


def test_turning_goes_there_and_back(case):
    engine, pivot = case.engine, case.engine.center(case.model, case.rest)
    turned = engine.turned(case.rest, pivot, 0.5)
    assert float(jnp.abs(turned.position - case.rest.position).max()) > 0.1 * case.body.voxel_side
    back = engine.turned(turned, pivot, -0.5)
    np.testing.assert_allclose(back.position, case.rest.position, atol=1e-5 * case.body.voxel_side)
    np.testing.assert_allclose(engine.center(case.model, turned), pivot, atol=1e-5 * case.body.voxel_side)


def test_springs_are_drawn_between_corners(case):
    ends, parts = case.engine.spring_ends(case.dimension), case.engine.rigid_parts(case.model)
    voxels = int(case.body.present.sum())
    assert parts.slot.shape == (voxels, 2**case.dimension)
    assert parts.slot.max() < np.prod(case.rest.position.shape[:-1])
    assert all(first != second and group < parts.springs.shape[1] for group, first, _, second, _ in ends)


# An engine of one's own


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BareModel(PointModel):
    """A body of points that another engine moves."""

    engine: ClassVar[str] = "bare"


class Bare(Engine):
    """The core and contact of points, and nothing else."""

    default_integrator = PointEngine.default_integrator

    def assemble(self, *given, **options):
        model = PointEngine().assemble(*given, **options)
        return BareModel(**{one.name: getattr(model, one.name) for one in fields(model)})


for _name in (Core.__abstractmethods__ | Contact.__abstractmethods__) - {"assemble"}:
    setattr(Bare, _name, getattr(PointEngine, _name))
update_abstractmethods(Bare)


def test_an_engine_lacks_nothing_of_the_core():
    assert (len(Core.__abstractmethods__), len(Contact.__abstractmethods__)) == (12, 3)
    with pytest.raises(TypeError, match="advance"):
        type("Nothing", (Engine,), {})()


@pytest.fixture
def bare():
    """An engine as a plugin registers it, with masses of its own."""
    ENGINES["bare"], ENGINE_KINDS["bare"] = Bare(), replace(ENGINE_KINDS["points"], dimensions=(2,))
    yield ENGINES["bare"]
    del ENGINES["bare"], ENGINE_KINDS["bare"]


def test_absent_capabilities_answer_as_documented(bare):
    model = assemble_body(Body(shape=("aa",), engine="points"))
    state, control = bare.rest_state(model), jnp.zeros(model.present.shape)
    assert bare.energies(model, FREE, state, control, 0.01) is None
    assert bare.chambers(model, state, control) is None
    assert bare.broken_springs(model, state) is None
    assert bare.angles(state) is None
    assert bare.intact_springs(state) is None
    assert bare.scaled(model, 2.0, 2.0, 2.0) is model
    assert bare.scales == ()
    assert bare.fixed_substep is None
    assert bare.check([], None, "auto") == {}
    assert bare.layers_needed(np.ones((1, 2), bool)) == bare.most_layers(2) == 1
    assert int(bare.flaw(model)) == 0
    assert type(bare.kernel) is KernelLayout
    assert bare.kernel.packed(model, state) is state
    assert bare.kernel.unpacked(state) is state
    assert bare.kernel.prepared(model, FREE, 0.01) is model
    assert not bare.kernel.takes_many_controls("auto", jnp.dtype("float32"))
    assert bare.kernel.carriers(model, state) is None
    own = PointEngine()
    for one, other in zip(bare.hull(model, state), own.hull(model, state), strict=True):
        np.testing.assert_array_equal(one, other)
    impulses = jax.random.normal(jax.random.key(1), bare.hull(model, state).position.shape)
    found, expected = bare.push_hull(model, state, impulses), own.push_hull(model, state, impulses)
    np.testing.assert_allclose(found.velocity, expected.velocity, rtol=1e-5, atol=1e-6)
    assert {name for name in vars(Capabilities) if not name.startswith("_")} >= {"energies", "scaled", "kernel"}


@pytest.mark.slow
def test_an_engine_of_a_plugin_is_simulated(bare):
    """Its name stands in a description like those that are shipped."""

    def fall(masses):
        robot = {"body": {"shape": ["aa"], "engine": masses}}
        task = {"type": "locomotion", "duration": 0.2}
        return vsr.simulate(vsr.Scene.model_validate({"robot": robot, "task": task}), keep_trajectory=True)

    mine, shipped = fall("bare"), fall("points")
    assert not mine.failed
    assert type(mine.model) is BareModel
    np.testing.assert_allclose(mine.trajectory.state.position, shipped.trajectory.state.position, atol=1e-5)
    with pytest.raises(ValueError, match="'points'"):
        Body(shape=("aa",), engine="bear")

"""Bodies at rest: against closed forms, against the end of the engine's motion, and solvers against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment import Environment
from vsr.environment.obstacles import ball, floor
from vsr.evidence.validate.lattice.bar import relax, rest_state
from vsr.evidence.validate.lattice.statics import heavy_bar
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.points.energy import potential_energy
from vsr.physics.points.model import PointState
from vsr.physics.statics import Settings, dense, equilibrium, matrix_free
from vsr.physics.statics.sections import by_sections
from vsr.physics.statics.voxels import (
    chamber_volumes,
    depth,
    energy,
    free_coordinates,
    voxel_system,
)
from vsr.physics.statics.voxels import resting as parameters_of
from vsr.robot import Body, Material
from vsr.robot.corners import corner_steps
from vsr.robot.fluid import Fluid
from vsr.scene import precision

ENGINE_KINDS, GRAVITY = 6, 9.81


def chain_energy(height, given):
    """Masses of 1 kg, each depending on the one above by a spring of 0.1 m; the first depends on the ceiling."""
    stiffness, gravity = given
    above = jnp.concatenate([jnp.zeros((1,), height.dtype), height[:-1]])
    return 0.5 * (stiffness * (above - height - 0.1) ** 2).sum() + gravity * height.sum()


def chain_at_rest(stiffness, gravity):
    """Every spring carries all masses below it."""
    carried = gravity * np.arange(ENGINE_KINDS, 0, -1)
    return -np.cumsum(0.1 + carried / stiffness)


SOLVERS = {
    "dense": dense(chain_energy),
    "matrix_free": matrix_free(chain_energy),
    "sections": by_sections(lambda place, given: chain_energy(place[:, 0], given), 0),
}


def hang(name, stiffness, gravity=GRAVITY, dtype=jnp.float64):
    shape = (ENGINE_KINDS, 1) if name == "sections" else (ENGINE_KINDS,)
    start = jnp.linspace(-0.1, -0.1 * ENGINE_KINDS, ENGINE_KINDS, dtype=dtype).reshape(shape)
    given = jnp.asarray(stiffness, dtype), jnp.asarray(gravity, dtype)
    return equilibrium(SOLVERS[name], start, jnp.ones(shape, dtype), given, size=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SOLVERS))
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_chain_hangs_as_springs_carry(name, kind):
    with precision(kind):
        found = jax.jit(lambda k: hang(name, k, dtype=jnp.dtype(kind)))(300.0)
        expected = chain_at_rest(300.0, GRAVITY)
        np.testing.assert_allclose(np.ravel(found.position), expected, rtol=1e-5 if kind == "float32" else 1e-12)
        assert bool(found.converged)
        assert float(found.residual) < (1e-3 if kind == "float32" else 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SOLVERS))
def test_rest_moves_with_parameters_forwards_and_backwards(name):
    with precision("float64"):

        def lowest(stiffness, gravity):
            return hang(name, stiffness, gravity).position.reshape(-1)[-1]

        # z = -(0.1 n + g n (n + 1) / 2 / k)
        total = ENGINE_KINDS * (ENGINE_KINDS + 1) / 2
        expected = GRAVITY * total / 300.0**2, -total / 300.0
        for derive in (jax.jacfwd, jax.jacrev):
            found = jax.jit(derive(lowest, (0, 1)))(300.0, GRAVITY)
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_many_chains_at_once():
    with precision("float64"):
        stiffness = jnp.array([100.0, 200.0, 400.0])
        found = jax.jit(jax.vmap(lambda k: hang("dense", k)))(stiffness)
        for row, one in zip(np.asarray(found.position), stiffness, strict=True):
            np.testing.assert_allclose(row, chain_at_rest(float(one), GRAVITY), rtol=1e-12)


def saddle(place, _):
    """Two minima at x = ±1, a saddle between them."""
    x, y = place
    return x**4 / 4 - x**2 / 2 + y**2


def test_no_end_at_a_saddle():
    with precision("float64"):
        near = equilibrium(dense(saddle), jnp.array([1e-6, 0.5]), jnp.ones(2), (), size=1.0)
        np.testing.assert_allclose(near.position, [1, 0], atol=1e-9)
        assert bool(near.converged)
        # With no slope to follow it stays, and says that it is no minimum.
        at = equilibrium(dense(saddle), jnp.zeros(2), jnp.ones(2), (), size=1.0, settings=Settings(most_iterations=30))
        assert not bool(at.converged)


def test_what_has_no_minimum_is_flagged():
    with precision("float64"):
        found = equilibrium(dense(lambda x, _: x.sum()), jnp.zeros(2), jnp.ones(2), (), size=1.0)
        assert not bool(found.converged)


def fluid_body(dimension, drive="pressure", **fluid):
    """A small block held at its left, with a chamber inside."""
    solid = Material(young_modulus=1e5, density=1000.0)
    water = Material(
        young_modulus=1e5, density=1000.0, fluid=Fluid(drive=drive, depth=0.01 if dimension == 2 else 1.0, **fluid)
    )
    row, middle = "sss", "sws"
    shape = [row, middle, row] if dimension == 2 else [[row] * 3, [row, middle, row], [row] * 3]
    body = Body(shape=shape, materials={"s": solid, "w": water}, voxel_side=0.01, engine="points")
    clamped = np.zeros((2**dimension, *body.cells.shape), bool)
    for corner, steps in enumerate(corner_steps(dimension)):
        clamped[corner, ..., 0] = steps[-1] == 0
    return assemble_body(body, dtype=jnp.float64, anchored=clamped)


def undeformed(model):
    return jnp.broadcast_to(model.rest_position, (*model.node_mass.shape, model.dimension))


@jax.jit
def rest(given):
    model = given.model
    return equilibrium(voxel_system(), undeformed(model), free_coordinates(model), given, size=0.03)


def given_of(model, **environment):
    around = Environment(gravity=jnp.asarray(GRAVITY), **environment)
    volume = model.chambers.numbers.by_volume > 0
    drive = jnp.where(volume, 1.1 * model.chambers.rest_volume, 3000.0)
    return parameters_of(model, around, drive=drive)


def engines_energy(place, given):
    return potential_energy(given.model, given.environment, place, given.control, given.drive)


VALUE_AND_GRADIENT, ENGINES_OWN = jax.jit(jax.value_and_grad(energy)), jax.jit(jax.value_and_grad(engines_energy))
BY_BLOCKS, WHOLE = jax.jit(voxel_system().solve), jax.jit(dense(energy).solve)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.parametrize("drive", ["pressure", "volume"])
def test_the_energy_is_the_engines(dimension, drive):
    with precision("float64"):
        model = fluid_body(dimension, drive)
        given = given_of(model)
        noise = jax.random.normal(jax.random.key(0), undeformed(model).shape)
        place = undeformed(model) + 3e-4 * noise
        mine = VALUE_AND_GRADIENT(place, given)
        engine = ENGINES_OWN(place, given)
        np.testing.assert_allclose(mine[0], engine[0], rtol=1e-12)
        np.testing.assert_allclose(mine[1], engine[1], atol=1e-9 * float(jnp.abs(engine[1]).max()))


@pytest.mark.full
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("drive", ["pressure", "volume"])
def test_blocks_of_voxels_make_the_whole_matrix(dimension, drive):
    with precision("float64"):
        model = fluid_body(dimension, drive)
        given = given_of(model, bodies=(floor(dimension, 0.0),))
        free = free_coordinates(model)
        sides = free * jax.random.normal(jax.random.key(1), (2, *free.shape))
        place = undeformed(model) + 1e-5 * free * jax.random.normal(jax.random.key(2), free.shape)
        none = jnp.zeros(())
        mine, positive = BY_BLOCKS(place, given, free, sides, none)
        whole, _ = WHOLE(place, given, free, sides, none)
        assert bool(positive)
        np.testing.assert_allclose(mine, whole, atol=1e-9 * float(jnp.abs(whole).max()))


@pytest.mark.slow
def test_rest_is_where_the_engine_comes_to_rest():
    with precision("float64"):
        model = fluid_body(2)
        given = given_of(model)
        # Chambers' drives come from control values: -1 is the highest pressure, 1000 Pa; so ask for that.
        control = jnp.where(model.chambers.member[0] > 0, -1.0, 0.0)
        pressed = given._replace(drive=jnp.array([1000.0]))
        found = rest(pressed)
        assert bool(found.converged)
        engine = ENGINES["points"]
        state = PointState(undeformed(model), jnp.zeros_like(undeformed(model)))
        end, _ = engine.advance(
            model, given.environment, state, jnp.broadcast_to(control, (40, *control.shape)), substep=2e-4, count=500
        )
        moved = jnp.abs(found.position - undeformed(model)).max()
        assert float(jnp.abs(end.position - found.position).max()) < 1e-4 * float(moved)


@pytest.mark.slow
def test_a_body_leans_on_obstacles_without_entering_them():
    with precision("float64"):
        model = fluid_body(2)
        free = rest(given_of(model))
        low = float(free.position[..., -1].min())
        given = given_of(model, bodies=(ball([0.03, low - 0.018], 0.02),))
        found = rest(given)
        assert bool(found.converged)
        assert float(depth(given, free.position)) > 5e-4
        # Of a voxel's side of 10 mm.
        assert float(depth(given, found.position)) < 1e-4


@pytest.mark.full
def test_volumes_give_way_by_pressure_over_bulk_modulus():
    with precision("float64"):
        model = fluid_body(3, "volume", bulk_modulus=1e7)
        given = given_of(model)
        found = rest(given)
        assert bool(found.converged)
        ratio = float((chamber_volumes(model, found.position) / given.drive)[0])
        assert 0.99 < ratio < 1


@pytest.mark.full
def test_a_lattice_rests_where_its_motion_ends():
    with precision("float64"):
        bar = heavy_bar(2)
        lattice = bar.lattice()
        found = relax(lattice, Environment(gravity=jnp.asarray(GRAVITY)), rest_state(lattice))
        assert found.converged
        assert found.residual < 1e-9 * bar.line_density * bar.span * GRAVITY
        # Where the same bar came to rest when it was moved with damping until it stood still.
        tip = np.asarray(found.state.position)[..., -1, :].mean((0, 1)) - np.asarray(lattice.rest_position)[
            ..., 0, :
        ].mean((0, 1))
        np.testing.assert_allclose(tip[[0, 2]] / bar.span, [0.70611, -0.66281], atol=2e-4)

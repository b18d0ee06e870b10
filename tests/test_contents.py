"""Fluid in the voids of lattices: which voids are chambers, and that their load has an energy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment import Environment
from vsr.lattice import advance, energy, isotropic, of_cells, rest_state
from vsr.lattice.mesh import Mesh, surfaces
from vsr.physics.fluid import Filling, volume
from vsr.physics.fluid.contents import Contents, of_hollow_mesh, voids
from vsr.physics.fluid.shapes import icosphere
from vsr.scene import precision

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SIDE = 0.01


@pytest.fixture(autouse=True)
def _double():
    with precision("float64"):
        yield


def filling(pressure, *, chambers=1, density=0.0):
    return Filling(*(jnp.full(chambers, value) for value in (pressure, density, 0.0)))


def test_closed_voids_are_chambers_and_open_ones_are_not():
    present = np.ones((4, 4, 7), bool)
    present[1:3, 1:3, 1] = present[1, 1, 3] = present[1:, 1, 5] = False
    surface = voids(present, jnp.float64)
    lattice = of_cells(present, SIDE, isotropic(1e5, SIDE, 3), 1000.0, dtype=jnp.float64)
    place = lattice.rest_position.reshape(-1, 3)
    np.testing.assert_allclose(volume(surface, place), np.array([4, 1]) * SIDE**3, rtol=1e-12)
    with pytest.raises(ValueError, match="no chamber: every empty cell"):
        voids(np.ones((2, 2), bool))


def hollow_ball():
    """A ball of 2 cm with a void of 1.5 cm, as a mesh."""
    outer, inner = (np.asarray(ball.position)[ball.corners] for ball in (icosphere(2), icosphere(1)))
    return Mesh(np.concatenate([0.02 * outer, 0.015 * inner[:, ::-1]]))


@pytest.mark.slow
def test_an_inner_surface_is_a_chamber():
    mesh = hollow_ball()
    outer, inner = surfaces(mesh)
    assert outer.signed_volume > 0 > inner.signed_volume
    lattice, surface = of_hollow_mesh(mesh, 60, 5e4, 1000.0, dtype=jnp.float64)
    np.testing.assert_allclose(volume(surface, lattice.rest_position), -inner.signed_volume, rtol=1e-12)
    assert float(lattice.mass.sum()) == pytest.approx(1000 * (outer.signed_volume + inner.signed_volume), rel=1e-9)
    with pytest.raises(ValueError, match="no inner surface"):
        of_hollow_mesh(outer, 60, 5e4, 1000.0)


@pytest.mark.slow
def test_pressure_inflates_a_hollow_lattice_and_keeps_its_energy_and_momentum():
    present = np.ones((3, 3, 3), bool)
    present[1, 1, 1] = False
    lattice = of_cells(present, SIDE, isotropic(1e4, SIDE, 3), 1000.0, dtype=jnp.float64)
    surface = voids(present, jnp.float64)
    space = Environment(gravity=0.0, contents=Contents(surface, filling(2000.0, density=1000.0)))
    drift = []
    for step in (4e-4, 2e-4):
        count = round(0.01 / step)
        start = rest_state(lattice)
        end = advance(lattice, space, start, step=step, count=count, integrator="verlet", implementation="xla")
        before, after = (energy(lattice, space, state) for state in (start, end))
        drift.append(abs(float(after.total - before.total) / float(after.kinetic)))
        assert abs((lattice.mass[..., None] * end.velocity).sum((0, 1, 2))).max() < 1e-15
        grown = volume(surface, end.position.reshape(-1, 3)) / SIDE**3
        assert grown[0] > 1.02
    assert drift[1] < 0.3 * drift[0] < 0.02


@pytest.mark.slow
def test_weight_of_the_contents_is_felt():
    present = np.ones((3, 3), bool)
    present[1, 1] = False
    lattice = of_cells(present, SIDE, isotropic(1e4, SIDE, 2), 1000.0, dtype=jnp.float64)
    contents = Contents(voids(present, jnp.float64, depth=0.02), filling(300.0, density=800.0))
    place = lattice.rest_position + 1e-3 * jax.random.normal(jax.random.key(0), lattice.rest_position.shape)
    load = contents.load(place, 9.8)
    gradient = jax.grad(lambda where: contents.energy(where, 9.8))(place)
    np.testing.assert_allclose(load, -gradient, atol=1e-14)
    weight = 9.8 * 800 * float(volume(contents.surface, place.reshape(-1, 2))[0])
    np.testing.assert_allclose(load.sum((0, 1)), [0, -weight], atol=1e-14)
    falling = replace(rest_state(lattice), position=place)
    space = Environment(gravity=9.8, contents=contents)
    with pytest.raises(ValueError, match="the kernel knows no chambers"):
        advance(lattice, space, falling, step=1e-5, count=1, implementation="fused")

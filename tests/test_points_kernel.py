"""The GPU kernel for voxels of point masses does what plain JAX does: interpreted here, itself where there is a GPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.test_points import shaken
from vsr.body import Body, Material, assemble_point_body
from vsr.physics.model import Environment
from vsr.physics.points.dynamics import advance_through
from vsr.terrain import Bumpy, Flat, Hilly

pytestmark = pytest.mark.usefixtures("quickly_compiled")

KERNEL = "fused" if jax.default_backend() == "gpu" else "interpreted"
MATERIALS = {"a": Material(), "b": Material(spring_frequency=12.0, friction=0.1, restitution=0.5)}
BY_FORCE = {"a": Material(actuation="force", max_force=50.0), "b": Material(spring_damping_ratio=0.5)}
JOINED = {2: ("aab", "b.a"), 3: (("ab", "aa"), ("a.", "bb"))}
APART = {2: ("a.", ".b"), 3: (("a.", ".b"), (".b", "a."))}
"""Voxels that touch at corners and edges only: several layers of nodes."""
SUBSTEP, COUNT = 1 / 250, 3


def ground(terrain) -> Environment:
    return Environment(gravity=jnp.float32(9.8), terrain=terrain.build(jnp.float32))


def moved(implementation, model, environment, state, controls):
    return advance_through(
        model, environment, state, controls, substep=SUBSTEP, count=COUNT, implementation=implementation
    )


def controls_for(model, seed=1):
    return jnp.float32(np.random.default_rng(seed).uniform(-1.2, 1.2, (2, *model.present.shape)))


@pytest.mark.parametrize(
    ("shape", "materials", "terrain", "layers"),
    [
        (JOINED[2], MATERIALS, Hilly(), 1),
        (APART[2], BY_FORCE, Flat(), 2),
        (JOINED[3], BY_FORCE, Bumpy(), 1),
        (APART[3], MATERIALS, Flat(), 2),
    ],
)
def test_the_kernel_moves_bodies_as_plain_jax_does(shape, materials, terrain, layers):
    model = assemble_point_body(Body(shape=shape, masses="points", materials=materials))
    assert (model.layer.shape[0] > 1) == (layers > 1)
    state, controls = shaken(model), controls_for(model)
    results = [moved(name, model, ground(terrain), state, controls) for name in ("xla", KERNEL)]
    assert np.abs(results[0][0].position - state.position).max() > 1e-3
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4 * max(1, np.abs(one).max()))


def test_many_robots_at_once_are_each_alone():
    model = assemble_point_body(Body(shape=JOINED[2], masses="points", materials=MATERIALS))
    environment, alone = ground(Flat()), [shaken(model, seed) for seed in range(3)]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    controls = jnp.stack([controls_for(model, seed) for seed in range(3)])
    together = jax.vmap(lambda state, control: moved(KERNEL, model, environment, state, control)[0])(states, controls)
    for number, state in enumerate(alone):
        single = moved(KERNEL, model, environment, state, controls[number])[0]
        np.testing.assert_allclose(together.position[number], single.position, rtol=1e-5, atol=1e-6)


def test_what_the_kernel_cannot_do_is_refused():
    model = assemble_point_body(Body(shape=JOINED[2], masses="points", materials=MATERIALS), integrator="rk4")
    with pytest.raises(ValueError, match="rk4 was asked for"):
        moved(KERNEL, model, ground(Flat()), shaken(model), controls_for(model))

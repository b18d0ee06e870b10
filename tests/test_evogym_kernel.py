"""EvoGym's physics as one GPU kernel, beside plain JAX."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_evogym import ENGINE, body_of, with_objects

from vsr.environment import Environment
from vsr.physics.engine import assemble_body
from vsr.physics.evogym import GroundCells, law

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KERNEL = "interpreted" if jax.default_backend() == "cpu" else "fused"


@pytest.mark.slow
def test_the_kernel_moves_worlds_as_plain_jax_does():
    """In the ground, at its steps, in each other; two worlds at once, one of them folded."""
    model, state = with_objects()
    random = np.random.default_rng(3)
    shaken = replace(
        state,
        position=state.position
        + jnp.float32(random.normal(0, 0.004, state.position.shape))
        - jnp.array([0.115, 0.012]),
        velocity=jnp.float32(random.normal(0, 0.5, state.velocity.shape)),
        drift=jnp.float32(random.normal(0, 0.5, state.velocity.shape)),
    )
    folded = replace(
        shaken, position=shaken.position.at[0, 2, 0].set(shaken.position[0, 0, 1] + jnp.array([0.02, 0.03]))
    )
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), shaken, folded)
    environment = Environment(gravity=jnp.float32(law.GRAVITY))
    controls = jnp.float32(random.uniform(-1, 1, (2, 2, 2, 2)))

    def moved(implementation):
        def one(state, controls):
            return ENGINE.advance(
                model, environment, state, controls, substep=law.SUBSTEP, count=5, implementation=implementation
            )[0]

        return jax.jit(jax.vmap(one))(states, controls)

    plain, kernel = moved("xla"), moved(KERNEL)
    assert np.asarray(plain.unstable).tolist() == np.asarray(kernel.unstable).tolist()
    for ours, theirs in zip((kernel, *kernel.objects), (plain, *plain.objects), strict=True):
        np.testing.assert_allclose(ours.position, theirs.position, atol=2e-6)
        np.testing.assert_allclose(ours.velocity, theirs.velocity, atol=2e-3 * np.abs(theirs.velocity).max())
    # Something touched: without ground and package the robot moves otherwise.
    alone = replace(model, ground=GroundCells.of(np.zeros((4, 9), bool)), objects=())
    free = ENGINE.advance(alone, environment, replace(shaken, objects=()), controls[0], substep=law.SUBSTEP, count=5)[0]
    assert np.abs(free.position - plain.position[0]).max() > 1e-4


@pytest.mark.slow
def test_the_kernel_sees_arms_that_close_and_more_than_it_has_lanes():
    """Far above the ground arms meet halfway through the substeps; arms lie in each other, 34 corners in the bounds of
    other voxels; amid scattered cells half of 36 corners are in one, and a corner of two of them is in each voxel."""
    model = assemble_body(body_of("hhhh", "h...", "hhhh"))
    solid = np.zeros((8, 8), bool)
    solid[::2, ::2] = solid[1::2, 1::2] = True
    model = replace(model, ground=GroundCells.of(solid))
    rest = ENGINE.rest_state(model)
    # The upper arm's last voxel, two and three cells up, hangs down to 0.003 above the lower arm and falls.
    hanging = rest.position.at[0, 2, 3:, 1].add(-0.097).at[0, 3, 3:, 1].add(-0.06)
    velocity = jnp.zeros_like(rest.position).at[0, 2:, 3:, 1].set(-8.0)
    closing = replace(rest, position=hanging + jnp.array([0.013, 2.017]), velocity=velocity, drift=velocity)
    inside = rest.position.at[0, 2:].add(jnp.array([0.031, -0.163]))
    turn = jnp.array([[np.cos(0.7), np.sin(0.7)], [-np.sin(0.7), np.cos(0.7)]], jnp.float32)
    folded = replace(rest, position=inside @ turn + jnp.array([0.013, 2.017]))
    noise = jnp.float32(np.random.default_rng(1).normal(0, 0.003, rest.position.shape))
    amid = replace(rest, position=rest.position + noise + jnp.array([0.25, 0.26]))
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), closing, folded, amid)
    environment = Environment(gravity=jnp.float32(law.GRAVITY))

    def moved(implementation):
        def one(state):
            return ENGINE.advance(
                model,
                environment,
                state,
                jnp.zeros((1, 3, 4)),
                substep=law.SUBSTEP,
                count=8,
                implementation=implementation,
            )[0]

        return jax.jit(jax.vmap(one))(states)

    plain, kernel = moved("xla"), moved(KERNEL)
    assert np.asarray(plain.unstable).tolist() == np.asarray(kernel.unstable).tolist()
    np.testing.assert_allclose(kernel.position, plain.position, atol=2e-6)
    for ours, theirs in zip(kernel.velocity, plain.velocity, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3 * np.abs(theirs).max())

"""EvoGym's physics as one GPU kernel, beside plain JAX."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_evogym import ENGINE, body_of, with_objects

from vsr.environment import Environment
from vsr.physics.engine import assemble_body
from vsr.physics.evogym import GroundCells, kernel, law
from vsr.tasks.evogym.furnishing import with_objects as furnished
from vsr.tasks.evogym.table import ROWS, Block

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KERNEL = "interpreted" if jax.default_backend() == "cpu" else "fused"


@pytest.fixture(params=[32, 64])
def lanes(request, monkeypatch):
    """Of every world: one warp, or two, which wait for each other."""
    monkeypatch.setattr(kernel, "lanes_for", lambda places, nodes: request.param)
    return request.param


@pytest.mark.slow
def test_the_kernel_moves_worlds_as_plain_jax_does(lanes):
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

    plain, fused = moved("xla"), moved(KERNEL)
    assert np.asarray(plain.unstable).tolist() == np.asarray(fused.unstable).tolist()
    for ours, theirs in zip((fused, *fused.objects), (plain, *plain.objects), strict=True):
        np.testing.assert_allclose(ours.position, theirs.position, atol=2e-6)
        np.testing.assert_allclose(ours.velocity, theirs.velocity, atol=2e-3 * np.abs(theirs.velocity).max())
    # Something touched: without ground and package the robot moves otherwise.
    alone = replace(model, ground=GroundCells.of(np.zeros((4, 9), bool)), objects=())
    free = ENGINE.advance(alone, environment, replace(shaken, objects=()), controls[0], substep=law.SUBSTEP, count=5)[0]
    assert np.abs(free.position - plain.position[0]).max() > 1e-4


@pytest.mark.slow
def test_the_kernel_sees_arms_that_close_and_more_than_it_has_lanes(lanes):
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

    plain, fused = moved("xla"), moved(KERNEL)
    assert np.asarray(plain.unstable).tolist() == np.asarray(fused.unstable).tolist()
    np.testing.assert_allclose(fused.position, plain.position, atol=2e-6)
    for ours, theirs in zip(fused.velocity, plain.velocity, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3 * np.abs(theirs).max())


@pytest.mark.slow
def test_the_kernel_moves_soft_ground_and_heaps_as_plain_jax_does(lanes):
    """A robot in a soft bridge and beside its post, and one among loose blocks; a small world with both."""
    row = replace(
        ROWS["BridgeWalker-v0"],
        ground="3 1x3 3 1x2 3",
        soft=(Block(1, 1, 3, 2), Block(5, 1, 2, 2)),
        heap=(Block(5, 3, 2, 2), Block(7, 2, 1, 1)),
    )
    model = replace(furnished(row, assemble_body(body_of("hv", "sr"))), beginning=None)
    state = ENGINE.rest_state(model)
    random = np.random.default_rng(5)

    def shaken(one, corner):
        noise = jnp.float32(random.normal(0, 0.004, one.position.shape)) * jnp.any(one.position != 0)
        speed = jnp.float32(random.normal(0, 0.5, one.position.shape))
        return replace(one, position=one.position + noise + jnp.array(corner), velocity=speed, drift=speed)

    def still(one, body):
        free = body.inverse_mass[..., None] > 0
        later = shaken(one, [0.0, 0.0])
        position = jnp.where(free, later.position, one.position)
        return replace(one, position=position, velocity=later.velocity * free, drift=later.drift * free)

    def start(corner):
        objects = tuple(still(now, one.body) for now, one in zip(state.objects, model.objects, strict=True))
        return replace(shaken(state, corner), objects=objects)

    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), start([0.25, 0.28]), start([0.47, 0.29]))
    environment = Environment(gravity=jnp.float32(law.GRAVITY))
    controls = jnp.float32(random.uniform(-1, 1, (1, 2, 2)))

    def moved(implementation, model=model):
        def one(state):
            return ENGINE.advance(
                model, environment, state, controls, substep=law.SUBSTEP, count=4, implementation=implementation
            )[0]

        return jax.jit(jax.vmap(one))(states)

    plain, fused = moved("xla"), moved(KERNEL)
    for ours, theirs in zip((fused, *fused.objects), (plain, *plain.objects), strict=True):
        np.testing.assert_allclose(ours.position, theirs.position, atol=2e-6)
        np.testing.assert_allclose(ours.velocity, theirs.velocity, atol=2e-3 * np.abs(theirs.velocity).max())
    ground, fixed = model.objects[0].body, np.asarray(model.objects[0].body.inverse_mass) == 0
    moved_by = np.asarray(fused.objects[0].position - states.objects[0].position)[:, fixed]
    assert np.abs(moved_by).max() < 1e-7  # by rounding
    # Something touched: without the robot's contact soft ground moves otherwise.
    alone = replace(
        model, objects=(replace(model.objects[0], body=replace(ground, outer=0 * ground.outer)), model.objects[1])
    )
    assert np.abs(moved("xla", alone).objects[0].position - plain.objects[0].position).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("task", ["Walker-v0", "Pusher-v0"])
def test_tables_of_bodies_that_are_kept_change_nothing(task):
    """Where bodies begin on the lattice, in every bit; Pusher's package falls onto it, and its landing is not kept."""
    model = furnished(ROWS[task], assemble_body(body_of("hv", "vh")))
    environment = Environment(gravity=jnp.float32(law.GRAVITY))
    kept = ENGINE.kernel.prepared(model, environment, law.SUBSTEP, KERNEL)
    assert kept.tables is not None
    assert ("first" in kept.tables) == (task == "Walker-v0")
    assert ENGINE.kernel.prepared(model, environment, law.SUBSTEP, "xla").tables is None
    assert ENGINE.scaled(kept, 1.0, 1.0, 1.0).tables is None
    rest = ENGINE.rest_state(model)
    start = replace(rest, position=rest.position + law.SIDE * jnp.array(ROWS[task].start, jnp.float32))

    def moved(model):
        return jax.jit(
            lambda model, start: ENGINE.advance(
                model, environment, start, jnp.ones((2, 2, 2)), substep=law.SUBSTEP, count=3, implementation=KERNEL
            )[0]
        )(model, start)

    one, other = moved(model), moved(kept)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert np.abs(one.velocity).max() > 0

"""The kernel of grains against plain JAX: in the interpreter, and compiled where there is a GPU."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment import Environment
from vsr.evidence.validate.sand import contacts, scenes, solids
from vsr.physics.granular import Box, driven, free, grains_of
from vsr.physics.granular.model import in_order, momentum
from vsr.physics.granular.step import step
from vsr.sdf import Ball, Block
from vsr.terrain.surface import Terrain

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KERNEL = "interpreted" if jax.default_backend() == "cpu" else "fused"
on_a_gpu = pytest.mark.skipif(KERNEL == "interpreted", reason="needs an NVIDIA GPU")
GROUND = Environment(
    gravity=jnp.float32(9.81), terrain=Terrain.of(np.array([-9.0, 0.3, 9.0]), np.array([0.0, 0.0, 0.5]), friction=0.4)
)

SCALE = {"position": 1.0, "spin": 5000.0}
"""How much larger differences may be than those of places [m]: grains move by a meter a second, and roll."""


def thrown(dimension, *, rolling=None, alike=False, bodies=(), grounded=True, count=30):
    """Grains of many kinds in a heap that falls to the ground, in a cyclic box."""
    random = np.random.default_rng(5)
    side = 5 if dimension == 2 else 4  # across
    place = np.stack(np.unravel_index(np.arange(count), (count, *(side,) * (dimension - 1))), 1)[:, ::-1]
    position = 0.043 * (place + 0.5) + random.uniform(-0.001, 0.001, place.shape)
    radius = 0.02 if alike else random.uniform(0.016, 0.022, count)
    mass = 1.0 if alike else random.uniform(0.5, 1.5, count)
    friction = 0.5 if alike else random.uniform(0.2, 0.8, count)
    box = Box((0.0,) * dimension, (*(0.043 * side,) * (dimension - 1), 1.0), (*(True,) * (dimension - 1), False))
    return grains_of(
        position, radius, mass, friction=friction, rolling=rolling, box=box, bodies=bodies, grounded=grounded,
        velocity=random.normal([*(0.0,) * (dimension - 1), -0.6], 0.3, place.shape), iterations=2,
    )  # fmt: skip


def both(grains, environment, steps=40):
    """The state after some steps, in plain JAX and by the kernel, and all reactions on bodies."""
    ends = []
    for implementation in ("xla", KERNEL):
        model = replace(grains, implementation=implementation)

        def one(carry, _, model=model):
            state, _, reactions = step(model, environment, carry, (), scenes.STEP)
            return state, reactions

        ends.append(jax.jit(lambda state, one=one: jax.lax.scan(one, state, None, steps))(model.rest_state()))
    return ends


def same(plain, kernel, way):
    for name in ("position", "velocity", "spin", "received"):
        if getattr(plain, name) is not None:
            ours, theirs = (in_order(getattr(state, name), state) for state in (kernel, plain))
            np.testing.assert_allclose(ours, theirs, atol=way * SCALE.get(name, 100.0), err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "kind"),
    [
        (2, {}),
        (2, {"rolling": 0.1}),
        (3, {"alike": True}),
        (3, {"rolling": 0.1}),
        (2, {"alike": True, "rolling": 0.0}),
    ],
)
def test_the_kernel_does_what_plain_jax_does(dimension, kind):
    (plain, pushes), (kernel, ours) = both(thrown(dimension, **kind), GROUND)
    assert float(jnp.abs(pushes[0].impulse).max()) > 0.01  # some have met the ground
    assert float(jnp.abs(plain.velocity - thrown(dimension, **kind).start.velocity).max()) > 0.2  # and each other
    same(plain, kernel, 2e-6)
    np.testing.assert_allclose(ours[0].impulse, pushes[0].impulse, atol=2e-3)


@pytest.mark.slow
def test_bodies_in_the_kernel():
    """One that is driven through the grains, one that falls on them, and uneven ground."""
    ball = free(Ball(jnp.asarray(0.03)), (0.12, 0.285), 0.5, 1e-3)
    bodies = (
        driven(Block(jnp.array([0.02, 0.05])), (0.03, 0.05), (0.3, 0.0), spin=(1.0,)),
        replace(ball, motion=replace(ball.motion, velocity=jnp.array([0.0, -1.5]))),
    )
    hilly = Terrain.of(np.array([-9.0, 0.1, 0.12, 9.0]), np.array([0.0, 0.0, 0.03, 0.0]), friction=0.4)
    assert not hilly.convex
    (plain, pushes), (kernel, ours) = both(thrown(2, bodies=bodies), replace(GROUND, terrain=hilly), steps=60)
    same(plain, kernel, 5e-6)
    for one, other in zip(ours, pushes, strict=True):
        assert float(jnp.abs(other.impulse).max()) > 0  # each has met grains
        np.testing.assert_allclose(one.impulse, other.impulse, atol=5e-3)
    np.testing.assert_allclose(kernel.bodies[0].velocity, plain.bodies[0].velocity, atol=1e-3)


@pytest.mark.slow
def test_worlds_of_a_batch_in_the_kernel():
    grains = replace(thrown(2), implementation=KERNEL)
    first = grains.rest_state()
    faster = replace(first, velocity=1.5 * first.velocity)
    run = lambda state: jax.lax.fori_loop(0, 30, lambda _, now: step(grains, GROUND, now, (), scenes.STEP)[0], state)  # noqa: E731
    both = jax.jit(jax.vmap(run))(jax.tree.map(lambda a, b: jnp.stack([a, b]), first, faster))
    alone = jax.jit(run)
    for number, start in enumerate((first, faster)):
        end = alone(start)
        ours = in_order(both.position[number], jax.tree.map(lambda leaf: leaf[number], both))  # noqa: B023
        np.testing.assert_allclose(ours, in_order(end.position, end), atol=2e-6)


@pytest.mark.slow
def test_momentum_in_the_kernel():
    grains = replace(contacts.cloud(2, 60), implementation=KERNEL)
    start = grains.rest_state()
    end = scenes.run(grains, scenes.free_space(0.0), start, 60)
    moving = float((jnp.asarray(grains.mass)[start.id] * jnp.abs(start.velocity)).sum())
    assert float(jnp.abs(momentum(grains, end) - momentum(grains, start)).max()) < 1e-6 * moving
    assert float(jnp.abs(end.velocity - start.velocity).max()) > 0.1  # they met


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squares", "points", "3-D"])
def test_what_grains_of_the_kernel_gain_a_robot_loses(name):
    found = solids.thrown_at_grains(solids.BODIES[name], 0.3, KERNEL)
    assert found.given > 3.0
    assert found.drift < 8e-6 * found.given  # rounding of some hundred impulses
    assert found.turning_given > 10.0
    assert found.turning_drift < 2e-4 * found.turning_given


@on_a_gpu
def test_a_gpu_repeats_itself_to_the_last_bit():
    grains = contacts.cloud(3, 200)
    ends = [scenes.run(grains, scenes.free_space(0.0), grains.rest_state(), 200) for _ in range(2)]
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), *ends))

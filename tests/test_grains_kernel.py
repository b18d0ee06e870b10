"""The kernel of grains against plain JAX: in the interpreter, and compiled where there is a GPU."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.compute.gpu.language import kernel_p
from vsr.environment import Environment
from vsr.evidence.validate.sand import contacts, scenes, solids
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.granular import Box, driven, free, grains_of, kernel
from vsr.physics.granular.model import in_order
from vsr.physics.granular.step import step
from vsr.sdf import Ball, Block
from vsr.terrain.surface import Terrain
from vsr.world.coupling import advance_coupled
from vsr.world.placement import move_rigidly
from vsr.world.state import WorldModel, world_state

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


def same(plain, fused, way):
    for name in ("position", "velocity", "spin", "received"):
        if getattr(plain, name) is not None:
            ours, theirs = (in_order(getattr(state, name), state) for state in (fused, plain))
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
@pytest.mark.parametrize("most", [1024, 0])
def test_the_kernel_does_what_plain_jax_does(dimension, kind, most, monkeypatch):
    """All iterations in one launch, and each in its own, as in large worlds."""
    monkeypatch.setattr(kernel, "MOST_LANES", most)
    (plain, pushes), (fused, ours) = both(thrown(dimension, **kind), GROUND)
    assert float(jnp.abs(pushes[0].impulse).max()) > 0.01  # some have met the ground
    assert float(jnp.abs(plain.velocity - thrown(dimension, **kind).start.velocity).max()) > 0.2  # and each other
    same(plain, fused, 2e-6)
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
    (plain, pushes), (fused, ours) = both(thrown(2, bodies=bodies), replace(GROUND, terrain=hilly), steps=60)
    same(plain, fused, 5e-6)
    for one, other in zip(ours, pushes, strict=True):
        assert float(jnp.abs(other.impulse).max()) > 0  # each has met grains
        np.testing.assert_allclose(one.impulse, other.impulse, atol=5e-3)
    np.testing.assert_allclose(fused.bodies[0].velocity, plain.bodies[0].velocity, atol=1e-3)


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
    mass = np.asarray(grains.mass, np.float64)
    before, after = (mass[state.id] * np.asarray(state.velocity, np.float64) for state in (start, end))
    assert np.abs((after - before).sum(-1)).max() < 1e-6 * np.abs(before).sum()
    assert float(jnp.abs(end.velocity - start.velocity).max()) > 0.1  # they met


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squares", "points", "3-D"])
def test_what_grains_of_the_kernel_gain_a_robot_loses(name):
    found = solids.thrown_at_grains(solids.BODIES[name], 0.3, KERNEL)
    assert found.given > 3.0
    assert found.drift < 8e-6 * found.given  # rounding of some hundred impulses
    assert found.turning_given > 10.0
    assert found.turning_drift < 2e-4 * found.turning_given


def robot_at_grains(name, implementation, shifts, steps):
    """Robots that fly into a wall of grains, each shifted along x [m], after some steps: worlds of a batch."""
    model = assemble_body(solids.BODIES[name])
    grains = replace(solids.wall_of_grains(2), implementation=implementation)

    def run(shift):
        moved = move_rigidly(
            model,
            engine_of(model).rest_state(model),
            shift=jnp.array([2.6, 0.0]) + shift,
            velocity=jnp.array([4.0, 0.5]),
        )
        world = WorldModel((model,), scenes.free_space(0.0), {"grains": grains})
        state = world_state(world, (moved,), jax.random.key(0))
        (after,), others, *_ = advance_coupled(
            world.robots, world.environment, world.systems, state.robots, state.systems,
            (jnp.zeros(model.present.shape),), substep=solids.SUBSTEP, count=steps,
        )  # fmt: skip
        return after, others["grains"]

    return jax.jit(jax.vmap(run))(jnp.asarray(shifts)[:, None] * jnp.array([1.0, 0.0]))


def same_with_robots(name, shifts, steps, way=1e-5 if KERNEL == "interpreted" else 3e-5):
    plain, fused = (robot_at_grains(name, one, shifts, steps) for one in ("xla", KERNEL))
    np.testing.assert_allclose(fused[0].position, plain[0].position, atol=way)
    np.testing.assert_allclose(fused[0].velocity, plain[0].velocity, atol=10 * way)
    for number in range(len(shifts)):
        ours, theirs = (jax.tree.map(lambda leaf: leaf[number], one[1]) for one in (fused, plain))  # noqa: B023
        for part in ("position", "velocity", "spin"):
            found, wanted = (in_order(getattr(one, part), one) for one in (ours, theirs))
            np.testing.assert_allclose(found, wanted, atol=way if part == "position" else 10 * way)
        np.testing.assert_allclose(ours.robots[0].impulse, theirs.robots[0].impulse, atol=10 * way)
    return np.abs(plain[1].robots[0].impulse).max((1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squares", "points"])
def test_robots_within_the_kernel(name):
    """One among grains and one that they do not reach, as worlds of a batch."""
    pushed = same_with_robots(name, (0.0, -2.0), 30)
    assert pushed[0] > 0.01
    assert pushed[1] == 0


@pytest.mark.parametrize("most", [1024, 0])
def test_a_step_of_a_small_world_is_one_launch(most, monkeypatch):
    monkeypatch.setattr(kernel, "MOST_LANES", most)
    closed = jax.make_jaxpr(lambda: robot_at_grains("squares", "interpreted", (0.0,), 1))()
    names = [equation.params["kernel"].name for equation in kernels_of(closed.jaxpr)]
    assert len([name for name in names if name != "advance"]) == (1 if most else 4)  # a robot's own, on a GPU


def kernels_of(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive is kernel_p:
            yield equation
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda one: hasattr(one, "jaxpr")):
            if equation.primitive is not kernel_p and hasattr(value, "jaxpr"):
                yield from kernels_of(value.jaxpr)


@on_a_gpu
def test_a_gpu_repeats_itself_to_the_last_bit():
    grains = contacts.cloud(3, 200)
    ends = [scenes.run(grains, scenes.free_space(0.0), grains.rest_state(), 200) for _ in range(2)]
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), *ends))

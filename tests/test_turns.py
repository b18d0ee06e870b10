"""Loops of many small operations in few kernels, beside jax.lax.scan: interpreted, and as text where a compiler is."""

import dataclasses
import shutil
from functools import partial

import gpu_text
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr import Scene
from vsr.compute.gpu import interpreter, turns
from vsr.compute.gpu.language import kernel_p
from vsr.controllers.policy import pack, policy_count
from vsr.episode import control_step, init_carry, prepared, read, reset
from vsr.physics.evogym import kernel as evogym

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ON_GPU = jax.default_backend() == "gpu"
RANDOM = np.random.default_rng(3)
WEIGHTS = jnp.float32(RANDOM.normal(size=(6, 6)))
TABLE = jnp.asarray(RANDOM.integers(0, 9, (4, 70)), jnp.int32)
SCAN = partial(turns.scan, interpret=not ON_GPU)


def places(now, given):
    """Slices, turns, joined and repeated arrays, entries by number, outside of arrays too."""
    rows, count = now
    turned = jnp.concatenate([rows[1:], rows[:1]]).T[::-1, ::2]
    above, _, below = (1 + number * row for number, row in enumerate(rows[2:5]))
    padded = jnp.pad(turned, ((1, 0), (0, 3)), constant_values=2.0)
    first, second = jnp.split(jnp.stack([rows, jnp.flip(rows, 1)]), 2)
    number = (jnp.abs(rows[0, :7] * 40)).astype(jnp.int32)
    seen = TABLE[:, number % 70].sum(0) + rows[:, jnp.minimum(number, 6)][1].astype(jnp.int32)
    outside = rows[0].at[number].get(mode="fill", fill_value=np.nan)
    part = jax.lax.dynamic_slice(rows, (count % 9, 2), (3, 4))
    rows = 0.3 * rows + given["way"][:, None] * first[0, ::-1] + jnp.tanh(second[0]) * padded.sum() * 0.01
    rows = rows * (1 + 0.1 * above * below)
    added = jnp.full((5, 2), count).at[number % 8].add(jnp.stack([number, -number - 1], -1))  # three places are none
    alone = jnp.zeros(3, jnp.int32).at[jnp.array([1])].add(count)
    found = {"part": part, "seen": seen, "outside": outside, "count": count, "added": added, "alone": alone}
    return (rows, count + jnp.argmax(jnp.ones(3)).astype(jnp.int32) + 1), found


def sums(now, given):
    """Of all, of few, of many entries, in every order; numbers of the loop that do not change, or go elsewhere."""
    rows, still, other, over, new = now
    axis = rows.reshape(5, 2, 7).max((0, 2)) + rows.reshape(2, 35).sum(1)
    most = jnp.where(over, -jnp.inf, rows).min(0) + (rows > 0).any(0) - (rows.T < 0.3).all(1)
    wide = (rows[:, None] * rows[None]).sum(2).max(0)
    over = over | (given["way"].sum() > 6)
    after = jnp.where(over, rows, rows * 0.9 + 0.01 * (wide[:, None] + most)), jnp.where(over, still, still)
    whole = jnp.clip(jnp.uint32(3_000_000_000) // jnp.maximum(still.astype(jnp.uint32), 2) % 97, 5, 90).sum()
    changed = after[0] + axis.sum() + whole.astype(jnp.float32) + jnp.float32(rows.size) + jnp.zeros(5)[:, None].sum()
    return (changed, after[1], rows.mean(1), over, jnp.bool_(True)), (axis, over, other, new)


def large(now, given):
    """Products of matrices between, and random numbers drawn from what is given."""
    rows, noise = now
    mean = jnp.tanh(rows @ WEIGHTS + 0.5) @ WEIGHTS.T
    random = jax.random.normal(given["key"], mean.shape)
    rows = 0.1 * mean + jnp.exp(-jnp.abs(noise)) * random
    return (rows, rows[::-1].round(1)), (random, mean.argmax(), rows - noise)


def broadcasts(now, given):
    """Arrays with axes of length 1, constants and others, beside larger ones: alone, and chosen from."""
    rows, step = now
    chosen = jnp.where(TABLE[:, :7] > 4 + step[0], jnp.arange(4.0)[:, None], -jnp.inf)
    column, row = rows.sum(1, keepdims=True), rows.max(0, keepdims=True)
    spread = jnp.broadcast_to(column, rows.shape) + jnp.broadcast_to(row, rows.shape)
    deep = jnp.broadcast_to(rows[:, None, :1], (10, 3, 7)) * jnp.arange(3.0)[None, :, None]
    longer = jnp.concatenate([rows[0], given["nothing"], step])
    found = {"chosen": chosen, "most": chosen.max(0), "spread": spread, "deep": deep, "longer": longer}
    return (0.5 * rows + 0.01 * (column - row) * given["way"][:, None], step + 1), found


KEYS = jax.random.split(jax.random.PRNGKey(2), 4)
GIVEN = {"way": jnp.float32(RANDOM.uniform(size=(4, 10))), "key": KEYS, "nothing": jnp.zeros((4, 0))}
CASES = {
    "places": (places, (jnp.float32(RANDOM.normal(size=(10, 7))), jnp.int32(0))),
    "sums": (
        sums,
        (jnp.float32(RANDOM.normal(size=(10, 7))), jnp.arange(3), jnp.zeros(10), jnp.bool_(False), jnp.bool_(False)),
    ),
    "broadcasts": (broadcasts, (jnp.float32(RANDOM.normal(size=(10, 7))), jnp.zeros(1))),
    "large": (large, (jnp.float32(RANDOM.normal(size=(3, 6))), jnp.zeros((3, 6)))),
}


@pytest.fixture(params=[8, 1])
def share(request, monkeypatch):
    """Entries of an array for each lane: enough for a warp, or so few that warps wait for each other."""
    monkeypatch.setattr(turns, "SHARE", request.param)


@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("case", CASES)
def test_turns_give_what_a_scan_gives(case):
    check(*CASES[case])


def drawn_turn(seed):
    """A turn of twelve operations drawn one after the other, on what comes from turns before and on their results."""

    def turn(now, given):
        draw = np.random.default_rng(seed)
        pool = [*now, given, jnp.float32(draw.normal(size=(1, 5))), jnp.float32(draw.normal(size=(4, 1)))]
        for _ in range(12):
            one, other = (pool[draw.integers(len(pool))] for _ in range(2))
            axis, axes = int(draw.integers(max(one.ndim, 1))), range(one.ndim)
            along = [-1 if own == axis else 1 for own in axes]
            number = (jnp.abs(other).ravel()[:5] * 7).astype(jnp.int32)
            chosen = jnp.float32(draw.normal(size=one.shape)) > 0.2
            mode = ("clip", "wrap")[draw.integers(2)]
            found = [
                lambda one=one: jnp.sin(one) * one.size,
                lambda one=one: jnp.stack([one, one**2], -1),
                lambda one=one: one[None] - jnp.arange(3.0).reshape(3, *[1] * one.ndim),
            ]
            if one.ndim:
                found += [
                    lambda one=one, axis=axis: one.sum(axis),
                    lambda one=one, axis=axis: one.max(axis, keepdims=True),
                    lambda one=one, axis=axis: jnp.flip(one, axis).T,
                    lambda one=one, axis=axis: jnp.concatenate([one, 0.5 * one], axis),
                    lambda one=one: jnp.pad(one, 1, constant_values=0.3),
                    lambda one=one, axis=axis, number=number, mode=mode: jnp.take(one, number, axis, mode=mode),
                    lambda one=one, axis=axis, chosen=chosen: jnp.where(chosen, one.min(axis, keepdims=True), one),
                    lambda one=one, axis=axis, along=along, chosen=chosen: jnp.where(
                        chosen, jnp.arange(float(one.shape[axis])).reshape(along), -1.0
                    ),
                    lambda one=one, axis=axis, number=number: jax.lax.dynamic_slice_in_dim(
                        one, number[0] % 5, max(1, one.shape[axis] // 2), axis
                    ),
                ]
            result = found[draw.integers(len(found))]()
            pool.append(jnp.tanh(result if result.ndim < 4 and 0 < result.size < 300 else result.ravel()[:6]))
        shift = sum(one.sum() for one in pool[-4:])
        return tuple(jnp.tanh(0.7 * one + 0.1 * shift) for one in now), tuple(pool[-5:])

    return turn


SEEDS = (9, 10, 11, 12, 13)  # of two an axis of length 1 is repeated
OTHERS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(40) if seed not in SEEDS]


@pytest.mark.parametrize("seed", [*SEEDS, *OTHERS])
def test_drawn_turns_give_what_a_scan_gives(seed):
    draw = np.random.default_rng(1000 + seed)
    now = tuple(jnp.float32(draw.normal(size=shape)) for shape in ((5, 3), (4,), (2, 3, 2), ()))
    turn, given = drawn_turn(seed), jnp.float32(draw.normal(size=(3, 1, 6)))
    ours, theirs = (jax.jit(lambda first, scan=scan: scan(turn, first, given))(now) for scan in (SCAN, jax.lax.scan))
    same(ours, theirs)


@pytest.mark.skipif(ON_GPU or shutil.which("g++") is None, reason="needs g++ and no GPU")
@pytest.mark.usefixtures("share")
@pytest.mark.parametrize("case", CASES)
def test_so_does_the_text_of_their_kernels(case, monkeypatch, tmp_path):
    monkeypatch.setattr(interpreter, "interpret_kernel", gpu_text.text_instead(tmp_path))
    jax.clear_caches()
    check(*CASES[case])
    jax.clear_caches()


def test_worlds_side_by_side_give_what_each_gives_alone():
    """Worlds of two batches, one within the other; what is the same within a batch is not repeated."""
    turn, start = CASES["sums"]
    scale, shift = jnp.float32([1, 0.5, 2]), jnp.float32([0, 0.1])

    def run(scan, scale, shift):
        def moved(now, given):
            return turn((now[0] + shift, *now[1:]), {**given, "way": scale * given["way"]})

        return scan(moved, start, GIVEN)

    def both(scan):
        return jax.vmap(lambda scale: jax.vmap(partial(run, scan, scale))(shift))(scale)

    same(jax.jit(both, static_argnums=0)(SCAN), jax.jit(both, static_argnums=0)(jax.lax.scan))
    shared = {by for jaxpr in kernels(jax.make_jaxpr(both, static_argnums=0)(SCAN)) for by in jaxpr.params["shared"]}
    assert shared == {0, 1, len(shift)}  # the same for all; a world's own; of all worlds of a batch


def test_what_lies_between_large_operations_is_one_kernel():
    """Here a kernel before, between and behind two products; with what is drawn for all turns before the loop."""
    turn, start = CASES["large"]
    closed = jax.make_jaxpr(lambda: SCAN(turn, start, GIVEN))()
    (loop,) = (equation for equation in every(closed.jaxpr) if equation.primitive.name == "while")
    inside = [one.primitive.name for one in every(loop.params["body_jaxpr"].jaxpr)]
    assert (inside.count("kernel"), inside.count("dot_general")) == (2, 2)
    assert not [name for name in inside if "random" in name or name in ("tanh", "exp", "round", "mul")]


def check(turn, start):
    same(jax.jit(lambda: SCAN(turn, start, GIVEN))(), jax.jit(lambda: jax.lax.scan(turn, start, GIVEN))())


def same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def every(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        inner = equation.params.get("jaxpr")
        if inner is not None and equation.primitive is not kernel_p:
            yield from every(inner.jaxpr)


def kernels(closed):
    for equation in every(closed.jaxpr):
        bodies = [equation.params[name] for name in ("body_jaxpr",) if name in equation.params]
        yield from (equation,) if equation.primitive is kernel_p else ()
        for body in bodies:
            yield from kernels(body)


def wave(program, number, now):
    """Instead of EvoGym's physics, which makes much of rounding: nodes swing, and all that a substep reads counts."""
    motion, beginning = now.motion, jnp.where(program.beginning, 1e-4, 0.0)
    shift = 0.002 * jnp.sin(program.node.astype(jnp.float32) + number.astype(jnp.float32)) + 1e-6 * program.goal.sum()
    shift += 1e-6 * program.of_cells(program.known.first).sum() + beginning
    position = motion.position[0] + shift, motion.position[1] + 0.003 * shift + 1e-5 * program.known.numbers[2]
    velocity = motion.velocity[0] + shift, motion.velocity[1] - 0.01
    corner = program.corners_at(position)
    return now._replace(motion=evogym.Motion(position, velocity, motion.drift), corner=corner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shown"),
    [("Walker-v0", 0), ("Pusher-v0", 0), ("Catcher-v0", 0), ("UpStepper-v0", 38), ("CaveCrawler-v0", 48)],
)
def test_control_steps_of_a_task(name, shown, monkeypatch):
    """shown: numbers that a policy reads, floor and ceiling among them; 0 for a sine."""
    monkeypatch.setattr(evogym._Program, "substep_of", wave)
    controller = {"type": "sine", "frequency": 9.0}
    if shown:
        weights = RANDOM.normal(size=policy_count(shown, (8,), 6)).astype(np.float32)
        weights[: 2 * shown] = 0
        controller = {"type": "policy", "weights": pack(weights), "hidden": [8]}
    robot = {"body": {"shape": "hsv\nhhv", "engine": "evogym"}, "controller": controller}
    scene = Scene.model_validate({"robot": robot, "task": name})
    scenario, controller = scene.build()
    schedule = dataclasses.replace(scenario.schedule, implementation="interpreted")
    scenario = dataclasses.replace(scenario, schedule=schedule)
    start = reset(jax.random.key(5), scenario)
    world = prepared(scenario.world, schedule.substep, schedule.implementation)
    scenario = dataclasses.replace(scenario, world=world)

    def turn(now, _):
        now = control_step(scenario, controller, now)
        return now, (now.action, read(scenario, controller, now.state) if shown else None)

    first = init_carry(scenario, controller, start)
    ours, theirs = (jax.jit(lambda now, scan=scan: scan(turn, now, length=4))(first) for scan in (SCAN, jax.lax.scan))
    assert np.ptp(theirs[1][0], axis=0).max() > (1e-4 if shown else 0.1)
    same(jax.tree.map(plain, ours), jax.tree.map(plain, theirs))


def plain(leaf):
    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf

"""One contract for every implementation of `advance`: plain JAX, and the fused kernel, interpreted without a GPU."""

from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vsr import Material, Scene
from vsr.compute.implementation import chosen
from vsr.environment import Environment
from vsr.episode import reset, rollout
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.failure import Failure
from vsr.physics.squares import geometry
from vsr.physics.squares.advance import advance, advance_through
from vsr.physics.squares.assembly import SquareMaterials, assemble
from vsr.physics.squares.geometry import center, failure, mass_motion, momentum, rest_state
from vsr.physics.squares.gpu import launch
from vsr.physics.squares.gpu.layout import Layout, choose_layout
from vsr.physics.squares.gpu.numbers import FEWEST_CORNERS, NOTHING, fused_numbers
from vsr.terrain import Flat, Uneven
from vsr.world.placement import Placement, place
from vsr.world.schedule import Schedule

ON_GPU = jax.default_backend() not in ("cpu", "tpu")
KERNEL = "fused" if ON_GPU else "interpreted"
SUBSTEP = 1 / 600
pytestmark = pytest.mark.usefixtures(*() if ON_GPU else ("quickly_compiled",))
MATERIALS = (
    Material(),
    Material(spring_frequency=5.0, scaffolding=("side_external", "central_cross"), actuation="force", max_force=60.0),
    Material(mass=2.0, mass_side_ratio=0.2, friction=0.3, restitution=0.5, lower_limit=2.5, upper_limit=1.02),
)
BODIES = [
    [[0, -1, 1], [2, 0, 1]],
    [[0, -1, 0], [-1, 2, -1]],  # two voxels that touch only at a corner: a second layer
    [[-1, -1, -1], [-1, 1, -1]],
    [[-1, -1, -1], [-1, -1, -1]],  # nothing
    [[2, 2, 2], [0, 0, 0]],
]
ZOO = np.array(3 * BODIES)
ROBOTS = len(ZOO)


@cache
def zoo(dtype):
    """Models of all bodies, flat ground, states that lie in the ground and move, and controls of two intervals."""
    table = SquareMaterials.of(MATERIALS, dtype)
    ground = Flat().build(dtype)
    random = np.random.default_rng(5)
    shape = ROBOTS, 2, 3, 4
    angle, spin = 0.2 * random.normal(size=shape), random.normal(size=shape)
    push, velocity = 0.1 * random.normal(size=(*shape, 2)) - [0, 0.2], random.normal(size=(*shape, 2))

    @jax.jit
    def build(cells):
        models = jax.vmap(lambda one: assemble(one, table, 3.0))(cells)
        states = jax.vmap(lambda model: place(model, ground, Placement()))(models)
        exists = models.cluster_mass > 0

        def there(values):
            return jnp.asarray(values, dtype) * exists.reshape(*shape, *(1,) * (values.ndim - 4))

        turned = there(angle)
        return models, replace(
            states,
            position=states.position + there(push),
            rotation=jnp.stack([jnp.cos(turned), jnp.sin(turned)], -1),
            velocity=there(velocity),
            spin=there(spin),
        )

    models, states = build(jnp.asarray(ZOO))
    controls = jnp.asarray(random.uniform(-1.2, 1.2, size=(ROBOTS, 2, *ZOO.shape[1:])), dtype)
    return models, Environment(gravity=jnp.asarray(9.8, dtype), terrain=ground), states, controls


def run(implementation, models, environment, states, controls, count=4):
    """All robots at once; the environment is every robot's unless it has a leading axis."""
    shared = environment.gravity.ndim == 0

    @jax.jit
    def work(models, environment, states, controls):
        live = partial(advance_through, substep=SUBSTEP, count=count, implementation=implementation)
        return jax.vmap(live, in_axes=(0, None if shared else 0, 0, 0))(models, environment, states, controls)

    return work(models, environment, states, controls)


def assert_same(got, expected, dtype):
    tolerance = 2e-4 if dtype == jnp.float32 else 1e-10
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.fixture
def precise():
    """float64 where the kernel is interpreted, so that the slightest difference shows."""
    with jax.enable_x64(not ON_GPU):
        yield jnp.float32 if ON_GPU else jnp.float64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terrain", "together", "lanes", "tiles"),
    [("flat", 13, 32, [3, 3]), ("uneven", 1, 64, [1] * 15)],
)
def test_the_kernel_does_what_the_reference_does(monkeypatch, precise, terrain, together, lanes, tiles):
    """Any body, all materials, both kinds of actuation, limits, contact; packed robots and spread ones.

    Packed, voxels fill several tiles and are read anew for each. On uneven ground every robot has a ground, a gravity
    and a load of its own.
    """
    monkeypatch.setattr(launch, "choose_layout", lambda *shape: Layout(*shape[:4], together, lanes))
    launch._batched.cache_clear()
    models, environment, states, controls = zoo(precise)
    packing = Layout(2, 3, 2, ROBOTS, together, lanes)
    voxels = np.asarray(models.present).sum((1, 2))
    most = [voxels[first : first + together].max() for first in range(0, ROBOTS, together)]
    assert np.ceil(np.array(most) * together / lanes).clip(1).tolist() == tiles
    assert (packing.voxel_tiles > 1) == (terrain == "flat")
    if terrain == "uneven":
        grounds = [Uneven(roughness=1.5, length=100.0, seed=seed).build(precise) for seed in range(ROBOTS)]
        gravity = jnp.linspace(1, 20, ROBOTS).astype(precise)
        environment = Environment(
            gravity=gravity,
            terrain=jax.tree.map(lambda *leaves: jnp.stack(leaves), *grounds),
            load=jnp.ones(states.position.shape, precise) * gravity[:, None, None, None, None],
        )
    got, expected = (run(name, models, environment, states, controls) for name in (KERNEL, "xla"))
    assert_same(got, expected, precise)
    moved = np.abs(np.asarray(got[0].velocity - states.velocity)).max((1, 2, 3, 4))
    exists = (ZOO >= 0).any((1, 2))
    assert (moved[exists] > 0.01).all()
    assert (moved[~exists] == 0).all()
    launch._batched.cache_clear()


@pytest.mark.slow
def test_a_vmap_of_vmaps_is_the_robots_alone(precise):
    models, environment, states, controls = zoo(precise)
    environment = replace(environment, terrain=None)
    one, state = jax.tree.map(lambda leaf: leaf[0], (models, states))

    @partial(jax.jit, static_argnames="implementation")
    def live(controls, implementation):
        function = partial(
            advance_through, one, environment, state, substep=SUBSTEP, count=2, implementation=implementation
        )
        return jax.vmap(jax.vmap(function))(controls) if controls.ndim == 5 else function(controls)

    together = live(controls[:4].reshape(2, 2, *controls.shape[1:]), KERNEL)
    assert_same(jax.tree.map(lambda leaf: leaf[1, 0], together), live(controls[2], "xla"), precise)


@partial(jax.jit, static_argnames="implementation")
def tenth_of_a_second(model, environment, state, control, implementation):
    """One program for all tests with the same grid."""
    return advance(model, environment, state, control, substep=1 / 480, count=48, implementation=implementation)


@pytest.mark.parametrize("implementation", ["xla", pytest.param(KERNEL, marks=pytest.mark.slow)])
def test_a_robot_in_free_space_keeps_its_momentum(implementation, disturbed, precise):
    model, state = disturbed(precise)
    environment = Environment(gravity=jnp.asarray(0.0, precise))
    control = jnp.full(model.present.shape, 0.7, precise)
    after = tenth_of_a_second(model, environment, state, control, implementation)
    tolerance = 2e-4 if precise == jnp.float32 else 1e-10
    for now, before in zip(momentum(model, after), momentum(model, state), strict=True):
        np.testing.assert_allclose(now, before, atol=tolerance)
    assert float(jnp.abs(after.position - state.position).max()) > 0.01


@pytest.mark.slow
def test_what_is_seen_tells_heights_explosions_and_voxels_inside_out(precise):
    models, environment, states, controls = zoo(precise)
    environment = replace(environment, terrain=None)
    across = states.position.at[4, 0, 0, 0].add(3.0)  # a corner beyond the one opposite
    states = replace(states, velocity=states.velocity.at[2].set(1e6), position=across)
    moved, seen = run(KERNEL, models, environment, states, controls[:, :1], count=1)
    assert np.flatnonzero((seen.failure > 0).any((1, 2, 3))).tolist() == [2, 4]
    assert int(seen.failure[2].max()) == Failure.exploded
    np.testing.assert_array_equal(seen.failure[4, 0], Failure.inverted * np.pad(np.ones((2, 2)), ((0, 1), (0, 2))))
    exists = np.asarray(models.cluster_mass) > 0
    np.testing.assert_array_equal(np.asarray(jax.vmap(failure)(models, moved)) * exists, seen.failure)
    engine = 4 * np.asarray(models.present.sum((1, 2)))
    middle = jax.vmap(lambda model, state: center(model, mass_motion(model, state)))(models, moved)
    there = engine > 0
    np.testing.assert_allclose(
        np.asarray(seen.height.sum((1, 2, 3)))[there] / engine[there], middle[there, 1], rtol=1e-5
    )


@pytest.mark.slow
def test_anchored_clusters_stay(ell, precise):
    anchored = np.zeros((4, 2, 2), bool)
    anchored[[0, 2], :, 0] = True
    model = assemble_body(ell, anchored=anchored, dtype=precise)
    environment = Environment(gravity=jnp.asarray(9.8, precise))
    state = rest_state(model)
    state = replace(state, position=state.position + jnp.array([50.0, -0.1], precise))
    results = [
        tenth_of_a_second(model, environment, state, jnp.zeros((2, 2), precise), name) for name in (KERNEL, "xla")
    ]
    assert_same(*results, precise)
    np.testing.assert_array_equal(results[0].position[:, :, 0], state.position[:, :, 0])
    assert float(jnp.abs(results[0].position - state.position).max()) > 0.01


FEELING = {"type": "mlp", "sensors": [{"quantity": "area_ratio"}], "weights": [1, -2, 0.5, 3, -1, 2, 0.3, -0.7]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("controller", "duration"),
    [
        ({"type": "sine", "frequency": 2.0}, 0.18),  # five calls and one step
        (FEELING, 0.06),  # two calls: what was felt at the first acts before the second
    ],
    ids=["by the clock", "feeling"],
)
def test_an_episode_is_the_same_by_either_implementation(monkeypatch, controller, duration):
    """A controller that feels nothing hands over the control values of many calls at once."""
    monkeypatch.setattr("vsr.episode.MOST_CALLS_AT_ONCE", 2)
    robot = {"body": {"shape": ["aa"]}, "controller": controller}
    scene = Scene.model_validate({"robot": robot, "world": {"terrain": None, "gravity": 0.1}})
    scenario, controller = scene.build()
    schedule = Schedule(duration=duration, time_step=1 / 60, control_every=2, substeps=4)
    start = reset(jax.random.key(0), scenario)
    episodes = [
        jax.jit(rollout)(replace(scenario, schedule=replace(schedule, implementation=name)), controller, start)
        for name in (KERNEL, "xla")
    ]
    assert_same(*episodes, jnp.float32)
    assert float(episodes[0].mean_squared_control) > 0.01


# Which implementation


def test_the_choice_is_by_device_and_precision_and_can_be_forced(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert chosen("auto") == "xla"
    assert chosen("interpreted") == "interpreted"
    with pytest.raises(
        ValueError, match="'fused' cannot run here: it needs an NVIDIA GPU, and jax computes on the cpu"
    ):
        chosen("fused")
    gpu = SimpleNamespace(compute_capability="9.0", client=SimpleNamespace(platform_version="cuda"))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "local_devices", lambda: [gpu])
    monkeypatch.setattr("vsr.compute.implementation.library", object)
    assert chosen("auto") == "fused"
    assert chosen("xla") == "xla"
    assert chosen("auto", jnp.float64) == "xla"
    with pytest.raises(ValueError, match="it computes in float32, and float64 was asked for"):
        chosen("fused", jnp.float64)


# The kernel's parts


@pytest.mark.parametrize("layers", [1, 2])
def test_masses_add_up_the_same_for_processors_and_gpus(monkeypatch, layers):
    """Each has a form of its own, which gives the same bits."""
    random = np.random.default_rng(3)
    masses, second = (
        jnp.asarray(random.normal(size=(4, 3, 5)), jnp.float32),
        jnp.asarray(random.random((4, 3, 5)) < 0.3),
    )
    found = []
    plain: Any = geometry.clusters_of_masses  # traced once for each
    for cpu in (True, False):
        monkeypatch.setattr(geometry, "for_cpu", lambda cpu=cpu: cpu)
        add_up = jax.jit(lambda *given: plain.__wrapped__(*given, layers))
        found.append(np.asarray(add_up(masses, second.astype(jnp.float32))))
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (layers, 4, 6)


def test_tables_hold_every_voxel_and_cluster_once_and_know_their_neighbors(precise):
    models, environment, *_ = zoo(precise)
    tables = jax.tree.map(
        np.asarray, jax.jit(jax.vmap(lambda model: fused_numbers(model, environment, SUBSTEP)))(models)
    )
    present, exists = np.asarray(models.present) > 0, np.asarray(models.cluster_mass) > 0
    for robot, (voxels, clusters) in enumerate(tables.counts):
        cells, *neighbors = tables.voxel_indices[robot, :5, :voxels]
        np.testing.assert_array_equal(np.sort(cells), np.flatnonzero(present[robot]))
        places, *around = tables.cluster_indices[robot, :5]
        np.testing.assert_array_equal(np.sort(places[:clusters]), np.flatnonzero(exists[robot]))
        assert (np.diff(places[:clusters] % exists[0, 0].size // exists.shape[-1]) >= 0).all()  # the lowest row first
        assert (places[clusters:] == exists[robot].size).all()  # that of none
        for k in range(4):  # each corner's cluster names the voxel in turn
            assert (neighbors[k] < clusters).all()
            np.testing.assert_array_equal(around[k][neighbors[k]], np.arange(voxels))
        assert (np.array(around) < NOTHING).sum() == 4 * voxels
        side = tables.names[0].index("half_side")
        assert (tables.voxels[robot, side] > 0).sum() == voxels


@pytest.mark.slow
def test_what_was_prepared_serves_its_substep_and_its_body_alone(monkeypatch, precise):
    """The kernel is not run: what it would be given is compared."""
    models, environment, states, controls = zoo(precise)
    model, state, control = jax.tree.map(lambda leaf: leaf[0], (models, states, controls))
    engine, given = ENGINES["squares"], []

    def instead(*_):
        def look(numbers, terrain, state, controls):
            given.append(numbers)
            return jnp.zeros((1, 9, state.shape[-1]))

        return look

    monkeypatch.setattr(launch, "_batched", instead)
    for substep in (SUBSTEP, 2 * SUBSTEP):
        ready = engine.kernel.prepared(model, environment, substep, KERNEL)
        assert ready.fused.substep == substep
        for one in (model, ready):
            advance_through(one, environment, state, control, substep=SUBSTEP, count=2, implementation=KERNEL)
        new, used = given[-2:]
        assert new.substep == used.substep == SUBSTEP
        jax.tree.map(np.testing.assert_array_equal, new, used)
    assert engine.scaled(ready, 1.0, 1.0, 2.0).fused is None
    assert engine.kernel.prepared(model, environment, SUBSTEP, "xla") is model


@given(arrays(np.int64, (3, 4), elements=st.integers(-1, 2)))
def test_clusters_have_at_least_the_corners_the_kernel_counts_on(cells):
    model = _assembled(jnp.asarray(cells))
    exists = np.asarray(model.cluster_mass > 0)
    assert (np.asarray(model.contact_active)[:FEWEST_CORNERS] == exists).all()


_assembled = jax.jit(lambda cells: assemble(cells, SquareMaterials.of(MATERIALS), 3.0))


@pytest.mark.parametrize(
    ("shape", "robots"),
    [((4, 11, 1), 256), ((4, 11, 1), 4096), ((2, 4, 1), 250), ((10, 10, 2), 4096), ((60, 60, 1), 3)],
)
def test_a_layout_has_room_for_everything(shape, robots):
    rows, columns, layers = shape
    chosen_layout = choose_layout(*shape, robots)
    assert chosen_layout.programs * chosen_layout.together >= robots
    assert chosen_layout.voxel_slots >= chosen_layout.together * rows * columns
    assert chosen_layout.cluster_slots >= chosen_layout.together * layers * (rows + 1) * (columns + 1)
    assert chosen_layout.lanes & (chosen_layout.lanes - 1) == 0
    assert chosen_layout.shares_memory or rows * columns > 500

"""Environments: the pure functions, and what brax and gymnasium see of them."""

import copy
import inspect
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ROOT

import vsr
from vsr.envs import BraxView, Environment, body_of_kinds, register
from vsr.envs.gymnasium import picture
from vsr.envs.spaces import Box as OurBox
from vsr.envs.spaces import in_cells, in_drawn_order
from vsr.episode import observe_task, step
from vsr.physics.evogym.springs import control_of_target
from vsr.tasks import TASKS, Locomotion

pytestmark = pytest.mark.usefixtures("quickly_compiled")
KEY = jax.random.key(7)
STEPS = 4
SHORT = {"duration": STEPS * 0.055}
BODIES = np.array([[[3, 4], [0, 3]], [[4, 4], [4, 3]], [[2, 3], [3, 0]]])
SECOND = 1


@pytest.fixture(scope="module")
def env() -> Environment:
    """Three bodies of points in a grid of 2x2."""
    return vsr.make("Walker-v0", body=BODIES, **SHORT)


@pytest.fixture(scope="module")
def played(env):
    """What all bodies did through two episodes and a half, by vmap, and the actions."""
    keys = jax.random.split(KEY, len(BODIES))
    acts = jax.vmap(env.action_space().sample)
    begin, go = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))
    seen, state = begin(keys, env.default_params)
    rows = []
    for number in range(2 * STEPS + 2):
        action = acts(jax.random.split(jax.random.fold_in(KEY, number), len(BODIES)))
        *came, info = go(keys, state, action, env.default_params)
        state = came[1]
        rows.append((action, *came, info))
    return seen, rows


def of(number, tree):
    return jax.tree.map(lambda leaf: leaf[number], tree)


# pure functions


def test_signatures_and_shapes_are_those_of_gymnax(env, played):
    first, rows = played
    _, seen, _, reward, terminated, truncated, info = rows[0]
    for name, given in {
        "reset": ["self", "key", "params"],
        "step": ["self", "key", "state", "action", "params"],
        "reset_env": ["self", "key", "params"],
        "step_env": ["self", "key", "state", "action", "params"],
    }.items():
        assert list(inspect.signature(getattr(Environment, name)).parameters) == given
    numbers = 2 + 2 * 9
    assert first.shape == seen.shape == info["final_observation"].shape == (3, numbers)
    assert env.observation_space().shape == (numbers,)
    assert env.action_space().shape == (env.num_actions,) == (4,)
    assert (env.action_space().low, env.action_space().high) == (0.6, 1.6)
    assert reward.shape == terminated.shape == truncated.shape == (3,)
    assert (terminated.dtype, truncated.dtype) == (bool, bool)
    assert set(info) >= {"terminated", "truncated", "final_observation", "discount"}
    with pytest.raises(ValueError, match="several bodies"):
        env.reset(KEY)


def test_steps_are_those_of_the_episode_with_targets_as_controls(env, played):
    first, rows = played
    params = of(SECOND, env.default_params)
    scenario, state, go = env.scenario(params), params.start, jax.jit(step)
    np.testing.assert_allclose(first[SECOND], observe_task(scenario, state)[0], atol=1e-6)
    for action, seen, _, reward, *_ in rows[: STEPS - 1]:
        control = control_of_target(action[SECOND]).reshape(2, 2)[::-1]  # drawn with the top row first
        state, came = go(scenario, state, control)
        np.testing.assert_allclose(seen[SECOND], observe_task(scenario, state)[0], atol=1e-5)
        np.testing.assert_allclose(reward[SECOND], came.reward, atol=1e-6)


def test_an_episode_that_is_over_begins_again_within_the_step(env, played):
    first, rows = played
    for number, (_, seen, state, _, terminated, truncated, info) in enumerate(rows):
        assert not terminated.any()
        assert bool(truncated.all()) == bool(truncated.any()) == ((number + 1) % STEPS == 0)
        assert (np.asarray(state.calls) == (number + 1) % STEPS).all()
        same = np.array_equal(seen, info["final_observation"])
        assert same != bool(truncated.all())
        if truncated.all():
            np.testing.assert_array_equal(seen, first)
    second = jax.tree.map(jnp.subtract, rows[STEPS][1], rows[0][1])  # other actions, the same start
    assert float(jnp.abs(second).max()) > 1e-4


def test_the_limit_of_steps_is_a_parameter(env):
    params = of(0, env.default_params)
    _, state = env.reset(KEY, params)
    *_, truncated, _ = env.step(KEY, state, jnp.ones(4), params.replace(max_steps_in_episode=jnp.asarray(1)))
    assert bool(truncated)
    assert not bool(env.step(KEY, state, jnp.ones(4), params)[4])


def test_what_a_body_does_not_have_is_masked(env, played):
    """The first body has three voxels and eight points, and its two lower cells hold one actuator."""
    params = env.default_params
    np.testing.assert_array_equal(params.action_mask[0], [True, True, False, True])
    np.testing.assert_array_equal(params.action_mask[2], [False, True, True, False])  # soft ones do not act
    assert params.observation_mask.sum(1).tolist() == [2 + 16, 2 + 18, 2 + 16]
    for row in played[1]:
        assert not np.asarray(row[1])[~np.asarray(params.observation_mask)].any()
    one = of(0, params)
    _, state = env.reset(KEY, one)
    other = jnp.array([1.6, 0.6, 1.0, 1.3]), jnp.array([1.6, 0.6, 0.6, 1.3]), jnp.array([1.6, 0.6, 0.6, 0.7])
    seen = [np.asarray(env.step(KEY, state, action, one)[0]) for action in other]
    np.testing.assert_array_equal(seen[0], seen[1])
    assert np.abs(seen[1] - seen[2]).max() > 1e-3


def test_params_made_of_cells_under_vmap_are_those_of_bodies(env):
    cells = jnp.stack([jnp.asarray(body_of_kinds(kinds).cells) for kinds in BODIES])
    made, wanted = (
        replace(params, start=params.start.world.robots)
        for params in (jax.jit(jax.vmap(env.params_of_cells))(cells), env.default_params)
    )
    jax.tree.map(np.testing.assert_array_equal, made, wanted)


def test_cells_are_counted_as_they_are_drawn():
    cells = jnp.arange(12).reshape(2, 2, 3)
    drawn = in_drawn_order(cells, 3)
    assert drawn.tolist() == [9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2]
    np.testing.assert_array_equal(in_cells(drawn, (2, 2, 3)), cells)
    assert in_drawn_order(jnp.arange(6).reshape(2, 3), 2).tolist() == [3, 4, 5, 0, 1, 2]
    assert in_drawn_order(jnp.arange(12).reshape(2, 2, 3), 2).shape == (2, 6)


def test_environments_that_say_the_same_share_programs(env):
    again = vsr.make("Walker-v0", body=BODIES[:2], **SHORT)
    assert again == env
    assert hash(again) == hash(env)
    assert vsr.make("Walker-v0", body=BODIES[0], duration=1.0) != env


def test_a_simulation_that_fails_ends_and_shows_finite_numbers(env):
    params = of(0, env.default_params)
    _, state = env.reset(KEY, params)
    _, _, reward, terminated, truncated, info = env.step(KEY, state, jnp.full(4, jnp.nan), params)
    assert bool(terminated)
    assert not bool(truncated)
    assert float(reward) == 0
    assert int(info["failure"]) > 0
    assert bool(jnp.isfinite(info["final_observation"]).all())
    assert float(info["discount"]) == 0


@pytest.mark.slow
def test_random_tasks_draw_from_the_key_at_every_reset():
    env = vsr.make("BidirectionalWalker-v0", body=BODIES[0], **SHORT)
    assert env.task.has_random_state
    one, two, same = (env.reset(jax.random.key(seed))[0] for seed in (1, 2, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - two)[-2:].min() > 0  # place of the goal and the way there
    _, state = env.reset(jax.random.key(1))
    state = replace(state, calls=state.calls + STEPS - 1)
    again = [env.step(jax.random.key(seed), state, jnp.ones(4)) for seed in (3, 4)]
    assert bool(again[0][4])
    assert np.abs(again[0][0] - again[1][0]).max() > 0
    np.testing.assert_array_equal(again[0][5]["final_observation"], again[1][5]["final_observation"])


def test_our_tasks_show_senses_and_take_control_values():
    env = vsr.make("locomotion", body=("aa", ".a"), engine="points", duration=0.2)
    space = env.action_space()
    assert (space.low, space.high, space.shape) == (-1, 1, (4,))
    assert env.observation_space().shape == (4 * 4,)
    assert env.default_params.observation_mask.reshape(4, 4).tolist() == 4 * [[True, True, False, True]]
    seen, state = env.reset(KEY)
    np.testing.assert_allclose(seen[:4], [1, 1, 0, 1], atol=1e-5)  # area over that at rest
    seen, *_ = env.step(KEY, state, jnp.ones(4))
    assert (np.asarray(seen[:4])[[0, 1, 3]] < 1).all()  # control 1 shrinks
    few = vsr.make("Walker-v0", body=BODIES[0], sensors=["contact"], **SHORT)
    assert few.observation_space().shape == (4,)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: vsr.make("Walker-v1"), "did you mean 'Walker-v0'"),
        (lambda: vsr.make("Walker-v0", body=np.full((2, 2), 7)), "from 0 to 4"),
        (lambda: vsr.make("Walker-v0", body=BODIES[0], engine="squares"), "squares given"),
        (lambda: vsr.make("Walker-v0", body=vsr.Body(shape="a"), engine="points"), "say it once"),
        (
            lambda: vsr.make("Walker-v0", body="a", durations=3.0),
            "durations: .*'duration'.* has body, engine, .*placement",
        ),
        (lambda: vsr.make("Walker-v0", body=["aaa", "a"]), "rows of 1 and 3 cells"),
        (lambda: vsr.make("Walker-v0", body=[[3, 3], [3]]), "rows of 1 and 2 cells"),
        (lambda: vsr.make("Walker-v0", body=[["a", "aa"]]), "rows of 1 and 2 cells"),
        (
            lambda: vsr.make("Walker-v0", body="a", max_episode_steps=501),
            "max_episode_steps: 501 given; it is from 1 to 500",
        ),
        (lambda: vsr.make("Walker-v0", body="a", max_episode_steps=0), "max_episode_steps: 0 given"),
        (lambda: vsr.make("Walker-v0", body="a", world={"terrain": "hilly"}), "the task brings its own"),
        (lambda: vsr.make("Walker-v0", body=[body_of_kinds(BODIES[0]), body_of_kinds(BODIES[0][:1])]), "its grid is"),
    ],
)
def test_what_does_not_fit_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_kinds_may_be_lists():
    assert vsr.make("Walker-v0", body=BODIES[0].tolist(), **SHORT) == vsr.make("Walker-v0", body=BODIES[0], **SHORT)


def test_an_action_of_another_length_is_refused(env):
    params = of(0, env.default_params)
    _, state = env.reset(KEY, params)
    with pytest.raises(ValueError, match=r"action: shape \(3,\) given; it is \(4,\)"):
        env.step(KEY, state, jnp.ones(3), params)
    with pytest.raises(ValueError, match=r"action: shape \(2, 4\) given; it is \(4,\)"):
        env.step_env(KEY, state, jnp.ones((2, 4)), params)


def test_environments_are_copied_inside_programs_and_pickled(env):
    """Trainers copy them while they trace; vectors of processes send them. The tasks' classes are made on the fly."""
    assert jax.jit(lambda x: (copy.deepcopy(env), x)[1])(1.0) == 1
    assert jax.jit(lambda x: (asdict(env.default_params), x)[1])(1.0) == 1
    assert copy.copy(env) is copy.deepcopy(env) is env
    again = pickle.loads(pickle.dumps(env))
    assert again is not env
    assert again == env
    assert type(again.task) is type(env.task)
    assert again.task.model_fields_set == env.task.model_fields_set
    jax.tree.map(np.testing.assert_array_equal, again.default_params, env.default_params)
    params, action = of(SECOND, env.default_params), jnp.array([1.6, 0.6, 1.2, 0.9])
    seen = [one.step(KEY, one.reset(KEY, params)[1], action, params)[0] for one in (again, env)]
    np.testing.assert_array_equal(*seen)


def test_a_task_that_is_not_registered_is_pickled_as_any_object():
    task = Unregistered(duration=2.0)
    again = pickle.loads(pickle.dumps(task))
    assert (type(again), again) == (Unregistered, task)


class Unregistered(Locomotion):
    """With the type of the task that it extends."""


# gymnax


def test_spaces_are_gymnaxs_too_once_it_is_imported(env, monkeypatch):
    """A stand-in for gymnax, imported after the environment was made."""

    class Box:
        def __init__(self, low, high, shape, dtype):
            raise AssertionError

    assert not isinstance(env.observation_space(), Box)
    monkeypatch.setitem(sys.modules, "gymnax.environments.spaces", SimpleNamespace(Box=Box))
    for space in (env.observation_space(), env.action_space()):
        assert isinstance(space, Box)
        assert isinstance(space, OurBox)
        assert isinstance(pickle.loads(pickle.dumps(space)), Box)
    assert env.action_space() == env.action_space()
    assert env.action_space().sample(KEY).shape == (4,)


def test_gymnaxs_wrappers_take_our_environments(env):
    wrappers = pytest.importorskip("gymnax.wrappers", reason="gymnax is not installed")
    params = of(SECOND, env.default_params)
    wrapped = wrappers.LogWrapper(wrappers.FlattenObservationWrapper(env))
    assert wrapped.observation_space(params).shape == env.observation_space().shape
    seen, state = wrapped.reset(KEY, params)
    np.testing.assert_array_equal(seen, env.reset(KEY, params)[0])
    *_, info = wrapped.step(KEY, state, jnp.ones(4), params)
    assert float(info["returned_episode_lengths"]) == 0


# processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.parametrize("use", ["make", "reset", "step"])
def test_a_fork_of_a_process_that_uses_jax_is_refused(env, use):
    """It would wait for ever."""
    params = of(0, env.default_params)
    state = env.reset(KEY, params)[1]
    calls = {
        "make": lambda: vsr.make("Walker-v0", body="a"),
        "reset": lambda: env.reset(KEY, params),
        "step": lambda: env.step(KEY, state, np.ones(4), params),
    }
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            calls[use]()
        except RuntimeError as error:
            os.write(writes, str(error).encode())
        finally:
            os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads) as said:
        assert "spawn" in said.read()
    env.reset(KEY, params)  # here nothing has changed


def test_bodies_of_other_materials_or_joints_are_refused(env):
    with pytest.raises(ValueError, match="known to this environment has r"):
        env.params_of(body_of_kinds(np.array([[1, 3], [3, 3]])))
    with pytest.raises(ValueError, match="nothing but a corner"):
        env.params_of([body_of_kinds(np.array([[0, 3], [3, 0]]))])
    with pytest.raises(ValueError, match="its engine is not"):
        env.params_of(body_of_kinds(BODIES[0], "evogym"))


# copies that differ

INTERVALS = {"friction": (0.25, 1.0), "mass": (0.5, 2.0), "stiffness": (0.25, 1.0), "gravity": (0.5, 2.0)}


def walked(env, params, actions, key=KEY):
    """Observations and rewards under actions, one after the other."""
    seen, state = env.reset(key, params)
    rows = [(np.asarray(seen), 0.0)]
    for number, action in enumerate(actions):
        seen, state, reward, *_ = env.step(jax.random.fold_in(key, number), state, action, params)
        rows.append((np.asarray(seen), float(reward)))
    return [np.array(part) for part in zip(*rows, strict=True)]


@pytest.fixture(scope="module")
def loose() -> Environment:
    """Two voxels of squares whose parameters may differ."""
    randomize = {**INTERVALS, "delay": (0, 3), "action_noise": (0.0, 0.5), "observation_noise": (0.0, 0.5)}
    body = vsr.Body(shape=["aa"])
    return vsr.make("locomotion", body=body, physics={"substeps": 20}, randomize=randomize, duration=0.5)


@pytest.fixture(scope="module")
def actions(loose):
    return jax.vmap(loose.action_space().sample)(jax.random.split(KEY, 6))


@pytest.mark.slow
def test_a_varied_copy_is_one_made_of_other_materials(loose, actions):
    params = loose.varied(loose.default_params, friction=0.25, mass=2.0, stiffness=0.5, gravity=1.5)
    material = vsr.Material(friction=25.0, mass=2.0, spring_frequency=4.0)
    other = vsr.make(
        "locomotion",
        body=vsr.Body(shape=["aa"], materials={"a": material}),
        physics={"substeps": 20},
        world={"gravity": 1.5 * vsr.World().gravity},
        duration=0.5,
    )
    (seen, reward), (wanted, others) = walked(loose, params, actions), walked(other, other.default_params, actions)
    np.testing.assert_allclose(seen, wanted, atol=2e-4)
    np.testing.assert_allclose(reward, others, atol=2e-5)
    plain = walked(loose, loose.default_params, actions)[0]
    assert np.abs(plain - seen).max() > 0.01
    with pytest.raises(ValueError, match="these params are varied already"):
        loose.varied(params, mass=1.0)


def test_delayed_actions_come_later(loose, actions):
    late = walked(loose, loose.varied(loose.default_params, delay=2), actions)[0]
    nothing = jnp.zeros_like(actions[:2])
    wanted = walked(loose, loose.default_params, jnp.concatenate([nothing, actions[:-2]]))[0]
    np.testing.assert_allclose(late, wanted, atol=1e-4)
    at_once = walked(loose, loose.varied(loose.default_params, delay=0), actions)[0]
    np.testing.assert_allclose(at_once, walked(loose, loose.default_params, actions)[0], atol=1e-4)
    assert np.abs(at_once - late).max() > 0.1


def test_noise_is_drawn_from_the_key_of_the_step(loose, actions):
    exact = walked(loose, loose.default_params, actions)
    noisy = walked(loose, loose.varied(loose.default_params, observation_noise=0.1), actions)
    np.testing.assert_array_equal(noisy[1], exact[1])  # what happens is the same
    off = noisy[0] - exact[0]
    assert 0.07 < off.std() < 0.13
    assert len(np.unique(off)) > 0.9 * off.size
    again = walked(loose, loose.varied(loose.default_params, observation_noise=0.1), actions)
    np.testing.assert_array_equal(again[0], noisy[0])
    shaken = walked(loose, loose.varied(loose.default_params, action_noise=0.5), actions)
    assert np.abs(shaken[0] - exact[0]).max() > 0.01


def test_copies_draw_from_their_intervals(loose):
    keys = jax.random.split(KEY, 64)
    drawn = jax.vmap(lambda key: loose.randomization.draw(key, loose.dtype))(keys)
    for name, (low, high) in loose.randomization.given.items():
        values = np.asarray(drawn[name])
        assert low <= values.min() < low + 0.1 * (high - low) + 1e-6, name
        assert high >= values.max() > high - 0.1 * (high - low) - 1e-6, name
    assert set(np.asarray(drawn["delay"]).tolist()) == {0, 1, 2, 3}
    params = jax.vmap(loose.randomized, (0, None))(keys[:2], loose.default_params)
    assert params.model.mass.shape == (2, *loose.default_params.model.mass.shape)
    ratio = np.asarray(params.model.mass / loose.default_params.model.mass)
    np.testing.assert_allclose(ratio[:, 0, 0], params.drawn["mass"], rtol=1e-6)


def test_every_reset_of_gymnasium_draws(gymnasium):
    env = gymnasium.make("vsr/locomotion", body=("aa",), duration=0.5, randomize={"friction": (0.1, 1.0)}).unwrapped
    drawn = []
    for seed in (1, None, 1):
        env.reset(seed=seed)
        drawn.append(float(env.params.drawn["friction"]))
    assert drawn[0] == drawn[2] != drawn[1]


def test_what_cannot_vary_is_refused(env):
    with pytest.raises(ValueError, match="friction: this environment does not vary it; make it with randomize"):
        env.varied(of(0, env.default_params), friction=0.5)
    with pytest.raises(ValueError, match="evogym masses have no friction and no mass of their own"):
        vsr.make("Walker-v0", engine="evogym", body=BODIES[0], randomize={"friction": (0.5, 1), "mass": (1, 2)})
    with pytest.raises(ValueError, match="the smaller first"):
        vsr.make("Walker-v0", body=BODIES[0], randomize={"delay": (3, 1)})
    with pytest.raises(ValueError, match="wind"):
        vsr.make("Walker-v0", body=BODIES[0], randomize={"wind": (0, 1)})


# brax


def test_brax_sees_the_same_steps_and_no_reset(env, played):
    view = BraxView(env, of(SECOND, env.default_params))
    assert (view.observation_size, view.action_size) == (20, 4)
    state, go = view.reset(KEY), jax.jit(view.step)
    for number, (action, *_, reward, _, truncated, info) in enumerate(played[1][:STEPS]):
        state = go(state, 2 * (action[SECOND] - 1.1))
        np.testing.assert_allclose(state.obs, info["final_observation"][SECOND], atol=1e-5)
        np.testing.assert_allclose([state.reward, state.metrics["reward"]], reward[SECOND], atol=1e-6)
        assert float(state.done) == float(state.info["truncation"]) == float(truncated[SECOND]) == (number == STEPS - 1)


# gymnasium


@pytest.fixture
def gymnasium():
    return pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'voxel-soft-robots[gym]'")


def test_gymnasium_knows_all_tasks(gymnasium):
    assert {f"vsr/{name}" for name in TASKS} <= set(gymnasium.registry)
    assert register() == []


def test_without_gymnasium_nothing_is_registered(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert register() == []


def test_tasks_that_are_registered_late_are_known_to_gymnasium(gymnasium):
    class Kick(Locomotion):
        type: Literal["kick"] = "kick"

    try:
        TASKS["kick"] = Kick
        env = gymnasium.make("vsr/kick", body=("aa", ".a"), engine="points", duration=0.1)
        assert isinstance(env.unwrapped.env.task, Kick)
    finally:
        TASKS.pop("kick", None)
        gymnasium.registry.pop("vsr/kick", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "limit"),
    [
        ("Walker-v0", {}, 500),
        ("Walker-v0", SHORT, STEPS),
        ("Walker-v0", {"duration": 600 * 0.055}, 600),
        ("locomotion", {"engine": "points"}, 600),
    ],
)
def test_specs_have_the_limit_of_steps(gymnasium, name, options, limit):
    env = gymnasium.make(f"vsr/{name}", body=("aa", ".a"), **options)
    many = gymnasium.make_vec(f"vsr/{name}", num_envs=2, body=("aa", ".a"), **options)
    assert env.spec.max_episode_steps == many.spec.max_episode_steps == limit
    again = gymnasium.make(env.spec)
    assert again.spec.max_episode_steps == limit
    assert again.unwrapped.env == env.unwrapped.env


@pytest.mark.slow
def test_episodes_end_by_truncation_after_max_episode_steps(gymnasium):
    """As the vector counts, and as gymnasium's own time limit does; the same where both say the same."""
    ends = {}
    for name, env in {
        "one": gymnasium.make("vsr/Walker-v0", body=BODIES[0], max_episode_steps=2, **SHORT),
        "made again": gymnasium.make(gymnasium.make("vsr/Walker-v0", body=BODIES[0], duration=0.11).spec),
        "many": gymnasium.make_vec("vsr/Walker-v0", num_envs=2, body=BODIES[0], max_episode_steps=2, **SHORT),
        "one by one": gymnasium.make_vec("vsr/Walker-v0", 1, "sync", body=BODIES[0], max_episode_steps=2, **SHORT),
    }.items():
        assert env.reset(seed=0)
        ends[name] = [[bool(np.all(end)) for end in env.step(env.action_space.sample())[2:4]] for _ in range(2)]
        if name != "one by one":  # gymnasium's own vector says nothing
            assert env.spec.max_episode_steps == 2
    assert ends == {name: [[False, False], [False, True]] for name in ends}


def test_a_limit_beyond_that_of_the_task_is_not_in_the_spec(gymnasium):
    """Episodes end as the task says; a lower limit holds, also in what is made of the spec again."""
    env = gymnasium.make("vsr/Walker-v0", body=BODIES[0], max_episode_steps=STEPS + 5, **SHORT)
    env.reset(seed=0)
    assert [env.step(env.action_space.sample())[3] for _ in range(STEPS)] == [False] * (STEPS - 1) + [True]
    assert env.spec.max_episode_steps == gymnasium.make(env.spec).spec.max_episode_steps == STEPS
    assert gymnasium.make(env.spec, max_episode_steps=1).spec.max_episode_steps == 1


def test_gymnasiums_environments_are_pickled_as_they_are(gymnasium):
    """In the middle of an episode."""
    one = gymnasium.make("vsr/Walker-v0", body=BODIES[0], **SHORT)
    many = gymnasium.make_vec("vsr/Walker-v0", num_envs=2, body=BODIES[0], **SHORT)
    for env in (one, many):
        env.reset(seed=0)
        env.step(env.action_space.sample())
        copies = pickle.loads(pickle.dumps(env)), copy.deepcopy(env)
        action = env.action_space.sample()
        seen = env.step(action)[0]
        for other in copies:
            assert other.spec.max_episode_steps == STEPS
            np.testing.assert_array_equal(other.step(action)[0], seen)


def test_steps_need_an_episode_and_an_action_of_the_right_length(gymnasium):
    one = gymnasium.make("vsr/Walker-v0", body=BODIES[0], max_episode_steps=-1, padded=False, duration=0.055).unwrapped
    many = gymnasium.make_vec("vsr/Walker-v0", num_envs=2, body=BODIES[0], **SHORT)
    for env in (one, many):
        with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
            env.step(env.action_space.sample())
        env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action: shape \(4,\) given; it is \(3,\)"):
        one.step(np.ones(4))
    with pytest.raises(ValueError, match=r"action: shape \(4,\) given; it is \(2, 4\)"):
        many.step(np.ones(4))
    assert one.step(np.ones(3))[2:4] == (False, True)
    with pytest.raises(gymnasium.error.ResetNeeded, match="over"):
        one.step(np.ones(3))
    one.reset()
    one.close()
    with pytest.raises(gymnasium.error.ResetNeeded, match="over"):
        one.step(np.ones(3))


ASYNC = """
import sys, warnings
import gymnasium, numpy, vsr.envs

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    envs = gymnasium.make_vec(
        "vsr/Walker-v0", 1, "async", {"context": sys.argv[1]}, body=[[3, 4], [0, 3]], max_episode_steps=2
    )
    envs.reset(seed=0)
    print(*(bool(envs.step(envs.action_space.sample())[3][0]) for _ in range(2)))
    envs.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_vectors_of_processes_work_if_spawned_and_else_say_so(gymnasium, tmp_path):
    file = tmp_path / "many.py"
    file.write_text(ASYNC)
    done = {
        context: subprocess.run([sys.executable, file, context], capture_output=True, text=True, cwd=ROOT, timeout=300)
        for context in ("fork", "spawn")
    }
    assert done["fork"].returncode != 0
    assert 'vector_kwargs={"context": "spawn"}' in done["fork"].stderr
    assert done["spawn"].stdout.split() == ["False", "True"], done["spawn"].stderr


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized.*")
def test_gymnasiums_own_check_passes(gymnasium):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make("vsr/Walker-v0", body=BODIES[0], render_mode="rgb_array", **SHORT)
    check_env(env.unwrapped)
    env.reset(seed=0)
    shown = env.render()
    assert (shown.shape, shown.dtype) == ((420, 640, 3), np.uint8)
    with pytest.raises(ValueError, match="render_mode: 'depth_array' given"):
        type(env.unwrapped)("Walker-v0", render_mode="depth_array")
    with pytest.raises(ValueError, match="make_vec"):
        gymnasium.make("vsr/Walker-v0", body=BODIES, **SHORT)


def test_one_many_and_pure_environments_agree_step_by_step(gymnasium, env, played):
    first, rows = played
    many = gymnasium.make_vec("vsr/Walker-v0", num_envs=3, body=BODIES, **SHORT)
    assert many.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    single = gymnasium.make("vsr/Walker-v0", body=body_of_kinds(BODIES[SECOND]), **SHORT)
    few = gymnasium.make("vsr/Walker-v0", body=body_of_kinds(BODIES[SECOND]), padded=False, **SHORT)
    seen_by_many, _ = many.reset(seed=0)
    np.testing.assert_allclose(seen_by_many, first, atol=1e-6)
    for one in (single, few):
        np.testing.assert_allclose(one.reset(seed=0)[0], first[SECOND], atol=1e-6)
    assert few.action_space.shape == (4,)
    for action, seen, _, reward, terminated, truncated, info in rows:
        action = np.asarray(action)
        got = many.step(action)
        for value, wanted in zip(got, (seen, reward, terminated, truncated), strict=False):
            np.testing.assert_allclose(value, wanted, atol=1e-5)
        assert ("final_obs" in got[-1]) == bool(truncated.any())
        if truncated.any():
            np.testing.assert_allclose(np.stack(got[-1]["final_obs"]), info["final_observation"], atol=1e-5)
            assert got[-1]["_final_obs"].all()
        for one in (single, few):
            observed, earned, ended, late, _ = one.step(action[SECOND])
            np.testing.assert_allclose(observed, info["final_observation"][SECOND], atol=1e-5)
            assert earned == pytest.approx(float(reward[SECOND]), abs=1e-5)
            assert (ended, late) == (bool(terminated[SECOND]), bool(truncated[SECOND]))
            if ended or late:
                one.reset()


def test_the_next_episode_begins_a_step_later_if_asked(gymnasium, played):
    """As gymnasium's own wrappers of vectors want it."""
    from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics

    first, rows = played
    assert [row[-2].all() for row in rows[: STEPS + 1]] == [False] * (STEPS - 1) + [True, False]
    many = gymnasium.make_vec("vsr/Walker-v0", num_envs=3, body=BODIES, autoreset_mode="NextStep", **SHORT)
    many = RecordEpisodeStatistics(many)
    NormalizeObservation(many)
    many.reset(seed=0)
    for number, (action, _, _, reward, terminated, truncated, info) in enumerate(rows):
        if number in (STEPS, 2 * STEPS):
            seen, nothing, *over, _ = many.step(np.asarray(action) * 0 + 0.6)
            np.testing.assert_allclose(seen, first, atol=1e-6)
            assert not np.any([nothing, *over])
        seen, *got, said = many.step(np.asarray(action))
        np.testing.assert_allclose(seen, info["final_observation"], atol=1e-5)
        for value, wanted in zip(got, (reward, terminated, truncated), strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-5)
        assert "final_obs" not in said
        if truncated.any():
            np.testing.assert_array_equal(said["episode"]["l"], STEPS)
    with pytest.raises(ValueError, match="autoreset_mode: 'Disabled' given; it is 'SameStep' or 'NextStep'"):
        gymnasium.make_vec("vsr/Walker-v0", num_envs=3, body=BODIES, autoreset_mode="Disabled", **SHORT)


def test_without_padding_a_body_has_its_own_numbers_only(gymnasium):
    padded, own = (
        gymnasium.make("vsr/Walker-v0", body=BODIES[0], padded=padded, **SHORT).unwrapped for padded in (True, False)
    )
    assert (own.observation_space.shape, own.action_space.shape) == ((18,), (3,))
    mask = np.asarray(own.params.observation_mask)
    np.testing.assert_array_equal(padded.reset(seed=0)[0][mask], own.reset(seed=0)[0])
    action = np.array([1.6, 0.7, 1.1, 0.9], np.float32)
    both = padded.step(action), own.step(action[[0, 1, 3]])
    np.testing.assert_allclose(both[0][0][mask], both[1][0], atol=1e-6)


def test_vectors_need_as_many_bodies_as_environments(gymnasium):
    with pytest.raises(ValueError, match="3 given for 2"):
        gymnasium.make_vec("vsr/Walker-v0", num_envs=2, body=BODIES, **SHORT)


def test_pictures_do_not_zoom_with_the_robot(env):
    one = of(SECOND, env.default_params)
    small, large = (replace(one.start, world=_stretched(one.start.world, by)) for by in (0.8, 1.2))
    pictures = [picture(env, state, one, (200, 160)) for state in (small, large)]
    inked = [(np.abs(shown.astype(int) - [255, 255, 255]).sum(-1) > 150).sum() for shown in pictures]
    assert inked[1] > 1.2 * inked[0]


def _stretched(world, by):
    (robot,) = world.robots
    middle = robot.position.mean((0, 1, 2))
    return replace(world, robots=(replace(robot, position=middle + by * (robot.position - middle)),))

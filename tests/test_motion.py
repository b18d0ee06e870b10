"""Motion: closed forms, conservation, convergence, and the same answer however it is run."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest

from vsr.compute.vector import turn
from vsr.environment import Environment
from vsr.physics.engine import assemble_body
from vsr.physics.squares.advance import advance
from vsr.physics.squares.geometry import area_ratio, center, kinetic_energy, mass_motion, momentum, rest_state
from vsr.robot import Body, Material
from vsr.world.placement import move_rigidly

pytestmark = pytest.mark.usefixtures("quickly_compiled")
FREE = Environment(gravity=jnp.float32(0.0))
PIECE = 8


def run(model, state, *, time, substep, control=0.0, environment=FREE):
    """In pieces where that is possible, so that runs of different lengths share a program."""
    values = jnp.full(model.present.shape, control, model.mass.dtype)
    count = round(time / substep)
    pieces = 1 if count % PIECE else count // PIECE
    for _ in range(pieces):
        state = advance(model, environment, state, values, substep=substep, count=count // pieces)
    return state


def middle(model, state):
    return np.asarray(center(model, mass_motion(model, state)))


@pytest.mark.slow
@pytest.mark.parametrize("damping", [0.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_free_fall(damping):
    material = Material(linear_damping=damping)
    model = assemble_body(Body(shape=("aa",), materials={"a": material}))
    falling = Environment(gravity=jnp.float32(9.8))
    end = run(model, rest_state(model), time=1.0, substep=1 / 2000, environment=falling)
    speed = 9.8 if damping == 0 else 9.8 * (1 - np.exp(-1))
    drop = 4.9 if damping == 0 else 9.8 - speed
    assert middle(model, rest_state(model))[1] - middle(model, end)[1] == pytest.approx(drop, rel=2e-3)
    np.testing.assert_allclose(np.asarray(end.velocity)[np.asarray(model.cluster_mass) > 0][:, 1], -speed, rtol=2e-3)


@pytest.mark.slow
def test_two_masses_on_the_diagonal_springs_swing_at_their_frequency():
    """Masses pulled out along the diagonals: the central cross alone is a spring of the material's frequency."""
    with jax.enable_x64(True):
        groups = ("side_internal", "central_cross")
        material = Material(spring_frequency=2.0, spring_damping_ratio=0.0, linear_damping=0.0, scaffolding=groups)
        model = assemble_body(Body(shape="a", materials={"a": material}), dtype=jnp.float64)
        model = replace(model, groups=model.groups.at[1].set(0.0))
        state = rest_state(model)
        out = 0.01 * jnp.sign(state.position - 1.5)
        free = Environment(gravity=jnp.zeros(()))
        end = run(model, replace(state, position=state.position + out), time=0.25, substep=1e-4, environment=free)
        stretch = np.asarray((end.position - state.position) / out)
    # half a period of 2 Hz: the deflection is reversed
    np.testing.assert_allclose(stretch, -1, atol=2e-3)


def test_momentum_is_kept_without_outer_forces(disturbed):
    model, state = disturbed()
    end = run(model, state, time=0.5, substep=1 / 960)
    for before, after in zip(momentum(model, state), momentum(model, end), strict=True):
        np.testing.assert_allclose(after, before, atol=2e-3)


def spring_energy(original_voxel, model, state):
    """Plain potential energy of all springs [J]."""
    motion = mass_motion(model, state)
    springs = original_voxel["springs_in_order"]
    groups = set(plain.GROUPS.values())
    energy = 0.0
    for r, c in zip(*np.nonzero(np.asarray(model.present)), strict=True):
        angle = np.arctan2(motion.rotation[:, r, c, 1], motion.rotation[:, r, c, 0])
        terms = plain.spring_terms(
            springs, np.asarray(motion.center[:, r, c], float), angle, np.asarray(motion.velocity[:, r, c], float),
            np.asarray(motion.spin[:, r, c], float), [s["rest"] for s in springs],
            mass=1.0, inertia=0.135, frequency=8.0, damping_ratio=0.3, groups=groups,
        )  # fmt: skip
        energy += sum(term[-1] for term in terms)
    return energy


def test_energy_never_rises_without_actuation(disturbed, original_voxel):
    model, state = disturbed()
    energies = []
    for _ in range(40):
        energies.append(float(kinetic_energy(model, state)) + spring_energy(original_voxel, model, state))
        state = run(model, state, time=1 / 120, substep=1 / 960)
    assert energies[0] > 1
    assert (np.diff(energies) <= 1e-3 * energies[0]).all()
    assert energies[-1] < 0.1 * energies[0]


def test_motion_turns_and_shifts_with_its_start(disturbed):
    model, state = disturbed()
    shift = jnp.array([3.0, -2.0])
    moved = move_rigidly(model, state, tilt=0.7, shift=shift)
    moved = replace(moved, velocity=turn(jnp.array([np.cos(0.7), np.sin(0.7)], jnp.float32), state.velocity))
    pivot = center(model, mass_motion(model, state))
    end, moved_end = (run(model, start, time=0.25, substep=1 / 480) for start in (state, moved))
    rotation = jnp.array([np.cos(0.7), np.sin(0.7)], jnp.float32)
    expected = pivot + turn(rotation, end.position - pivot) + shift
    exists = np.asarray(model.cluster_mass) > 0
    np.testing.assert_allclose(np.asarray(moved_end.position)[exists], np.asarray(expected)[exists], atol=2e-4)
    np.testing.assert_allclose(
        np.asarray(moved_end.velocity)[exists], np.asarray(turn(rotation, end.velocity))[exists], atol=5e-3
    )


@pytest.mark.slow
def test_error_falls_with_the_substep(disturbed):
    """Semi-implicit Euler is of first order."""
    with jax.enable_x64(True):
        model, state = disturbed(jnp.float64)
        free = Environment(gravity=jnp.zeros(()))

        def end(substep):
            return np.asarray(run(model, state, time=0.2, substep=substep, environment=free).position)

        exact = end(0.2 / 6400)
        errors = [np.abs(end(0.2 / count) - exact).max() for count in (100, 200, 400)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 0.9).all()
    assert (orders < 1.3).all()


@pytest.mark.full
def test_the_originals_scheme_refined_converges_to_ours(original_voxel):
    """The original at 1/60 s reproduces its data; at 1/3840 s it is where we are. So what differs is its time step."""
    import json

    from conftest import DATA

    springs = original_voxel["springs_in_order"]
    order = [0, 3, 4, 7, 8, 9, 14, 15, 16, 1, 2, 5, 6, 10, 11, 12, 13, 17]
    data = json.loads((DATA / "single" / "step_fplus1_nogravity_default.json").read_text())
    theirs = np.array(data["trajectory_every_step"])[:10, 3]
    masses = {"mass": 0.2025, "inertia": 0.0273375}
    coarse = plain.original_scheme(springs, order, lambda step: float(step > 2), time_step=1 / 60, steps=10, **masses)
    np.testing.assert_allclose(coarse, theirs, atol=1e-6)

    smaller_steps = 64
    fine = plain.original_scheme(
        springs,
        order,
        lambda step: float(step > 2 * smaller_steps),
        time_step=1 / 60 / smaller_steps,
        steps=10 * smaller_steps,
        **masses,
    )[smaller_steps - 1 :: smaller_steps]
    model = assemble_body(Body(shape="a", materials={"a": Material(mass=0.2025)}))
    state, ours = rest_state(model), []
    for step in range(10):
        state = run(model, state, time=1 / 60, substep=1 / 60 / smaller_steps, control=float(step >= 2))
        ours.append(float(area_ratio(model, mass_motion(model, state))[0, 0]))
    assert np.abs(coarse - fine).max() > 0.05
    np.testing.assert_allclose(ours, fine, atol=5e-3)


@pytest.mark.parametrize("control", [-1.0, 0.5, 1.0])
def test_a_free_voxel_takes_the_asked_area(control):
    model = assemble_body(Body(shape="a"))
    end = run(model, rest_state(model), time=3.0, substep=1 / 240, control=control)
    wanted = {-1.0: 1.2, 0.5: 0.897664, 1.0: 0.8}[control]
    assert float(area_ratio(model, mass_motion(model, end))[0, 0]) == pytest.approx(wanted, abs=1e-4)


def test_control_is_clipped():
    model = assemble_body(Body(shape="a"))
    one, three = (run(model, rest_state(model), time=0.1, substep=1 / 240, control=value) for value in (1.0, 3.0))
    np.testing.assert_array_equal(one.position, three.position)


@pytest.mark.slow
def test_voxels_that_touch_at_a_corner_are_not_joined():
    body = Body(shape=(".a", "a."))
    model = assemble_body(body)
    state = rest_state(model)
    # push the upper right voxel away: the other one must stay where it is
    upper = np.zeros((*model.cluster_mass.shape, 1), bool)
    upper[0, 1, 2] = upper[0, 2, 1] = upper[0, 2, 2] = upper[1, 1, 1] = True
    state = replace(state, velocity=jnp.where(upper, jnp.array([2.0, 1.0]), state.velocity))
    end = mass_motion(model, run(model, state, time=0.5, substep=1 / 240))
    np.testing.assert_allclose(end.center[:, 0, 0].mean(0), [1.5, 1.5], atol=1e-3)
    assert float(end.center[:, 1, 1, 0].mean()) > 5.0


@pytest.mark.slow
def test_disconnected_parts_move_apart():
    model = assemble_body(Body(shape=("a.a",)))
    state = rest_state(model)
    right = state.position[..., :1] > 4.5
    state = replace(state, velocity=jnp.where(right, jnp.array([2.0, 0.0]), state.velocity))
    end = mass_motion(model, run(model, state, time=0.5, substep=1 / 240))
    np.testing.assert_allclose(end.center[:, 0, 0].mean(0), [1.5, 1.5], atol=1e-3)
    assert float(end.center[:, 0, 2, 0].mean()) == pytest.approx(7.5 + 2 * (1 - np.exp(-0.5)), abs=1e-2)


@pytest.mark.slow
def test_vmap_equals_loop_and_jit_equals_none(disturbed):
    model, state = disturbed()
    controls = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (3, 2, 2)), jnp.float32)

    def end(control):
        return advance(model, FREE, state, control, substep=1 / 240, count=4)

    looped = [end(control) for control in controls]
    compiled = jax.jit(jax.vmap(end))(controls)
    twice = jax.vmap(jax.vmap(end))(jnp.stack([controls, controls]))
    with jax.disable_jit():
        plain_run = end(controls[0])
    for name in ("position", "velocity", "rotation", "spin"):
        single = np.stack([np.asarray(getattr(one, name)) for one in looped])
        for many in (compiled, jax.tree.map(lambda leaf: leaf[1], twice)):
            np.testing.assert_allclose(getattr(many, name), single, atol=2e-5)
        np.testing.assert_allclose(getattr(plain_run, name), single[0], atol=2e-5)


def test_repeated_runs_are_identical(disturbed):
    model, state = disturbed()
    first, second = (jax.jit(lambda s: run(model, s, time=0.2, substep=1 / 240))(state) for _ in range(2))
    np.testing.assert_array_equal(first.position, second.position)


def test_anchored_masses_stay():
    held = np.zeros((4, 1, 2), bool)
    held[[0, 2], 0, 0] = True
    model = assemble_body(Body(shape=("aa",)), anchored=held)
    state = rest_state(model)
    end = run(model, state, time=0.5, substep=1 / 240, environment=Environment(gravity=jnp.float32(9.8)))
    np.testing.assert_array_equal(end.position[0, :, 0], state.position[0, :, 0])
    assert float((state.position - end.position)[0, 0, 2, 1]) > 0.05

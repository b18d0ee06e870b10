"""The longest step of a lattice, for every integrator: stable just below it, told where there is none."""

import jax.numpy as jnp
import numpy as np
import pytest

from vsr.lattice import INTEGRATORS, Environment, Stiffness, advance, choose_step, longest_step, of_pairs, rest_state
from vsr.lattice.model import State
from vsr.physics.points.stability import longest_point_substep
from vsr.robot import Material

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SPRINGS = Stiffness(1e4, 1e4)


def block(damping_time):
    return of_pairs((3, 3), 0.5, SPRINGS, 0.1, damping_time=damping_time)


def shaken(lattice, step, integrator):
    """How far nodes are from rest after many steps that began with a micrometer."""
    noise = np.random.default_rng(0).normal(0, 1e-6, lattice.rest_position.shape)
    start = rest_state(lattice)
    start = State(start.position + jnp.asarray(noise, jnp.float32), start.velocity, start.time)
    end = advance(lattice, Environment(gravity=0.0), start, step=step, count=600, integrator=integrator)
    return float(jnp.abs(end.position - lattice.rest_position).max())


@pytest.mark.slow
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("damping_time", [0.0, 7.2e-4, 2e-2])
def test_steps_just_below_the_bound_are_stable(integrator, damping_time):
    """7.2e-4 s is where Runge-Kutta's limits for springs and for dampers, each alone, are not enough."""
    lattice = block(damping_time)
    bound = longest_step(lattice, integrator)
    if integrator == "explicit_euler" and damping_time == 0:
        assert bound == 0
        assert not shaken(lattice, 1e-3, integrator) < 1e-3  # indeed
        return
    assert shaken(lattice, 0.97 * bound, integrator) < 1e-3


@pytest.mark.parametrize(("integrator", "damping_time"), [("semi_implicit_euler", 0.0), ("verlet", 0.0), ("rk4", 0.0)])
def test_steps_beyond_the_bound_blow_up(integrator, damping_time):
    lattice = block(damping_time)
    assert not shaken(lattice, 1.1 * longest_step(lattice, integrator), integrator) < 1e-3


def test_a_step_is_chosen_kept_or_refused():
    lattice = block(1e-3)
    bound = longest_step(lattice)
    assert choose_step(lattice) == pytest.approx(bound / 2)
    assert choose_step(lattice, step=0.9 * bound) == 0.9 * bound
    for wrong in (1.1 * bound, 0.0, -1.0):
        with pytest.raises(ValueError, match="stable up to"):
            choose_step(lattice, step=wrong)
    with pytest.raises(ValueError, match="did you mean 'verlet'"):
        choose_step(lattice, "verlett")
    with pytest.raises(ValueError, match="explicit_euler gains energy unless"):
        choose_step(block(0.0), "explicit_euler")
    with pytest.raises(ValueError, match="has no springs"):
        choose_step(of_pairs((2, 2), 0.5, Stiffness(0.0, 0.0), 0.1))


def test_explicit_euler_needs_damped_materials():
    assert longest_point_substep(Material(spring_damping_ratio=0.0), 3.0, 3, "explicit_euler") == 0
    damped = longest_point_substep(Material(spring_damping_ratio=0.3), 3.0, 3, "explicit_euler")
    assert damped == pytest.approx(2 * 0.3 / (2 * np.pi * 8.0))  # damping over stiffness of a spring

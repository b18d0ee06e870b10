"""Impacts of single contacts: none gains energy or momentum, and restitution is that of the textbook."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.physics.contact.bodies import Bodies, BodySide, Nodes, Rows, Speeds, Table
from vsr.physics.contact.solver import Contact, Counts, no_impulse, solve

pytestmark = pytest.mark.usefixtures("quickly_compiled")
MANY = 20_000
ONCE = Counts(iterations=3, shifts=2, passes=(3,))


def random_impacts(kind, seed=0):
    """Many worlds, each with one contact that approaches; all arrays have the worlds as their last axis."""
    rng = np.random.default_rng(seed)

    def uniform(low, high, *shape):
        return jnp.asarray(rng.uniform(low, high, (*shape, MANY)), jnp.float32)

    count = 2 if kind == "two boxes" else 1
    bodies = Bodies(uniform(0.1, 2, count), uniform(0.1, 2, 1, 1, count), jnp.zeros((count, MANY)), 0)
    angle = rng.uniform(0, 2 * np.pi, (1, MANY))
    normal = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)]), jnp.float32)
    levers = [uniform(-2, 2, 2, 1) for _ in range(2)]
    nodes = Nodes(uniform(-1, 1, 2, 1), uniform(0.1, 2, 1), uniform(-1, 1, 2, 1), uniform(0.1, 2, 1), None, None, None)
    now = Speeds(uniform(-5, 5, 2, 1), jnp.zeros((2, 1, MANY)), uniform(-5, 5, 2, count), uniform(-5, 5, 1, count))
    sides = {
        "box on the ground": Rows(nodes, bodies, None, BodySide(levers[0], (0,))),
        "two boxes": Rows(nodes, bodies, None, BodySide(levers[0], (0,)), BodySide(levers[1], (1,))),
        "robot on a box": Table(nodes, bodies, levers[0][:, None]),
    }[kind]
    if kind == "robot on a box":
        normal = normal[:, None]
    toward = (sides.parting(now) * normal).sum(0)
    normal = jnp.where(toward > 0, -normal, normal)
    shape = normal.shape[1:]

    def contact_with(friction, restitution):
        given = (jnp.full(shape, value, jnp.float32) for value in (friction, restitution))
        return Contact(normal, jnp.zeros(shape), jnp.ones(shape, bool), *given, sides)

    return now, nodes, bodies, contact_with


def kinetic_energy(now, nodes, bodies, with_nodes):
    """In float64 [J]; a node's spin follows from the impulse that it got."""
    velocity, spin = (np.asarray(part, float) for part in (now.bodies, now.spin))
    mass, inertia = (1 / np.asarray(part, float) for part in (bodies.inverse_mass, bodies.inverse_inertia[0]))
    total = 0.5 * (mass * (velocity**2).sum(0) + (inertia * spin**2)[0]).sum(0)
    if not with_nodes:
        return total
    # The carrier at rest but for the vertex's velocity: all of it is that of its center before the impact.
    start, push, lever = (np.asarray(part, float)[:, 0] for part in (with_nodes.nodes, now.given, nodes.lever))
    ready, readily = (np.asarray(part, float)[0] for part in (nodes.inverse_mass, nodes.inverse_inertia))
    center, turning = start + ready * push, readily * (lever[0] * push[1] - lever[1] * push[0])
    return total + 0.5 * ((center**2).sum(0) / ready + turning**2 / readily)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["box on the ground", "two boxes", "robot on a box"])
def test_impacts_never_gain(kind):
    """Newton's restitution with friction gains up to half of the energy (Kane's paradox); Poisson's, bounded, none."""
    now, nodes, bodies, contact_with = random_impacts(kind)
    contact = contact_with(0.0, 0.0)

    @jax.jit
    def impact(friction, restitution):
        met = contact_with(friction, restitution)
        return solve(now, _way(now, 1e-6), [met], [no_impulse(met)], ONCE, 1e-6)[0]

    for friction in (0.0, 0.5, 4.47):
        for restitution in (0.1, 0.5, 0.8, 1.0):
            after = impact(friction, restitution)
            soft = now if kind == "robot on a box" else None
            energies = [kinetic_energy(state, nodes, bodies, soft) for state in (now, after)]
            assert (energies[1] / energies[0]).max() < 1 + 2e-5, (friction, restitution)
            speeds = [
                np.asarray((contact.sides.parting(state) * contact.normal).sum(0)).reshape(-1) for state in (now, after)
            ]
            fast = speeds[0] < -1.001
            if friction == 0:
                assert speeds[1].min() > -1e-4
                np.testing.assert_allclose(speeds[1][fast], -restitution * speeds[0][fast], rtol=2e-3, atol=2e-3)
                if restitution == 1:
                    np.testing.assert_allclose(energies[1][fast], energies[0][fast], rtol=1e-4)


def _way(now, duration):
    """By how much everything has moved in a step in which nothing was pushed."""
    way = Speeds(*(duration * part for part in now))
    return way._replace(given=jnp.zeros_like(now.given))

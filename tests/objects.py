"""Worlds with objects, for tests of contact."""

import jax
import jax.numpy as jnp
import numpy as np

from vsr.environment import Environment
from vsr.physics.contact.broadphase import may_touch
from vsr.physics.contact.lattices import joined, lattice_of, nodes_of, outward_of
from vsr.physics.contact.system import Objects
from vsr.physics.contact.voxels import point_in_voxel
from vsr.physics.contract import ContactBody
from vsr.physics.engine import assemble_body, engine_of
from vsr.robot import Body, Material
from vsr.world.build import build_solids, soft_objects
from vsr.world.placement import move_rigidly
from vsr.world.spec import Object
from vsr.world.state import WorldModel, advance, world_state

UNDAMPED = {
    "squares": Material(linear_damping=0.0, angular_damping=0.0),
    "points": Material(linear_damping=0.0),
    "3-D": Material(linear_damping=0.0),
}
SUBSTEP = 1 / 360


def body_of(kind, shape):
    """A body without damping, so that momentum is kept."""
    engine = "squares" if kind == "squares" else "points"
    return Body(shape=shape, engine=engine, materials={"a": UNDAMPED[kind]})


def world_with(objects=(), bodies=(), at=((0.0, 0.0),), terrain=None, gravity=0.0, **options):
    """Robots with their lowest left corners at places, and objects."""
    dimension = bodies[0].dimension
    models = tuple(map(assemble_body, bodies))
    objects = Objects(build_solids(objects, dimension, jnp.float32), soft_objects(objects, jnp.float32), **options)
    world = WorldModel(models, Environment(gravity=jnp.float32(gravity), terrain=terrain), {"objects": objects})
    robots = tuple(
        move_rigidly(model, engine_of(model).rest_state(model), shift=jnp.asarray(place, jnp.float32))
        for model, place in zip(models, at, strict=True)
    )
    return world, jax.jit(world_state)(world, robots, jax.random.key(0))


def mover(world, seconds, substep=SUBSTEP, implementation="auto"):
    """The compiled function from a state to that some time later, without control."""
    still = tuple(jnp.zeros((1, *model.present.shape)) for model in world.robots)
    options = {"substep": substep, "count": round(seconds / substep), "implementation": implementation}
    return jax.jit(lambda state: advance(world, state, still, **options)[0])


def solids_of(state):
    return state.systems["objects"].solids


def place_of(world, state, name):
    number = world.systems["objects"].solids.names.index(name)
    return np.asarray(solids_of(state).position[number], float)


def velocity_of(world, state, name):
    number = world.systems["objects"].solids.names.index(name)
    return np.asarray(solids_of(state).velocity[number], float)


def box(name, position, size=(3.0, 2.0), **options):
    return Object(name=name, shape={"type": "box", "size": size}, position=position, **options)


def deepest(models, states):
    """How deep any vertex of some robots is in a voxel that it is no corner of [m]."""
    return float(_deepest(models, states))


@jax.jit
def _deepest(models, states):
    robots = tuple(ContactBody(engine_of(model), model, state) for model, state in zip(models, states, strict=True))
    lattices = tuple(map(lattice_of, robots))
    lattice, (nodes, _) = joined(lattices), nodes_of(robots)
    corner = nodes.position[:, lattice.corner_vertices][:, :, None]
    outward = outward_of(nodes.position, lattice)[:, :, None]
    found = point_in_voxel(nodes.position[:, :, None], corner, lattice.leads_out[:, None], outward, 0.06)
    counts = found.is_inside & lattice.present & nodes.exists[:, None] & may_touch(lattices, True)
    return jnp.where(counts, -found.distance, 0).max()


def momenta(world, state):
    """Linear momentum [kg m/s] and angular momentum about the origin [kg m²/s] of all that moves."""
    linear, angular = 0.0, 0.0
    parts = list(zip(world.robots, state.robots, strict=True))
    objects = world.systems["objects"]
    parts += [
        (one.model, now) for one, now in zip(objects.voxel_bodies, state.systems["objects"].voxel_bodies, strict=True)
    ]
    for model, robot in parts:
        position, velocity = (np.asarray(part, float) for part in (robot.position, robot.velocity))
        mass = np.asarray(model.cluster_mass if hasattr(model, "cluster_mass") else model.node_mass, float)
        push = mass[..., None] * velocity
        axes = tuple(range(mass.ndim))
        linear = linear + push.sum(axes)
        angular = angular + _moment(position, push).sum(axes)
        if hasattr(model, "cluster_inertia"):
            angular = angular + (np.asarray(model.cluster_inertia, float) * np.asarray(robot.spin, float)).sum()
    if objects.solids is not None:
        free, solids, now = objects.solids.free, objects.solids, solids_of(state)
        push = np.asarray(solids.mass, float)[free, None] * np.asarray(now.velocity, float)[free]
        linear = linear + push.sum(0)
        angular = angular + _moment(np.asarray(now.position, float)[free], push).sum(0)
        turn, spin = np.asarray(now.rotation, float)[free], np.asarray(now.spin, float)[free]
        own = np.asarray(solids.inertia, float)[free]
        if spin.shape[1] == 1:
            angular = angular + (own * spin).sum()
        else:
            angular = angular + np.einsum("sij,sj,skj,sk->i", turn, own, turn, spin)
    return linear, angular


def _moment(place, push):
    if place.shape[-1] == 3:
        return np.cross(place, push)
    return place[..., 0] * push[..., 1] - place[..., 1] * push[..., 0]

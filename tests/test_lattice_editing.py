"""Bodies that change while they move."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vsr.compute.vector import join, split
from vsr.lattice import (
    Environment,
    Stiffness,
    advance,
    breakable,
    driven,
    of_graph,
    of_pairs,
    peristaltic_wave,
    rest_state,
)
from vsr.lattice.editing import (
    Editable,
    add_node,
    add_spring,
    editable,
    remove_node,
    remove_spring,
    remove_springs,
)
from vsr.lattice.springs import forces_on_nodes


@jax.jit
def forces(lattice, position):
    parts = split(position, 1)
    return join(forces_on_nodes(lattice.springs, parts, parts, jnp.asarray(0.1), None), 1)


def cube() -> Editable:
    lattice = of_pairs((3, 3, 3), 1.0, Stiffness(30.0, 20.0, 10.0), 1.0, damping_time=0.1)
    return editable(lattice, nodes=40, springs=250, degree=30)


def check(body: Editable) -> None:
    """The bookkeeping agrees with itself."""
    springs = body.springs
    table, place = np.asarray(springs.incidence), np.asarray(body.place)
    alive = np.flatnonzero(place[:, 0] >= 0)
    ends = np.stack([springs.first, springs.second], 1)
    for end in (0, 1):
        np.testing.assert_array_equal(table[ends[alive, end], place[alive, end]], 2 * alive + end)
    assert (table >= 0).sum() == 2 * len(alive)
    np.testing.assert_array_equal((table >= 0).sum(1), body.degree)
    assert ((table >= 0) == (np.arange(table.shape[1]) < np.asarray(body.degree)[:, None])).all()
    free = np.asarray(body.free_springs)[: int(body.free_spring_count)]
    assert sorted([*free, *alive]) == list(range(len(place)))
    free = np.asarray(body.free_nodes)[: int(body.free_node_count)]
    np.testing.assert_array_equal(np.sort(free), np.flatnonzero(np.asarray(body.lattice.mass) == 0))


@pytest.mark.slow
def test_after_many_edits_forces_are_those_of_a_body_built_anew():
    random = np.random.default_rng(0)
    body = cube()
    known = {  # slot: (first, second, stiffness, rest length, damping)
        slot: tuple(np.asarray(part)[slot] for part in numbers(body)) for slot in np.flatnonzero(body.place[:, 0] >= 0)
    }
    nodes = set(range(27))
    for _ in range(300):
        action = random.choice(["add node", "add spring", "remove spring", "remove node"], p=[0.15, 0.5, 0.3, 0.05])
        if action == "add node":
            body, slot = add_node(body, random.uniform(0, 2, 3).astype(np.float32), 0.5)
            assert (int(slot) >= 0) == (len(nodes) < 40)
            nodes |= {int(slot)} - {-1}
        elif action == "add spring":
            first, second = random.choice(sorted(nodes), 2, replace=False)
            stiffness, rest, damping = random.uniform(1, 5, 3).astype(np.float32)
            body, slot = add_spring(body, first, second, stiffness, rest, damping=damping)
            if int(slot) >= 0:
                known[int(slot)] = (first, second, stiffness, rest, damping)
        elif action == "remove spring" and known:
            slot = random.choice(sorted(known))
            body = remove_spring(body, slot)
            del known[slot]
        elif action == "remove node":
            node = random.choice(sorted(nodes))
            body = remove_node(body, node)
            nodes -= {node}
            known = {slot: spring for slot, spring in known.items() if node not in spring[:2]}
    check(body)
    assert set(np.flatnonzero(body.place[:, 0] >= 0)) == set(known)
    assert set(np.flatnonzero(body.lattice.mass)) == nodes
    first, second, stiffness, rest, damping = (np.array(part) for part in zip(*known.values(), strict=True))
    position = jnp.asarray(random.uniform(0, 2, (40, 3)), jnp.float32)
    expected = np.zeros((40, 3))
    for a, b, k, length, c in zip(first, second, stiffness, rest, damping, strict=True):
        between = np.asarray(position[b] - position[a], float)  # velocity is the position here
        distance = np.linalg.norm(between)
        expected[a] += (k * (distance - length) + c * distance) * between / distance
        expected[b] -= (k * (distance - length) + c * distance) * between / distance
    np.testing.assert_allclose(forces(body.lattice, position), expected, rtol=1e-4, atol=1e-3)


def numbers(body: Editable) -> tuple:
    springs = body.springs
    return springs.first, springs.second, springs.stiffness, springs.rest_length, springs.damping


def triangle() -> Editable:
    lattice = of_graph([[0, 0], [1, 0], [0, 1]], [[0, 1]], stiffness=9.0, mass=1.0)
    return editable(lattice, nodes=4, springs=3, degree=2)


@pytest.mark.slow
def test_edits_and_motion_are_compiled_once():
    functions = (add_node, add_spring, remove_spring, remove_node, advance)
    body = triangle()
    before = [function._cache_size() for function in functions]
    for number in range(4):
        body, node = add_node(body, jnp.array([2.0, float(number)]), 1.0)
        body, spring = add_spring(body, 0, node, 10.0)
        body = remove_spring(body, spring)
        body = remove_node(body, node)
        body = replace(body, state=advance(body.lattice, Environment(), body.state, step=1e-2, count=3))
    # At most: another test may have needed the same program.
    assert all(function._cache_size() - size <= 1 for function, size in zip(functions, before, strict=True))
    assert int(body.refused) == 0


@pytest.mark.parametrize(
    "edit",
    [
        lambda body: add_node(body, jnp.zeros(2), 1.0),
        lambda body: add_spring(body, 0, 2, 1.0),
        lambda body: remove_spring(body, 1),
        lambda body: remove_node(body, 1),
    ],
)
def test_edits_write_in_place_and_copy_no_array(edit):
    size = 1000
    nodes = np.arange(size)
    chain = of_graph(np.stack([nodes, 0 * nodes], 1), np.stack([nodes[:-1], nodes[1:]], 1), stiffness=1.0, mass=1.0)
    body = editable(chain, nodes=2 * size, springs=2 * size, degree=6)
    memory = jax.jit(edit, donate_argnums=0).lower(body).compile().memory_analysis()
    assert memory.alias_size_in_bytes >= 0.99 * sum(part.nbytes for part in jax.tree.leaves(body))
    assert memory.temp_size_in_bytes < 4 * size  # less than the smallest of its arrays


def test_what_is_full_or_absent_is_refused():
    body = triangle()
    before = jax.tree.map(np.asarray, body)
    body, slot = add_spring(body, 0, 0, 1.0)  # to itself
    assert int(slot) == -1
    body, slot = add_spring(body, 0, 3, 1.0)  # no such node
    body = remove_spring(body, 2)  # no such spring
    body = remove_spring(body, -1)
    body = remove_node(body, 3)
    body = remove_node(body, 99)
    assert int(body.refused) == 5  # -1 stands for none
    jax.tree.map(np.testing.assert_array_equal, replace(body, refused=jnp.zeros((), jnp.int32)), before)
    body, node = add_node(body, jnp.zeros(2), 1.0)
    assert int(node) == 3
    body, node = add_node(body, jnp.zeros(2), 1.0)  # full
    assert int(node) == -1
    body, _ = add_spring(body, 0, 2, 1.0)
    body, slot = add_spring(body, 0, 3, 1.0)  # no room at node 0
    assert int(slot) == -1
    body, slot = add_spring(body, 2, 3, 1.0)
    assert int(slot) >= 0
    body, slot = add_spring(body, 1, 3, 1.0)  # no slot left
    assert int(slot) == -1
    assert int(body.refused) == 8
    check(body)
    with pytest.raises(ValueError, match="too little"):
        editable(body.lattice, nodes=2)


def test_several_at_once_and_none():
    body = cube()
    count = int(body.free_spring_count)
    body = remove_springs(body, jnp.array([3, -1, 7, 50, -1]))
    assert int(body.free_spring_count) == count + 3
    assert int(body.refused) == 0
    check(body)


def test_a_new_spring_is_whole_has_its_wave_and_takes_its_length_from_now():
    pair = of_graph([[0, 0], [1, 0], [0, 2]], [[0, 1]], stiffness=9.0, mass=1.0)
    pair = breakable(driven(pair, peristaltic_wave(pair, 0.2, 20.0, 1.0)), 5.0)
    body = editable(pair, springs=2, degree=2)
    body = replace(body, state=replace(body.state, intact=jnp.array([False, False])))
    body, slot = add_spring(body, 0, 2, 4.0, yield_force=7.0, amplitude=0.1, delay=0.5)
    springs = body.springs
    assert [float(springs.rest_length[slot]), float(springs.yield_force[slot])] == [2.0, 7.0]
    assert float(springs.wave.delay[slot]) == 0.5
    assert np.asarray(body.state.intact).tolist() == [False, True]


@pytest.mark.slow
def test_a_moving_body_is_taken_over_as_it_moves():
    lattice = of_pairs((2, 2), 1.0, Stiffness(30.0, 20.0), 1.0)
    state = advance(lattice, Environment(), rest_state(lattice), step=1e-2, count=10)
    body = editable(lattice, state, nodes=6)
    np.testing.assert_array_equal(body.state.position[:4], state.position.reshape(-1, 2))
    later = advance(body.lattice, Environment(), body.state, step=1e-2, count=10)
    same = advance(lattice, Environment(), state, step=1e-2, count=10)
    np.testing.assert_allclose(later.position[:4], same.position.reshape(-1, 2), atol=1e-5)
    assert (np.asarray(later.position[4:]) == 0).all()


def test_many_bodies_are_edited_at_once():
    bodies = jax.tree.map(lambda part: jnp.stack([part] * 3), triangle())
    bodies, slots = jax.vmap(lambda body, node: add_spring(body, 0, node, 1.0))(bodies, jnp.array([2, 2, 3]))
    assert np.asarray(slots).tolist() == [1, 1, -1]  # the third names a node that is not there
    bodies = jax.vmap(remove_node)(bodies, jnp.array([0, 1, 2]))
    assert np.asarray(bodies.refused).tolist() == [0, 0, 1]
    assert np.asarray(bodies.free_spring_count).tolist() == [3, 2, 2]

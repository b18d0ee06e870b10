"""EvoGym's kinds of voxels in our own physics: edges driven along one direction, voxels that nothing drives."""

import jax.numpy as jnp
import numpy as np
import pytest

import vsr
from vsr.environment import Environment
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.statics.elements import springs_of
from vsr.robot import KINDS

FREE = Environment(gravity=jnp.zeros(()))


def sides(symbols, control, **more):
    """Width and height of voxels in a row after 5 s under a control value, over those at rest."""
    body = vsr.Body(shape=[symbols], engine="points", materials={**KINDS["points"], **more})
    model, engine = assemble_body(body), ENGINES["points"]
    controls = jnp.full((1, 1, len(symbols)), control)
    state, _ = engine.advance(model, FREE, engine.rest_state(model), controls, substep=0.002, count=2500)
    corner = np.asarray(engine.voxel_motion(model, FREE, state).corner)[:, 0]
    low, right, high, _ = corner
    return np.linalg.norm(right - low, axis=-1) / 3, np.linalg.norm(high - low, axis=-1) / 3


@pytest.mark.parametrize("control", [1.0, -1.0])
def test_free_voxels_change_along_their_own_direction_only(control):
    change = 1 - 0.25 * control
    for symbol, expected in (("h", (change, 1)), ("v", (1, change)), ("s", (1, 1)), ("r", (1, 1))):
        width, height = sides(symbol, control)
        assert (width[0], height[0]) == pytest.approx(expected, abs=1e-3)


def test_springs_at_rest_know_the_direction():
    body = vsr.Body(shape=["hv"], engine="points", materials=KINDS["points"])
    model = assemble_body(body)
    length = np.asarray(springs_of(model, jnp.ones((1, 2))).length) / 3
    # Two vertical edges, two horizontal ones, two diagonals of the rectangle.
    diagonal = np.hypot(1, 0.75)
    assert length[0] == pytest.approx([1, 1, 0.75, 0.75, diagonal, diagonal])
    assert length[1] == pytest.approx([0.75, 0.75, 1, 1, diagonal, diagonal])


def test_squares_refuse_directions_and_know_voxels_that_nothing_drives():
    with pytest.raises(ValueError, match="squares know no horizontal; choose from area, force, none"):
        vsr.Body(shape=["h"], materials={"h": vsr.Material(actuation="horizontal")})
    model = assemble_body(vsr.Body(shape=["p"], materials={"p": vsr.Material(actuation="none")}))
    engine = ENGINES["squares"]
    state = engine.rest_state(model)
    later, _ = engine.advance(model, FREE, state, jnp.ones((1, 1, 1)), substep=0.002, count=50)
    assert np.asarray(later.position) == pytest.approx(np.asarray(state.position), abs=1e-5)

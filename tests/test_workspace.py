"""The task `workspace`: targets, what is held, distances; and the array operations it solves equations with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from vsr.compute.linear import LIBRARY, PLAIN
from vsr.environment import Environment
from vsr.physics.points.assembly import PointMaterials, assemble_points
from vsr.robot import Body, Fluid, Material
from vsr.scene import Scene, precision
from vsr.tasks import Workspace
from vsr.tasks.workspace import Found, closeness, reachable
from vsr.world.state import WorldModel

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def test_plain_equations_are_those_of_the_library():
    with precision("float64"):
        random = np.random.default_rng(0)
        root = jnp.asarray(random.normal(size=(3, 6, 6)))
        sides = jnp.asarray(random.normal(size=(3, 6, 2)))
        matrix = root @ jnp.swapaxes(root, 1, 2) + jnp.eye(6)
        for name, first, second in (
            ("cholesky", (matrix,), ()),
            ("forward", (jnp.linalg.cholesky(matrix), sides), ()),
            ("backward", (jnp.linalg.cholesky(matrix), sides), ()),
            ("solve", (matrix + 0.1 * root, sides), ()),
        ):
            plain, library = (jax.jit(jax.vmap(getattr(way, name)))(*first, *second) for way in (PLAIN, LIBRARY))
            np.testing.assert_allclose(plain, library, atol=1e-12, err_msg=name)
        assert np.isnan(PLAIN.cholesky(-jnp.eye(3))).any()


def test_targets_span_the_grid_and_measures_count_them():
    task = Workspace(low=(0.0, -1.0), high=(1.0, 1.0), counts=(2, 3))
    targets = task.targets(jnp.float32)
    assert targets.shape == (6, 2)
    assert targets[0].tolist() == [0, -1]
    assert targets[-1].tolist() == [1, 1]
    found = Found(jnp.array([0.0, 0.05, 0.2, jnp.inf]), jnp.array(1.0))

    class Episode:
        account = found

    assert float(reachable(Episode)) == 0.5  # pyright: ignore[reportArgumentType]
    assert float(closeness(Episode)) == pytest.approx((1 + np.exp(-0.05) + np.exp(-0.2)) / 4, rel=1e-5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValidationError, match="as many numbers each"):
        Workspace(low=(0.0, -1.0), high=(1.0, 1.0), counts=(2, 3, 4))


def test_robots_that_cannot_be_asked_are_refused():
    task = {"type": "workspace", "low": [0, 0, 0], "high": [1, 1, 1], "counts": [2, 2, 2]}
    with pytest.raises(ValidationError) as raised:
        Scene.model_validate({"robot": {"body": {"shape": ["aa"]}}, "task": task, "world": {"terrain": None}})
    text = str(raised.value)
    assert "task.type: workspace needs masses that hold fluid, and squares do not: use points" in text
    assert "task.type: workspace needs chambers" in text
    assert "task.low: 3 numbers given; bodies are in 2-D: 2" in text
    with pytest.raises(ValidationError, match="8000 targets; at most 1000"):
        Workspace(low=(0.0, 0.0, 0.0), high=(1.0, 1.0, 1.0), counts=(20, 20, 20))


@pytest.mark.slow
def test_pumping_brings_the_tip_nearer_wherever_the_body_is_in_its_grid():
    """Pressure bulges the long lower wall, whose tension draws its ends together: the tip goes down."""
    task = Workspace(low=(0.05, -0.05), high=(0.06, -0.03), counts=(2, 2))
    low = Body(shape=("......", "ssssss", "swwwws"), materials={"s": SOLID, "w": water(0.0)}, engine="points").cells
    cells = jnp.asarray(np.stack([low, np.roll(low, 1, 0)]))

    def distances(highest):
        table = PointMaterials.of([SOLID, water(highest)], 0.01, 2)

        def found(cells):
            model = assemble_points(cells, table, 0.01, layers=2)
            return task.begin(WorldModel((model,), Environment(gravity=9.81), {}), None)  # pyright: ignore[reportArgumentType]

        return np.asarray(jax.jit(jax.vmap(found))(cells).distance)

    hanging, pumped = distances(0.0), distances(1.5e4)
    assert np.isfinite(pumped).all()
    np.testing.assert_allclose(pumped[0], pumped[1], atol=1e-4)
    assert (pumped <= hanging + 1e-6).all()
    assert pumped.mean() < hanging.mean() - 1e-4


SOLID = Material(young_modulus=1e5, density=1000.0)


def water(highest):
    return Material(fluid=Fluid(pressure=(0.0, highest)))

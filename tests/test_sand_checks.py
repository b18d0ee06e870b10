"""The checks of sand themselves: shapes, slopes and figures that they rely on. The command runs what they check."""

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.evidence.validate.sand import containers, scenes, suite
from vsr.sdf import distance_and_normal


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_pierced_plate_is_solid_around_its_hole(dimension):
    plate = containers.PiercedPlate(jnp.asarray(0.1), jnp.asarray(0.02))
    along = [0.0] * (dimension - 2)
    points = {
        (0.0, *along, 0.0): 0.1,  # in the hole: to its rim
        (0.5, *along, 0.07): 0.05,  # over the plate
        (0.07, *along, 0.06): 0.05,  # over the hole, from the edge: 3-4-5
        (0.3, *along, 0.0): -0.02,  # inside
    }
    point = tuple(jnp.asarray(part) for part in np.array(list(points)).T)
    distance, normal = distance_and_normal(plate, point)
    np.testing.assert_allclose(distance, list(points.values()), atol=1e-6)
    np.testing.assert_allclose([part[2] for part in normal], [-0.6, *along, 0.8], atol=1e-5)
    closed = containers.PiercedPlate(jnp.asarray(-1.0), jnp.asarray(0.02))
    np.testing.assert_allclose(closed.distance((*(jnp.zeros(1),) * (dimension - 1), jnp.ones(1))), 0.98)


def test_slopes_are_those_of_the_surface():
    ledge, random = containers.LEDGES[3], np.random.default_rng(0)
    x = 2 * scenes.RADIUS * random.uniform(0, ledge.long, 5000)
    surface = np.tan(np.radians(20)) * (2 * scenes.RADIUS * ledge.long - x)
    position = np.stack([x, random.uniform(size=5000), surface * random.uniform(0, 1, 5000) ** 0.1])
    assert containers._slope(ledge, position) == pytest.approx(20, abs=1)


def test_figures_are_drawn_of_what_there_is():
    curve = {"spread": [0.1, 0.1], "weight": [1, 2], "floor": [1, 1.5], "friction": [0.1, 0.5], "slope": [5, 15]}
    curve |= {"hole": [5, 8], "rate": [100, 200]}
    series = {name: curve for name in ("silo_2d", "silo_3d", "hourglass_2d", "heap_2d_turning", "heap_2d_still")}
    drawn = dict(suite.draw(series))
    assert list(drawn) == ["sand_silo", "sand_hourglass", "sand_heap"]
    assert [len(figure.axes) for figure in drawn.values()] == [2, 1, 1]
    assert len(drawn["sand_heap"].axes[0].get_lines()) > 1


def test_only_sand_has_larger_checks():
    result = CliRunner().invoke(cli.main, ["validate", "--suite", "lattice", "--large"])
    assert result.exit_code == 2
    assert "the lattice suite has no larger checks" in result.output

"""What the comparisons with measurements rely on: fits, the published shape, membranes; the command runs the rest."""

import jax.numpy as jnp
import numpy as np
import pytest

from vsr.evidence.validate.reality import membranes, plates, suite, swimmer
from vsr.evidence.validate.reality.published import published
from vsr.scene import precision


@pytest.mark.parametrize(("tilt", "path"), [(0, 90), (45, 45), (-30, 60), (90, 0), (20, -90)])
def test_the_published_shape_is_the_same_in_a_mirror(tilt, path):
    coefficients = published()["plates"]["generic"]
    along, up = plates.resistance(coefficients, tilt, path)
    mirrored = plates.resistance(coefficients, -tilt, 180 - path)
    np.testing.assert_allclose(mirrored, [-along, up], atol=1e-12)


def test_the_published_shape_is_scaled_to_a_level_plate_pressed_down():
    np.testing.assert_allclose(plates.resistance(published()["plates"]["generic"], 0, 90), [0, 1], atol=1e-9)


def test_slopes_and_exponents_are_found():
    depth = np.linspace(2, 9, 50)
    noise = np.random.default_rng(0).normal(0, 0.5, (50, 2))
    np.testing.assert_allclose(plates.slope_of(depth, depth[:, None] * [3.0, -1.0] + noise), [3, -1], atol=0.05)
    assert plates.exponent_of(depth, 4 * depth**1.3) == pytest.approx(1.3, abs=0.01)


def test_efficiency_of_a_known_track():
    length, wavelength, amplitude, efficiency = 1.3, 1.0, 0.1, 0.25
    along = np.linspace(0, wavelength, 41)
    turn = np.radians(30)
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    frames = []
    for cycle in np.arange(0, 3 + 1e-9, 1 / 32):
        wave = amplitude * np.sin(2 * np.pi * (cycle - along / wavelength))
        frames.append(np.stack([along - efficiency * wavelength * cycle, wave], 1) @ turned.T)
    found = swimmer.swam(np.array(frames), 32, length)
    assert found.efficiency == pytest.approx(efficiency, rel=1e-3)
    assert found.lengths == pytest.approx(efficiency * wavelength / length, rel=1e-3)
    assert found.steepness == pytest.approx(amplitude / wavelength, rel=0.03)
    backwards = swimmer.swam(np.array(frames)[::-1], 32, length)
    assert backwards.efficiency == pytest.approx(-efficiency, rel=1e-3)


def test_measured_heights_are_where_the_fit_has_the_pressure():
    for film in published()["membranes"]["films"]:
        height = membranes.measured_height(400.0, film["a"], film["b"]) / membranes.MICRO
        assert film["a"] * height + film["b"] * height**3 == pytest.approx(0.4)


@pytest.mark.slow
def test_a_taut_long_film_rises_as_a_parabola():
    film = membranes.Film(width=1.0, length=4.0, thickness=1e-3, young_modulus=1e6, stress=1e5)
    with precision("float64"):
        (height,) = membranes.heights(film, (0.02,), cells=8)
    assert height == pytest.approx(0.02 * 0.5**2 / (2 * film.stress * film.thickness), rel=0.01)


def test_what_is_compared_is_drawn():
    films = {"membrane_square": {name: [1.0, 2.0] for name in ("pressure", "here", "spread", "published")}}
    moved = {"here": [[0.0, 1.0]], "spread": [[0.1, 0.1]], "published": [[0.0, 0.9]]}
    ((name, figure),) = suite.draw({"plates": moved, **films})
    assert name == "reality"
    assert len(figure.axes) == 2
    assert not list(suite.draw({}))


@pytest.mark.slow
def test_a_short_body_swims_towards_its_head_through_grains():
    record = swimmer.swim_through(swimmer.Swim(voxels=16, bending=0.4, cycles=3))
    assert record.overflow == 0
    found = swimmer.swam(record.track, swimmer.PER_CYCLE, 16 * swimmer.SIDE)
    assert 0.03 < found.efficiency < 0.6
    # Grains stay out of the body.
    rows = jnp.asarray(record.outline).reshape(-1, 2)
    apart = np.linalg.norm((record.grains[:, None] - np.asarray(rows[None]))[..., :], axis=-1).min(1)
    assert (apart > 0.5 * record.radius).mean() > 0.99

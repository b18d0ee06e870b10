"""The lattice's validation, on lattices small enough for a test; `vsr validate --suite lattice` judges the whole."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.compute.vector import split
from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.lattice import suite
from vsr.evidence.validate.lattice.bar import (
    Bar,
    Oscillation,
    frequency_of_crossings,
    frequency_of_peak,
    oscillate,
    rest_state,
    step_bound,
)
from vsr.evidence.validate.lattice.beams import (
    bending_excess,
    bending_modes,
    expected_frequency,
    exponent,
    measured_frequency,
    pull_and_release,
    solved_frequency,
)
from vsr.evidence.validate.lattice.integrators import (
    ORDERS,
    convergence_order,
    disturbed,
    drift_and_oscillation,
    explicit_growth,
    momentum_errors,
    oscillation_with_gravity,
)
from vsr.evidence.validate.lattice.statics import (
    WEIGHT,
    arc_lengths,
    differences,
    heavy_bar,
    heavy_elastica,
    model_of,
    sag,
    scanned,
)
from vsr.lattice import Environment, GraphSprings, GridSprings, Stiffness, isotropic, longest_step, of_cells
from vsr.lattice.graph import incidence_of
from vsr.lattice.modes import highest_mode, natural_modes, springs_of, stiffness_matrix
from vsr.lattice.motion import potential_energy

SMALL = Bar(height=2, width=2, length=8, room=(2, 2, 20))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("integrator", list(ORDERS))
def test_errors_shrink_with_the_order(integrator):
    assert convergence_order(integrator, 2) == pytest.approx(ORDERS[integrator], abs=0.15)


@pytest.mark.slow
def test_free_flight_keeps_momentum():
    linear, angular = momentum_errors(2, steps=400)
    assert linear < 1e-10
    assert angular < 1e-10


def test_explicit_euler_gains_energy_as_predicted():
    measured, expected = explicit_growth(2)
    assert measured == pytest.approx(expected, rel=1e-3)


@pytest.mark.full
def test_energy_neither_grows_nor_shrinks_after_release():
    path = oscillation_with_gravity(SMALL, "verlet", seconds=0.1)
    drift, oscillation = drift_and_oscillation(path)
    assert abs(drift) < 0.1
    assert oscillation < 0.1
    assert path.energy[path.free, 0].max() > 1e-6  # it moves


def test_drift_and_oscillation_are_distinguished():
    time = np.linspace(-1, 1, 401)
    energy = np.zeros((401, 4))
    energy[:, 0] = 1 + 0.02 * time + 0.01 * np.sin(60 * time)
    drift, oscillation = drift_and_oscillation(
        Oscillation(time, np.zeros((401, 3)), energy / energy[time > 0, 0].max(), 0.1)
    )
    assert drift == pytest.approx(2, rel=0.1)
    assert oscillation == pytest.approx(1, rel=0.1)


@pytest.mark.full
def test_motion_has_the_frequencies_of_the_eigenvalue_problem():
    lattice = SMALL.lattice()
    modes = natural_modes(lattice, 5)
    first, second = bending_modes(modes, 2)[:2]
    path = pull_and_release(lattice, SMALL, 2e-4, first)
    for expected in (first, second):
        assert frequency_of_peak(path.time[path.free], path.tip[path.free, 2], expected) == pytest.approx(
            expected, rel=0.005
        )


@pytest.mark.full
def test_a_beam_swings_as_euler_and_bernoulli_say():
    # Two cells across are too stiff: 13 % in frequency, of which short beams lose some to shear.
    assert measured_frequency(SMALL, "verlet") == pytest.approx(SMALL.frequency, rel=0.12)


@pytest.mark.parametrize(
    ("springs", "excess"),
    [(Stiffness(2.0, 1.0, 3 / 8), 1.15), (Stiffness(1.0, 1.0), 0.95), (Stiffness(1.0, 1.0, 1.0), 0.717)],
)
def test_few_cells_bend_as_stiffly_as_theory_says(springs, excess):
    """Solved bars of two cells, too long for shear to matter, against the sum over springs."""
    assert bending_excess(springs) == pytest.approx(excess, abs=1e-3)
    bar = Bar(height=2, width=2, length=40)
    assert solved_frequency(bar, springs) == pytest.approx(expected_frequency(bar, springs), rel=0.006)


@pytest.mark.full
def test_explicit_euler_is_traced_with_the_others_steps():
    lattice = SMALL.lattice()
    assert step_bound(lattice, "explicit_euler") == step_bound(lattice, "verlet") > 0


def test_frequency_goes_with_height_over_squared_length():
    def lowest(**size):
        bar = Bar(**{"height": 4, "width": 6, "length": 32, **size})
        return float(natural_modes(bar.lattice(), 1).frequency[0])

    longer = [lowest(length=length) for length in (24, 32)]
    assert exponent([24, 32], longer) == pytest.approx(-2, abs=0.1)
    assert exponent([4, 5], [lowest(), lowest(height=5)]) == pytest.approx(1, abs=0.15)
    assert lowest(width=7) == pytest.approx(longer[1], rel=0.02)


def test_room_changes_nothing():
    roomy = replace(SMALL, room=(3, 4, 10))
    alone, inside = (natural_modes(bar.lattice(), 3).frequency for bar in (SMALL, roomy))
    np.testing.assert_allclose(inside, alone, rtol=1e-6)


@pytest.mark.full
def test_a_coarse_bar_sags_as_the_elastica():
    bar = heavy_bar(2)
    # Two cells across bend less than the solid they stand for; by how much, their frequency shows.
    excess = (natural_modes(bar.lattice(), 1).frequency[0] / bar.frequency) ** 2
    assert 1 < excess < 1.35
    theory = heavy_elastica(WEIGHT / excess)
    shape, left = sag(bar)
    assert np.hypot(shape.reach[-1] - theory.reach[-1], shape.drop[-1] - theory.drop[-1]) < 0.03
    assert left < 1e-9


def test_the_elastica_is_the_published_one():
    theory = heavy_elastica(10.93)
    assert 178 * theory.reach[-1] == pytest.approx(111.85, abs=0.1)
    assert 178 * theory.drop[-1] == pytest.approx(128.45, abs=0.1)
    light = heavy_elastica(0.01)
    assert light.drop[-1] == pytest.approx(0.01 / 8, rel=1e-3)  # w L⁴ / (8 E I)


def test_a_beam_of_four_cells_by_eigenvalues():
    """Independent of any step: within 5 % of the formula, 2 % here."""
    bar = Bar(height=4, width=4, length=20)
    assert natural_modes(bar.lattice(), 2).frequency[0] / bar.frequency == pytest.approx(1, abs=0.02)


def ell(dimension):
    """Cells around a corner: some springs are missing, some shared."""
    cells = np.ones((2,) * dimension, bool)
    cells[(-1,) * dimension] = False
    return of_cells(cells, 0.1, isotropic(1e5, 0.1, dimension), 1000.0, dtype=jnp.float64)


def as_graph(lattice):
    """The same lattice with its springs as a list."""
    ends = springs_of(lattice.springs, lattice.mass.shape)
    nodes = lattice.mass.size
    springs = GraphSprings(
        *(jnp.asarray(part) for part in ends), incidence=jnp.asarray(incidence_of(ends.first, ends.second, nodes))
    )
    flat = {name: getattr(lattice, name).reshape(-1) for name in ("mass", "inverse_mass")}
    points = lattice.rest_position.reshape(nodes, lattice.dimension)
    return replace(lattice, springs=springs, rest_position=points, **flat)


def test_stiffness_is_the_second_derivative_of_the_energy():
    lattice = ell(2)
    position = disturbed(lattice, 0.3).position

    @jax.jit
    @jax.hessian
    def exact(flat):
        points = split(flat.reshape(position.shape), lattice.node_axes)
        return potential_energy(lattice.springs, points, jnp.zeros(()))

    theirs = np.asarray(exact(position.reshape(-1)))
    ours = stiffness_matrix(lattice, position=np.asarray(position)).toarray()
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())


def test_grid_and_graph_have_the_same_modes():
    lattice = ell(3)
    assert isinstance(lattice.springs, GridSprings)
    grid, graph = natural_modes(lattice, 8), natural_modes(as_graph(lattice), 8)
    # Six ways to move without deforming, whose frequencies are 0.
    assert grid.frequency[:6].max() < 1e-3 * grid.frequency[6]
    np.testing.assert_allclose(graph.frequency[6:], grid.frequency[6:], rtol=1e-5)


@pytest.mark.slow
def test_the_highest_mode_bounds_the_step():
    lattice = SMALL.lattice()
    bound = 1 / (np.pi * float(highest_mode(lattice).frequency[0]))
    assert 0.9 * bound < longest_step(lattice) <= bound


def test_modes_heed_freedom():
    bar = Bar(height=1, width=1, length=2)
    lattice = bar.lattice()
    along = jnp.broadcast_to(jnp.diag(jnp.array([1.0, 0, 0])), (*lattice.mass.shape, 3, 3))
    modes = natural_modes(replace(lattice, freedom=along), 3)
    assert np.abs(modes.shape[..., 1:]).max() == 0
    assert modes.frequency[0] > natural_modes(lattice, 1).frequency[0]


def test_frequencies_of_known_signals():
    time = np.arange(1, 513) / 64
    signal = np.cos(2 * np.pi * 1.013 * time) + 0.03 * np.cos(2 * np.pi * 6.3 * time)
    assert frequency_of_crossings(time, signal) == pytest.approx(1.013, rel=2e-3)
    assert frequency_of_peak(time, signal, 1.0) == pytest.approx(1.013, rel=5e-4)
    assert frequency_of_peak(time, signal, 6.0) == pytest.approx(6.3, rel=5e-4)
    assert np.isnan(frequency_of_crossings(time, np.ones_like(time)))
    assert np.isnan(frequency_of_peak(time, np.full_like(time, np.nan), 1.0))


@pytest.mark.slow
def test_damping_ends_before_the_release():
    lattice = SMALL.lattice()
    force = 3 * SMALL.bending_stiffness * 2e-4 / SMALL.span**3
    path = oscillate(lattice, (0.0, 0.0, -force), SMALL.frequency, integrator="verlet", free_periods=1)
    clamped = path.tip[~path.free, 2]
    assert clamped[-1] == pytest.approx(-2e-4, rel=0.3)
    assert path.energy[~path.free, 0][-1] < 1e-4 * path.energy[~path.free, 1][-1]
    assert path.tip[path.free, 2].max() > 0.8 * abs(clamped[-1])


def test_scanned_cylinder():
    cylinder = scanned()
    assert arc_lengths(np.concatenate([np.zeros((1, 2)), cylinder.centerline]))[-1] == pytest.approx(0.178, rel=0.02)
    straight = np.stack([np.linspace(0, 0.178, 20), np.zeros(20)], 1)
    assert np.sqrt((differences(cylinder, straight) ** 2).sum(1)).max() > 0.1
    model = model_of(cylinder, 8, 38)
    assert float(model.lattice.mass.sum()) == pytest.approx(0.216, rel=0.01)
    assert model.gyration == pytest.approx(1, abs=0.03)
    assert float(Environment().gravity) == cylinder.gravity
    assert rest_state(model.lattice).position.shape == (9, 9, 39, 3)


def test_rows_pass_and_miss():
    assert relative("a", 1.04, 1.0, 0.05).passed is True
    assert relative("a", 1.06, 1.0, 0.05).passed is False
    assert absolute("a", float("nan"), 0.0, 1.0).passed is False
    assert absolute("a", 5.0, 0.0, None).passed is None


def test_command_writes_rows_and_reports_what_was_missed(monkeypatch, tmp_path):
    def good():
        assert jnp.zeros(()).dtype == jnp.float64
        return Findings([relative("close", 1.01, 1.0, 0.05, "Hz"), absolute("reported", 3.0, 1.0, None, "mm")])

    def bad():
        curve = {"cylinder_calibrated": [[0, 0], [1, 1]], "cylinder_60 kPa": [[0, 0], [1, 2]]}
        return Findings([absolute("far", float("nan"), 0.0, 1.0, "mm")], {"cylinder_scanned": [[1, 1]], **curve})

    monkeypatch.setattr(suite, "SUITE", replace(suite.SUITE, checks={"first": good, "second": bad}))
    target = tmp_path / "report.json"
    order = ["validate", "--suite", "lattice", "--json", str(target), "--plots", str(tmp_path / "plots")]
    result = CliRunner().invoke(cli.main, order)
    assert result.exit_code == 0, result.output
    assert "1 of 2" in result.output
    assert "missed second: far" in result.output
    assert (tmp_path / "plots" / "lattice_cylinder.png").stat().st_size > 1000
    report = json.loads(target.read_text())
    assert report["missed"] == ["second: far"]
    for row in report["rows"]:
        assert set(row) == {
            "section", "name", "measured", "expected", "error", "tolerance", "unit", "error_unit", "passed", "note"
        }  # fmt: skip
    assert [row["passed"] for row in report["rows"]] == [True, None, False]
    assert report["rows"][2]["measured"] is None


def test_every_section_is_there():
    expected = {"moduli", "integrators", "energy", "modes", "elastica", "cylinder", "beams, verlet", "beams, rk4"}
    assert expected <= set(suite.SUITE.checks)
    assert set(suite.SUITE.longest_first) <= set(suite.SUITE.checks)


def test_lattice_suite_takes_no_reference():
    result = CliRunner().invoke(cli.main, ["validate", "--suite", "lattice", "--reference", "tests"])
    assert result.exit_code == 2
    assert "--reference" in result.output

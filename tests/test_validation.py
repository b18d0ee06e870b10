"""Agreement with the original, on the small part of its data that is shipped; the whole is judged by `vsr validate`."""

import json
import shutil

import pytest
from click.testing import CliRunner
from conftest import DATA

import vsr.cli as cli
from vsr.evidence.validate.original.cantilever import validate_dynamic_fine
from vsr.evidence.validate.original.files import control_of_note
from vsr.evidence.validate.original.robots import correlation, ranks
from vsr.evidence.validate.original.suite import validate


@pytest.fixture(scope="module")
def report():
    return validate(DATA)


@pytest.mark.full
def test_single_voxel(report):
    assert len(report["single"]["cases"]) == 3
    assert report["single"]["worst_area_ratio_error"] < 0.03


@pytest.mark.full
def test_cantilever_at_rest(report):
    assert report["cantilever_static"]["median_relative_error"] < 1e-3
    assert report["cantilever_static"]["p90_relative_error"] < 1e-3


@pytest.mark.full
def test_cantilever_after_a_blow(report):
    case = report["cantilever_dynamic_fine"]["cases"][0]
    assert case["rms_to_fine"] < 0.25 * case["original_rms_to_fine"]
    assert report["cantilever_dynamic_fine"]["nearer_than_original"] == 1


@pytest.mark.full
def test_landings(report):
    assert report["contact"]["worst_rest_height_error_m"] < 0.02


@pytest.mark.full
def test_locomotion(report):
    assert report["locomotion"]["within_3_sd_or_0.05"] == len(report["locomotion"]["cases"]) == 2


@pytest.mark.full
def test_population(report):
    (entry,) = report["population"]
    assert entry["n"] == 20
    assert entry["failed"] == 0
    assert entry["spearman_fine"] > 0.7
    assert entry["pearson_fine"] > 0.9


@pytest.mark.full
def test_the_command_writes_report_and_figures(report, tmp_path):
    reference = tmp_path / "reference"
    (reference / "cantilever").mkdir(parents=True)
    shutil.copy(DATA / "cantilever" / "static.json", reference / "cantilever" / "any_name.json")
    shutil.copy(DATA / "cantilever" / "dynamic.json", reference / "cantilever" / "another.json")
    targets = ["--json", str(tmp_path / "report.json"), "--plots", str(tmp_path / "plots")]
    result = CliRunner().invoke(cli.main, ["validate", "--reference", str(reference), *targets])
    assert result.exit_code == 0
    written = json.loads((tmp_path / "report.json").read_text())
    assert written == {name: report[name] for name in ("cantilever_static", "cantilever_dynamic")}
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["figure5.png", "figure6.png"]


def test_ranks_share_ties():
    import numpy as np

    np.testing.assert_array_equal(ranks(np.array([3.0, 1.0, 3.0, 2.0])), [3.5, 1.0, 3.5, 2.0])
    assert correlation(np.array([1.0, 2.0, np.nan, 3.0]), np.array([2.0, 4.0, 0.0, 6.0])) == pytest.approx(1)


@pytest.mark.parametrize(
    ("note", "amplitude", "frequency", "start"),
    [
        ("f=sin(2 pi t) on ground", 1.0, 1.0, 0.0),
        ("f=0.5*sin(4 pi t)", 0.5, 2.0, 0.0),
        ("f=-1", -1.0, 0.0, 0.0),
        ("f=+0.5 (linear interpolation of rest lengths)", 0.5, 0.0, 0.0),
        ("rest on ground, f=+1 from t>=2", 1.0, 0.0, 2.0),
        ("passive drop from 1 m", 0.0, 1.0, 0.0),
    ],
)
def test_controls_are_read_from_notes(note, amplitude, frequency, start):
    controller, begins = control_of_note(note)
    assert (controller.amplitude, controller.frequency, begins) == (amplitude, frequency, start)


def test_a_note_that_is_not_understood_is_refused():
    with pytest.raises(ValueError, match="not understood"):
        control_of_note("f=cos(t)")


@pytest.mark.full
def test_beams_of_different_lengths_and_times_run_together():
    def beam(width, steps, dt):
        return {
            "w": width, "h": 1, "springF": 8.0, "scaffolding": "All", "force_N": 5.0, "force_duration_s": 0.1, "dt": dt,
            "dy_mean_rightmost_at_60Hz": [0.0] * steps,
        }  # fmt: skip

    cases = [beam(2, 6, "1/60"), beam(2, 6, 1 / 960), beam(3, 9, "1/60"), beam(3, 9, "1/960"), beam(4, 9, "1/60")]
    results = validate_dynamic_fine(cases)
    assert [len(result["path_m"]) for result in results] == [6, 9]
    assert results[1]["path_m"][-1] < results[0]["path_m"][5] < 0

"""Robots x variations x trials to a table, with arithmetic in place of episodes; real ones are in test_refine."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest

from vsr.experiments import resimulate as module
from vsr.experiments.resimulate import Job, Table, aggregate, batches_of, resimulate, share_kept, simulate_jobs
from vsr.scene import Scene

pytestmark = pytest.mark.usefixtures("quickly_compiled")


@dataclass(frozen=True)
class Sum:
    """In place of an episode."""

    factor: int = 1

    def __call__(self, robot, trial, shared):
        return self.factor * (robot["value"] + trial + shared)


JOB = Job(
    rows=[3, 1],
    columns=[2, 0],
    robots={"value": jnp.array([100.0, 200.0])},
    trials=jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    episode=Sum(),
    cells=1,
    precision="float32",
    shared=jnp.float32(0.5),
)


@pytest.mark.parametrize("most", [2048, 5, 1])
def test_every_robot_meets_every_trial_in_calls_of_any_size(monkeypatch, most):
    monkeypatch.setattr(module, "EPISODES_IN_A_CALL", {"cpu": most})
    assert JOB.episodes == 12
    calls = JOB.calls()
    assert calls.shape[1] <= most
    counted = []
    ((job, found),) = simulate_jobs([JOB], counted.append)
    assert job is JOB
    np.testing.assert_array_equal(found[0], [[101.5, 102.5, 103.5], [104.5, 105.5, 106.5]])
    np.testing.assert_array_equal(found[1], found[0] + 100)
    assert (len(counted), sum(counted)) == (len(calls), 12)


def test_a_table_has_what_jobs_found_and_gaps_elsewhere():
    other = replace(JOB, rows=[0, 2], columns=[1], trials=jnp.zeros(3), episode=Sum(-1))
    values = resimulate([JOB, other], (4, 3, 3))
    np.testing.assert_array_equal(values[1, 0], [204.5, 205.5, 206.5])
    np.testing.assert_array_equal(values[3, 2], [101.5, 102.5, 103.5])
    np.testing.assert_array_equal(values[2, 1], [-200.5] * 3)
    assert np.isnan(values).all(-1).sum() == 12 - 4 - 2


def test_robots_of_one_shape_and_kind_are_a_batch():
    scenes = [Scene.model_validate({"robot": {"body": {"shape": ["a"]}}})] * 4
    sizes = iter((2, 3, 2, 2))
    batches = batches_of(scenes, ["x", "x", "x", "y"], lambda _: jnp.zeros(next(sizes)))
    assert [(batch.kind, batch.rows, batch.arrays.shape) for batch in batches] == [
        ("x", [0, 2], (2, 2)),
        ("x", [1], (1, 3)),
        ("y", [3], (1, 2)),
    ]


def test_failures_count_as_worse_than_any_number():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 3.0]])
    np.testing.assert_array_equal(aggregate(values), [1.0, np.nan])
    np.testing.assert_array_equal(aggregate(values, -1.0), [3.0, np.nan])
    np.testing.assert_array_equal(aggregate(values, how="worst"), [np.nan, np.nan])
    np.testing.assert_array_equal(aggregate(np.array([1.0, 2.0, 6.0]), how="mean"), 3.0)


def test_what_is_kept_is_a_share_of_the_first_variation():
    table = Table(
        np.array([[[2.0], [1.0], [np.nan]], [[0.0], [1.0], [np.nan]], [[np.nan], [1.0], [1.0]]]), np.ones((3, 3))
    )
    np.testing.assert_array_equal(table.kept, [[1, 0.5, 0], [np.nan] * 3, [np.nan] * 3])
    assert share_kept(np.array(-1.0), np.array(-2.0)) == 0.5

"""A terrain, a task and an optimizer with an archive of one's own: evolved, stored, plotted, reported."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

from vsr.cli import main
from vsr.evo import OPTIMIZERS
from vsr.experiments.evolve.command import evolve
from vsr.experiments.options import EvolveOptions
from vsr.experiments.report.findings import find_out
from vsr.experiments.report.searches import searches
from vsr.experiments.storage.archives import read_archives
from vsr.experiments.storage.runs import read_run
from vsr.tasks import TASKS
from vsr.terrain import TERRAINS

pytestmark = pytest.mark.usefixtures("quickly_compiled")

NAME = "plugin_of_one_file"
PLUGIN = '''
from typing import Literal

import jax
import jax.numpy as jnp

from vsr.evo import OPTIMIZERS, SearchSummary, best
from vsr.evo.archives import GridArchive, GridAxis, insert, nobody
from vsr.evo.population import NO_PARENT, with_fitness, offspring
from vsr.evo.settings import Settings, Size
from vsr.tasks import TASKS, Locomotion
from vsr.terrain import TERRAINS, Flat


class Ice(Flat):
    """Flat and slippery."""

    type: Literal["ice"] = "ice"
    friction: float = 0.01


class Dash(Locomotion):
    """A short walk."""

    type: Literal["dash"] = "dash"
    duration: float = 0.1


class Collector(Settings):
    """Random individuals, the fittest of every height."""

    type: Literal["collector"] = "collector"
    population_size: Size = 4
    cells: int = 3

    @property
    def elite_archives(self):
        axis = GridAxis(measure="average_height", range=(0.0, 6.0), cells=self.cells)
        return {"heights": GridArchive(axes=(axis,))}

    @property
    def descriptors(self):
        return ("average_height",)

    @property
    def metrics(self):
        return {"heights": "Heights at which somebody was found."}

    def start(self, key, sample):
        like = jax.eval_shape(lambda: self._born(sample, key, jnp.int32(0)))
        return {"key": key, "round": jnp.int32(0), "elites": nobody(self.elite_archives["heights"], like)}

    def ask(self, state, sample):
        return self._born(sample, jax.random.fold_in(state["key"], state["round"]), state["round"])

    def tell(self, state, asked, evaluation):
        asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
        elites = insert(self.elite_archives["heights"], state["elites"], asked, evaluation.descriptors)
        return {**state, "round": state["round"] + 1, "elites": elites}

    def summary(self, state):
        elites = state["elites"]
        sound = jnp.where(elites.filled, elites.members.fitness, jnp.nan)
        return SearchSummary(
            best=best(elites.members), median=jnp.nanmedian(sound), spread=jnp.float32(0), members=elites.members,
            archive={"heights": elites}, metrics={"heights": elites.filled.sum()},
        )

    def _born(self, sample, key, number):
        size = self.population_size
        return offspring(sample(key, size), jnp.full((size, 2), NO_PARENT), number * size, number)


TERRAINS["ice"], TASKS["dash"], OPTIMIZERS["collector"] = Ice, Dash, Collector
'''
EXPERIMENT = f"""
plugins: [{NAME}]
robot: {{body: {{shape: aa, engine: points}}, controller: sine}}
world: {{terrain: ice}}
task: {{type: dash, placement: {{clearance: 0.0}}}}
evaluation: {{trials: 1, refine: null}}
optimizer: {{type: collector, cells: 3}}
generations: 2
seeds: 2
"""
BROUGHT = ((TERRAINS, "ice"), (TASKS, "dash"), (OPTIMIZERS, "collector"))


@pytest.fixture
def run(tmp_path):
    (tmp_path / f"{NAME}.py").write_text(PLUGIN)
    (tmp_path / "collect.yaml").write_text(EXPERIMENT)
    evolve(EvolveOptions(str(tmp_path / "collect.yaml"), out=str(tmp_path / "run")))
    yield tmp_path / "run"
    forget()


def forget():
    for registry, name in BROUGHT:
        registry.pop(name, None)
    sys.modules.pop(NAME, None)


def vsr(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_what_a_plugin_brings_is_evolved_plotted_and_reported(run, tmp_path):
    experiment = read_run(run).experiment
    assert [experiment.world.terrain.type, experiment.task.type, experiment.optimizer.type] == [
        "ice",
        "dash",
        "collector",
    ]
    (archive,) = read_archives(run, experiment, seed=1)
    assert (archive.name, [axis.measure for axis in archive.settings.axes]) == ("heights", ["average_height"])
    assert archive.fitness.shape == (3,)
    assert len(archive.filled) == read_run(run).metrics["heights"][1, -1] > 0
    np.testing.assert_allclose(archive.centers[:, 0], [1, 3, 5])
    said = str(searches(find_out(read_run(run), "run"), "c"))
    assert "Heights at which somebody was found" in said
    assert "Archive heights" in said

    forget()  # as in another process: nothing of the plugin is known
    refused = vsr("plot", run, "--archive", "--out", tmp_path / "map.png")
    assert refused.exit_code == 2
    assert "--trust-plugins" in refused.output
    drawn = vsr("plot", run, "--archive", "--out", tmp_path / "map.png", "--trust-plugins")
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")

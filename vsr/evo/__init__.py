"""Search, knowing nothing of robots: populations with lineage, operators, selection, optimizers behind one protocol.

An optimizer is frozen settings with `start`, `ask`, `tell` and `summary`, all pure functions of pytrees, so that whole
generations run under `jit` and several seeds under `vmap`. Fitness is maximized.
"""

from vsr.evo.adam import Adam
from vsr.evo.afpo import AFPO
from vsr.evo.evogym_ga import EvogymGA
from vsr.evo.map_elites import MapElites
from vsr.evo.mu_plus_lambda import MuPlusLambda
from vsr.evo.nsga2 import NSGA2
from vsr.evo.population import Population, best
from vsr.evo.protocol import Evaluation, Optimizer, SearchSummary
from vsr.evo.random_search import RandomSearch
from vsr.evo.settings import Registry
from vsr.evo.strategies import CMAES, SNES, Evosax, OpenES, SepCMAES
from vsr.evo.two_stage import TwoStage

OPTIMIZERS = Registry(
    {
        "mu_plus_lambda": MuPlusLambda,
        "random_search": RandomSearch,
        "map_elites": MapElites,
        "nsga2": NSGA2,
        "afpo": AFPO,
        "cma_es": CMAES,
        "sep_cma_es": SepCMAES,
        "snes": SNES,
        "open_es": OpenES,
        "evosax": Evosax,
        "evogym_ga": EvogymGA,
        "adam": Adam,
        "two_stage": TwoStage,
    }
)
"""Every optimizer by its name."""

__all__ = [
    "OPTIMIZERS",
    "Evaluation",
    "EvogymGA",
    "MuPlusLambda",
    "Optimizer",
    "Population",
    "RandomSearch",
    "SearchSummary",
    "best",
]

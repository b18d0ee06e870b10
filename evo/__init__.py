"""Search, knowing nothing of robots: populations with lineage, operators, selection, optimisers behind one protocol.

An optimiser is frozen settings with `start`, `ask`, `tell` and `summary`, all pure functions of pytrees, so that whole
generations run under `jit` and several seeds under `vmap`. Fitness is maximised.
"""

from evo.mu_plus_lambda import MuPlusLambda
from evo.population import Population, best
from evo.protocol import Evaluation, Optimiser, SearchSummary
from evo.random_search import RandomSearch

OPTIMISERS = {"mu_plus_lambda": MuPlusLambda, "random_search": RandomSearch}
"""Every optimiser by its name."""

__all__ = [
    "OPTIMISERS",
    "Evaluation",
    "MuPlusLambda",
    "Optimiser",
    "Population",
    "RandomSearch",
    "SearchSummary",
    "best",
]

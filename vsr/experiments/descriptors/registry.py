"""Every descriptor of bodies and brains by its name, and their values of one individual."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType

from jax import Array

from vsr.experiments.descriptors import bodies, brains
from vsr.experiments.encodings import EvolvedRobot, Genes

OF_BODIES: dict[str, Callable[[Array], Array]] = {
    function.__name__: function
    for function in (bodies.voxels, bodies.width_over_height, bodies.filled_share, bodies.elongation, bodies.symmetry)
}
OF_BRAINS: dict[str, Callable[[Array], Array]] = {
    function.__name__: function for function in (brains.connectivity, brains.gene_mean, brains.gene_deviation)
}
DESCRIPTORS = MappingProxyType({**OF_BODIES, **OF_BRAINS})
"""Those that any robot has; `share_of_a` and the like come with its materials."""
SHARE = "share_of_"


def descriptor_names(robot: EvolvedRobot) -> tuple[str, ...]:
    """Of all descriptors that robots of a kind have."""
    return (*DESCRIPTORS, *(f"{SHARE}{symbol}" for symbol in robot.body.materials))


def describe(robot: EvolvedRobot, genes: Genes, names: Sequence[str]) -> dict[str, Array]:
    """The named descriptors of one individual, by name. Pure."""
    symbols = list(robot.body.materials)
    known = {
        **OF_BODIES,
        **{f"{SHARE}{symbol}": partial(bodies.share_of, place) for place, symbol in enumerate(symbols)},
    }
    cells = robot.body.decode(genes["body"])
    of_body = {name: known[name](cells) for name in names if name in known}
    of_brain = {name: OF_BRAINS[name](genes["controller"]) for name in names if name in OF_BRAINS}
    return {name: value.astype(genes["controller"].dtype) for name, value in {**of_body, **of_brain}.items()}

"""Descriptors of bodies and controllers, as numbers for archives and fronts.

Pure functions: of a body's grid of materials, negative where empty, any number of axes, x last; or of the genes of a
controller. One of your own is a function, entered in BODY_DESCRIPTORS or CONTROLLER_DESCRIPTORS.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType

import jax.numpy as jnp
from jax import Array

from vsr.experiments.encodings import EvolvedRobot, Genes
from vsr.spec import Registry

WEAK = 0.2
"""A gene smaller than this, in its absolute value, hardly counts: of weights, a fifth of the first ones' range."""
SHARE = "share_of_"


def voxels(cells: Array) -> Array:
    """How many voxels the body has."""
    return _present(cells).sum()


def width_over_height(cells: Array) -> Array:
    """Of the smallest box around the body: cells along x over cells upwards."""
    return _extent(cells, cells.ndim - 1) / jnp.maximum(_extent(cells, 0), 1)


def filled_share(cells: Array) -> Array:
    """Voxels over cells of the smallest box around the body."""
    box = jnp.ones(())
    for axis in range(cells.ndim):
        box = box * _extent(cells, axis)
    return _present(cells).sum() / jnp.maximum(box, 1)


def elongation(cells: Array) -> Array:
    """From 0 for a round body to 1 for a line: 1 - sqrt(λmin/λmax), λ the moments of its voxels along main axes."""
    here = _present(cells).astype(jnp.float32)
    count = jnp.maximum(here.sum(), 1)
    places = jnp.stack(jnp.meshgrid(*map(jnp.arange, cells.shape), indexing="ij"), -1).astype(jnp.float32)
    middle = (here[..., None] * places).sum(tuple(range(cells.ndim))) / count
    apart = (places - middle).reshape(-1, cells.ndim)
    moments = (here.reshape(-1, 1, 1) * apart[:, :, None] * apart[:, None]).sum(0) / count
    # A square of side 1 has a moment of its own, 1/12, so that a single voxel is round.
    least, most = _extremes(moments + jnp.eye(cells.ndim) / 12)
    return 1 - jnp.sqrt(jnp.clip(least / most, 0, 1))


def symmetry(cells: Array) -> Array:
    """Share of voxels whose mirror image, left to right in the body's own box, is of the same material."""
    columns = cells.shape[-1]
    filled = _present(cells).any(tuple(range(cells.ndim - 1)))
    first, last = jnp.argmax(filled), columns - 1 - jnp.argmax(filled[::-1])
    image = jnp.clip(first + last - jnp.arange(columns), 0, columns - 1)
    same = (cells == cells[..., image]) & _present(cells)
    return same.sum() / jnp.maximum(_present(cells).sum(), 1)


def share_of(material: int, cells: Array) -> Array:
    """Voxels of one material, by its index, over all voxels."""
    return (cells == material).sum() / jnp.maximum(_present(cells).sum(), 1)


def connectivity(genes: Array) -> Array:
    """Share of the controller's genes that are not weak, 0 for a controller without genes."""
    return (jnp.abs(genes) > WEAK).mean() if genes.size else jnp.zeros(())


def gene_mean(genes: Array) -> Array:
    """Mean of the controller's genes."""
    return genes.mean() if genes.size else jnp.zeros(())


def gene_deviation(genes: Array) -> Array:
    """Standard deviation of the controller's genes: of phases, how much voxels are out of step."""
    return genes.std() if genes.size else jnp.zeros(())


BODY_DESCRIPTORS: Registry[Callable[[Array], Array]] = Registry(
    "body descriptor",
    {function.__name__: function for function in (voxels, width_over_height, filled_share, elongation, symmetry)},
)
"""From a grid of materials, *cells, to a number, ()."""
CONTROLLER_DESCRIPTORS: Registry[Callable[[Array], Array]] = Registry(
    "controller descriptor",
    {function.__name__: function for function in (connectivity, gene_mean, gene_deviation)},
)
"""From the genes of a controller, (genes,), to a number, ()."""
DESCRIPTORS = MappingProxyType(ChainMap(CONTROLLER_DESCRIPTORS, BODY_DESCRIPTORS))  # those of bodies come first
"""Those that any robot has; `share_of_a` and the like come with its materials."""


def descriptor_names(robot: EvolvedRobot) -> tuple[str, ...]:
    """Of all descriptors that robots of a kind have."""
    return (*DESCRIPTORS, *(f"{SHARE}{symbol}" for symbol in robot.body.materials))


def describe(robot: EvolvedRobot, genes: Genes, names: Sequence[str]) -> dict[str, Array]:
    """The named descriptors of one individual, by name. Pure."""
    symbols = list(robot.body.materials)
    known = {
        **BODY_DESCRIPTORS,
        **{f"{SHARE}{symbol}": partial(share_of, place) for place, symbol in enumerate(symbols)},
    }
    wanted = [name for name in names if name in known]
    cells = robot.body.decode(genes["body"]) if wanted else None
    of_body = {name: known[name](cells) for name in wanted}
    own = CONTROLLER_DESCRIPTORS
    of_brain = {name: own[name](genes["controller"]) for name in names if name in own}
    return {name: value.astype(genes["controller"].dtype) for name, value in {**of_body, **of_brain}.items()}


def _present(cells: Array) -> Array:
    return cells >= 0


def _extent(cells: Array, axis: int) -> Array:
    """Cells from the first to the last that is filled along an axis, 0 for an empty body, ()."""
    filled = _present(cells).any(tuple(other for other in range(cells.ndim) if other != axis))
    size = len(filled)
    span = size - jnp.argmax(filled[::-1]) - jnp.argmax(filled)
    return jnp.where(filled.any(), span, 0)


def _extremes(matrix: Array) -> tuple[Array, Array]:
    """The smallest and the largest eigenvalue of a symmetric matrix of two or three rows, in closed form."""
    mean = jnp.trace(matrix) / len(matrix)
    rest = matrix - mean * jnp.eye(len(matrix))
    spread = jnp.sqrt((rest**2).sum() / (2 if len(matrix) == 2 else 6))
    if len(matrix) == 2:
        return mean - spread, mean + spread
    safe = jnp.where(spread > 1e-12, spread, 1)
    scaled = rest / safe
    determinant = (
        scaled[0, 0] * (scaled[1, 1] * scaled[2, 2] - scaled[1, 2] ** 2)
        - scaled[0, 1] * (scaled[0, 1] * scaled[2, 2] - scaled[1, 2] * scaled[0, 2])
        + scaled[0, 2] * (scaled[0, 1] * scaled[1, 2] - scaled[1, 1] * scaled[0, 2])
    )
    angle = jnp.arccos(jnp.clip(determinant / 2, -1, 1)) / 3
    most = mean + 2 * spread * jnp.cos(angle)
    least = mean + 2 * spread * jnp.cos(angle + 2 * jnp.pi / 3)
    return least, most

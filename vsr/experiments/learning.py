"""Learning in a lifetime: every individual improves its controller a little before its fitness is taken.

Learning depends on an individual's genes alone: the directions that it tries are drawn from a hash of them. So
learning is a function from genes of birth to genes of the grown individual, the same in every run and on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from vsr.evo import Evaluation
from vsr.evo.evolution_strategy import centered_ranks
from vsr.evo.operators import fingerprints, flat_draw
from vsr.experiments.encodings import EvolvedRobot, Genes
from vsr.experiments.encodings.networks import PolicyWeights
from vsr.experiments.ppo import PPO
from vsr.spec import Count, Real, Spec, clipped

WAY_BACK = 5.0
"""Cost of a window's gradients besides its simulation, in simulations of it: forward once more, then backward. 4.3
were measured for point masses and 6.4 for squares on a CPU."""
Evaluate = Callable[[Genes, int], Evaluation]
"""From genes of robots, and the number of robots per individual, to their evaluation, all (robots, ...)."""


def _even(number: int) -> int:
    if number % 2:
        raise PydanticCustomError("even", "Input should be even: samples come in opposite pairs")
    return number


class Learning(Spec):
    """How individuals learn before they are judged."""

    method: Literal["es", "gradient", "ppo"] = "es"
    """from samples around the genes of the controller (evolution strategy), along gradients through windows, or from
    rewards of single steps (proximal policy optimization, for the controller policy)"""
    steps: Annotated[Count, Field(ge=1, le=1000)] = 3
    """how often genes are improved (es, gradient)"""
    samples: Annotated[Count, Field(ge=2, le=4096), AfterValidator(_even)] = 8
    """episodes of a step, in opposite pairs (es)"""
    sigma: Annotated[Real, Field(gt=0, le=1e6)] = 0.1
    """standard deviation of the samples (es)"""
    rate: Annotated[Real, Field(gt=0, le=1e6)] = 0.1
    """how far genes go in a step, root of the mean square over genes (es, gradient)"""
    environment_steps: Annotated[Count, Field(ge=1, le=10**9)] = 65_536
    """of an individual, in all copies of its environment; whole rounds of updates are taken (ppo)"""
    ppo: PPO = PPO()
    """how a policy learns, or the name of a preset (ppo)"""
    inheritance: Literal["lamarckian", "baldwinian"] = "lamarckian"
    """whether children inherit what was learned, or only the genes of birth"""

    @property
    def steps_taken(self) -> int:
        """Environment steps of an individual (ppo): whole rounds, evaluations not counted."""
        rounds, updates = self.ppo.rounds(self.environment_steps)
        return rounds * updates * self.ppo.steps

    @property
    def evaluations(self) -> int:
        """Of an individual's policy (ppo) besides that of its fitness, each in all trials: before it learns, and after
        each of several rounds."""
        return 1 if self.in_one_round else 1 + self.ppo.rounds(self.environment_steps)[0]

    @property
    def in_one_round(self) -> bool:
        """Whether nothing is evaluated while a policy learns (ppo), only before and after."""
        return self.ppo.rounds(self.environment_steps)[0] == 1


def check_ppo(robot: EvolvedRobot) -> list[tuple[tuple[str, ...], str]]:
    """Why a robot cannot learn by PPO, if so."""
    found: list[tuple[tuple[str, ...], str]] = []
    if not isinstance(robot.controller, PolicyWeights):
        found.append((("learning", "method"), "'ppo' trains the controller 'policy': use it, or another method"))
    elif robot.controller.shared and robot.controller.sensors:
        found.append((("robot", "controller", "sensors"), "a shared policy reads the task's observation: leave it out"))
    if robot.hardware is not None:
        found.append((("robot", "hardware"), "'ppo' learns without noise and delay of hardware: leave it out"))
    if find_spec("optax") is None:
        text = "'ppo' needs the package optax: pip install 'voxel-soft-robots[learning]'"
        found.append((("learning", "method"), text))
    return found


def seeds_of(genes: Genes) -> Array:
    """A plain key for every individual, which depends on its genes alone, (size, 2)."""
    return jax.vmap(lambda mark: jax.random.fold_in(jax.random.fold_in(jax.random.PRNGKey(0), mark[0]), mark[1]))(
        fingerprints(genes)
    )


def check_gradients(
    who: str, implementation: str, measure: str, differentiable: list[str]
) -> list[tuple[tuple[str, ...], str]]:
    """Why fitness has no gradients, if so. who: asks for them; differentiable: measures of the task."""
    found: list[tuple[tuple[str, ...], str]] = []
    if implementation != "differentiable":
        text = f"'{implementation}' has no gradients, which {who} needs: use 'differentiable'"
        found.append((("physics", "implementation"), text))
    if measure not in differentiable:
        text = f"'{clipped(measure)}' has no gradients, which {who} needs: use one of {', '.join(differentiable)}"
        found.append((("fitness", "measure"), text))
    return found


def learn(learning: Learning, born: Genes, evaluate: Evaluate) -> Genes:
    """Genes of individuals after they have learned; only those of the controller change; (size, ...). Pure."""

    def improve(own: Array, number: Array) -> tuple[Array, None]:
        if learning.method == "gradient":
            gradients = evaluate({**born, "controller": own}, 1).gradients["controller"]
        else:
            gradients = _estimated(learning, born, own, number, evaluate)
        return own + learning.rate * _direction(gradients).astype(own.dtype), None

    learned, _ = jax.lax.scan(improve, born["controller"], jnp.arange(learning.steps))
    return {**born, "controller": learned}


def _estimated(learning: Learning, born: Genes, own: Array, number: Array, evaluate: Evaluate) -> Array:
    """Gradients from opposite pairs of samples whose fitness counts by rank, (size, genes)."""
    size, genes = own.shape
    pairs = learning.samples // 2

    def draw(mark: Array) -> Array:
        key = jax.random.key(0)
        for part in (*mark, number):
            key = jax.random.fold_in(key, part)
        return flat_draw(jax.random.normal, key, (pairs, genes))

    half = jax.vmap(draw)(fingerprints(born)).astype(own.dtype)
    ways = jnp.concatenate([half, -half], 1)
    tried = (own[:, None] + learning.sigma * ways).reshape(-1, genes)
    robots = {name: jnp.repeat(leaf, learning.samples, 0) for name, leaf in born.items()}
    found = evaluate({**robots, "controller": tried}, learning.samples)
    fitness = jnp.where(found.failed | ~jnp.isfinite(found.fitness), -jnp.inf, found.fitness)
    ranks = jax.vmap(centered_ranks)(fitness.reshape(size, -1))
    return jnp.einsum("is,isg->ig", ranks, ways)


def _direction(gradients: Array) -> Array:
    """Gradients with a mean square of 1 over genes, 0 where there are none or they are not numbers, (size, genes)."""
    scale = jnp.sqrt((gradients**2).mean(-1, keepdims=True))
    there = jnp.isfinite(scale) & (scale > 0)
    return jnp.where(there, gradients / jnp.where(there, scale, 1), 0)

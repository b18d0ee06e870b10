"""Controllers with evolved networks: a multilayer perceptron, a recurrent network, one network in every voxel, and a
policy."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers import (
    MLP,
    Clock,
    Distributed,
    Perceptron,
    Policy,
    PolicyNetwork,
    Recurrent,
    RecurrentNetwork,
    VoxelNetworks,
    check_sensors,
    spread_weights,
    wiring,
)
from vsr.controllers.base import clock_numbers
from vsr.controllers.distributed import Hidden, Signals, layers_of, network_sizes
from vsr.controllers.mlp import RateLimit
from vsr.controllers.policy import (
    Layer,
    join_policy,
    normalized,
    pack,
    policy_count,
    policy_network,
    policy_sizes,
    split_policy,
)
from vsr.controllers.recurrent import Neurons, Unit, kept, spread, weights_needed
from vsr.experiments.encodings.base import (
    BodyEncoding,
    Complaints,
    ControllerEncoding,
    Range,
    check_symbols,
    driven,
    restrict_sensor,
    uniform,
)
from vsr.experiments.encodings.time_functions import drawn
from vsr.sensors import Sensor
from vsr.spec import Count, Switch

CRITIC = 0x56414C
"""Makes the key of the first network for values."""


class MLPWeights(ControllerEncoding):
    """The weights of a multilayer perceptron from all voxels' readings to all voxels' control values.

    With a body that evolves the network spans the whole grid, so that its size is fixed: absent voxels read 0 and are
    not driven.
    """

    type: Literal["mlp"] = "mlp"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """sensors of every voxel"""
    hidden: tuple[Annotated[Count, Field(ge=1)], ...] = ()
    """sizes of the hidden layers"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    legacy_angle: Switch = False
    """reproduce the original's wrong angle sensor"""
    rate_limit: RateLimit | None = None
    """how fast a control value can change [1/s]; null for any speed"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven"""
    initial: Range = (-1.0, 1.0)
    """range of the first population's genes"""

    @property
    def used_sensors(self) -> tuple[Sensor, ...]:
        """The sensors with the quantities that are really read."""
        return tuple(sensor.legacy for sensor in self.sensors) if self.legacy_angle else self.sensors

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive") + check_sensors(self.used_sensors, body.possible)

    def gene_count(self, body: BodyEncoding) -> int:
        inputs = int(wiring(self.sensors, body.possible).sum()) + (self.clock is not None) + 1
        return sum(a * b for a, b in pairwise((inputs, *self.hidden, int(body.possible.sum()))))

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> Perceptron:
        layers = self._spread(genes, body)
        active = jnp.asarray(driven(self.passive, body), genes.dtype)[cells].ravel()
        return Perceptron(
            layers=(*layers[:-1], layers[-1] * active),  # no weights, no output: tanh(0) = 0
            clock=clock_numbers(self.clock, genes.dtype),
            sensors=self.used_sensors,
            rate_limit=None if self.rate_limit is None else jnp.asarray(self.rate_limit, genes.dtype),
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> MLP:
        present = cells >= 0
        inputs = np.concatenate([wiring(self.sensors, present).ravel(), [self.clock is not None, True]])
        kept = (inputs, *(np.ones(size, bool) for size in self.hidden), present.ravel())
        layers = [np.asarray(layer) for layer in self._spread(jnp.asarray(genes), body)]
        layers[-1] = layers[-1] * driven(self.passive, body)[cells].ravel().astype(layers[-1].dtype)
        blocks = [layer[rows][:, columns] for layer, (rows, columns) in zip(layers, pairwise(kept), strict=True)]
        return MLP(
            sensors=tuple(restrict_sensor(sensor, present) for sensor in self.sensors),
            weights=tuple(np.concatenate([block.ravel() for block in blocks]).tolist()),
            hidden=self.hidden,
            clock=self.clock,
            legacy_angle=self.legacy_angle,
            rate_limit=self.rate_limit,
        )

    def _spread(self, genes: Array, body: BodyEncoding) -> tuple[Array, ...]:
        """Weights as matrices over the whole grid."""
        return spread_weights(
            genes, self.hidden, wiring(self.sensors, body.possible), self.clock is not None, body.possible
        )


class RecurrentWeights(ControllerEncoding):
    """The weights of a network whose hidden neurons remember, from all voxels' readings to all control values.

    With a body that evolves the network spans the whole grid, as that of `mlp` does.
    """

    type: Literal["recurrent"] = "recurrent"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """sensors of every voxel"""
    hidden: Neurons = 8
    """neurons that remember"""
    unit: Unit = "elman"
    """how they remember: elman, or gated (minimal gated units)"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven"""
    initial: Range = (-1.0, 1.0)
    """range of the first population's genes"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive") + check_sensors(self.sensors, body.possible)

    def gene_count(self, body: BodyEncoding) -> int:
        wired = wiring(self.sensors, body.possible)
        return weights_needed(self.hidden, self.unit, wired, self.clock is not None, body.possible)

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> RecurrentNetwork:
        inward, gate, outward = self._spread(genes, body)
        active = jnp.asarray(driven(self.passive, body), genes.dtype)[cells].ravel()
        # No weights, no output: tanh(0) = 0.
        return RecurrentNetwork(inward, gate, outward * active, clock_numbers(self.clock, genes.dtype), self.sensors)

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Recurrent:
        present = cells >= 0
        wired = wiring(self.sensors, present)
        inputs, outputs = kept(self.hidden, wired, self.clock is not None, present)
        inward, gate, outward = (
            None if part is None else np.asarray(part) for part in self._spread(jnp.asarray(genes), body)
        )
        assert inward is not None
        assert outward is not None
        outward = outward * driven(self.passive, body)[cells].ravel().astype(outward.dtype)
        blocks = [inward[inputs], *([] if gate is None else [gate[inputs]]), outward[:, outputs]]
        return Recurrent(
            sensors=tuple(restrict_sensor(sensor, present) for sensor in self.sensors),
            weights=tuple(np.concatenate([block.ravel() for block in blocks]).tolist()),
            hidden=self.hidden,
            unit=self.unit,
            clock=self.clock,
        )

    def _spread(self, genes: Array, body: BodyEncoding) -> tuple[Array, Array | None, Array]:
        """Weights as matrices over the whole grid."""
        wired = wiring(self.sensors, body.possible)
        return spread(genes, self.hidden, self.unit, wired, self.clock is not None, body.possible)


class DistributedWeights(ControllerEncoding):
    """The weights of one network that all voxels share; neighbors send each other messages.

    As many genes for small bodies as for large ones.
    """

    type: Literal["distributed"] = "distributed"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """sensors of every voxel"""
    signals: Signals = 1
    """numbers sent to each neighbor at every call, read by it at the next"""
    hidden: Hidden = ()
    """sizes of the hidden layers"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven; they pass messages on"""
    initial: Range = (-1.0, 1.0)
    """range of the first population's genes"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive") + check_sensors(self.sensors, body.possible)

    def _sizes(self, body: BodyEncoding) -> tuple[int, ...]:
        return network_sizes(len(self.sensors), self.signals, self.hidden, self.clock is not None, body.dimension)

    def gene_count(self, body: BodyEncoding) -> int:
        return sum(a * b for a, b in pairwise(self._sizes(body)))

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> VoxelNetworks:
        return VoxelNetworks(
            layers=layers_of(genes, self._sizes(body)),
            clock=clock_numbers(self.clock, genes.dtype) if self.clock else None,
            amplitude=jnp.asarray(driven(self.passive, body), genes.dtype)[cells],
            present=(cells >= 0).astype(genes.dtype),
            sensors=self.sensors,
            signals=self.signals,
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Distributed:
        return Distributed(
            sensors=tuple(restrict_sensor(sensor, cells >= 0) for sensor in self.sensors),
            weights=tuple(np.asarray(genes).tolist()),
            signals=self.signals,
            hidden=self.hidden,
            clock=self.clock,
            amplitude=drawn(driven(self.passive, body)[cells], cells) if self.passive else 1.0,
        )


class PolicyWeights(ControllerEncoding):
    """The weights of a network from the task's observation to all voxels' control values, as PPO learns them.

    The network spans the whole grid, and so do its genes: means and logarithms of deviations of its inputs, then its
    layers. First genes are those that PPO begins with: layers as orthogonal as can be, the last one small.
    """

    type: Literal["policy"] = "policy"
    hidden: tuple[Layer, ...] = (64, 64)
    """sizes of the hidden layers"""
    clock: Clock | None = None
    """sine and cosine of the time as further inputs; null for none"""
    sensors: tuple[Sensor, ...] = ()
    """what every voxel reads, instead of the task's observation"""
    observed: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None
    """numbers of the task's observation; if absent, as many as the task shows"""
    shared: Switch = False
    """whether all individuals of a generation learn one policy together (by PPO), which also reads what every cell of
    the body is made of; an individual's own policy is that one with its body filled in"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_sensors(self.sensors, body.possible)

    def body_count(self, body: BodyEncoding) -> int:
        """Inputs that say what a body is made of."""
        return body.possible.size * len(body.materials)

    def body_inputs(self, cells: Array, body: BodyEncoding) -> Array:
        """1 for the material of every cell, 0 for others, (body_count,); cells: as decoded."""
        kinds = jnp.arange(len(body.materials)).reshape(-1, *(1,) * cells.ndim)
        return (cells == kinds).ravel().astype(float)

    def input_count(self, body: BodyEncoding) -> int:
        """Inputs of the network, those of the clock included."""
        own = len(self.sensors) * body.possible.size if self.sensors else self.observed or 0
        return own + 2 * (self.clock is not None)

    def own_count(self, body: BodyEncoding) -> int:
        """Genes of an individual's own policy, which are the first."""
        return policy_count(self.input_count(body), self.hidden, body.possible.size)

    def gene_count(self, body: BodyEncoding) -> int:
        own = self.own_count(body)
        if not self.shared:
            return own
        inputs, outputs = self.input_count(body) + self.body_count(body), body.possible.size
        return own + SharedPolicy.count(inputs, self.hidden, outputs)

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        outputs = body.possible.size

        def policy(key: Array, inputs: int) -> Array:
            layers = first_layers(key, inputs, self.hidden, outputs)
            return join_policy(jnp.zeros(inputs), jnp.ones(inputs), layers)

        def one(key: Array) -> Array:
            inputs = self.input_count(body)
            own = policy(key, inputs)
            if not self.shared:
                return own
            inputs += self.body_count(body)
            critic = first_layers(jax.random.fold_in(key, CRITIC), inputs, self.hidden, 1, 1.0)
            first = SharedPolicy(policy(key, inputs), tuple(critic), jnp.zeros(outputs), jnp.zeros(()))
            return jnp.concatenate([own, first.joined()])

        return jax.lax.map(one, jax.random.split(key, count))

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> PolicyNetwork:
        inputs, own = self.input_count(body), genes[: self.own_count(body)]
        return policy_network(own, inputs, self.hidden, self.clock, self.sensors, body.possible.shape)

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Policy:
        return Policy(
            weights=pack(np.asarray(genes[: self.own_count(body)])),
            hidden=self.hidden,
            clock=self.clock,
            sensors=tuple(restrict_sensor(sensor, cells >= 0) for sensor in self.sensors),
        )


class SharedPolicy(NamedTuple):
    """A policy that a generation learns together, and what its learner goes on with in the next."""

    policy: Array
    """flat numbers, of all inputs"""
    critic: tuple[Array, ...]
    """layers of the network for values"""
    log_deviation: Array
    """of actions, (outputs,)"""
    updates: Array
    """it has learned from, ()"""

    @staticmethod
    def count(inputs: int, hidden: tuple[int, ...], outputs: int) -> int:
        """Its numbers."""
        critic = sum(rows * columns for rows, columns in policy_sizes(inputs, hidden, 1))
        return policy_count(inputs, hidden, outputs) + critic + outputs + 1

    def joined(self) -> Array:
        """As flat numbers."""
        critic = (layer.ravel() for layer in self.critic)
        return jnp.concatenate([self.policy, *critic, self.log_deviation, self.updates[None]])

    @staticmethod
    def of(numbers: Array, inputs: int, hidden: tuple[int, ...], outputs: int) -> SharedPolicy:
        """What `joined` did, undone."""
        used = policy_count(inputs, hidden, outputs)
        policy, critic = numbers[:used], []
        for rows, columns in policy_sizes(inputs, hidden, 1):
            critic.append(numbers[used : used + rows * columns].reshape(rows, columns))
            used += rows * columns
        return SharedPolicy(policy, tuple(critic), numbers[used : used + outputs], numbers[-1])


def filled_in(policy: Array, seen: Array, inputs: int, hidden: tuple[int, ...], outputs: int) -> Array:
    """Numbers of a policy whose last inputs always are `seen`, (...), as one of the inputs before them."""
    mean, deviation, (first, *rest) = split_policy(policy, inputs + len(seen), hidden, outputs)
    always = normalized(seen, mean[inputs:], deviation[inputs:]) @ first[inputs:-1]
    first = jnp.concatenate([first[:inputs], (first[-1] + always)[None]])
    return join_policy(mean[:inputs], deviation[:inputs], [first, *rest])


def first_layers(key: Array, inputs: int, hidden: tuple[int, ...], outputs: int, last: float = 0.01) -> list[Array]:
    """Orthogonal weights with biases of 0, (inputs + 1, outputs) each; last: scale of the last layer's."""
    sizes, layers = policy_sizes(inputs, hidden, outputs), []
    for number, (rows, columns) in enumerate(sizes):
        scale = 2**0.5 if number < len(sizes) - 1 else last
        weights = scale * orthogonal(jax.random.fold_in(key, number), rows - 1, columns)
        layers.append(jnp.concatenate([weights, jnp.zeros((1, columns))]))
    return layers


def orthogonal(key: Array, rows: int, columns: int) -> Array:
    """As jax.nn.initializers.orthogonal has it, but without LAPACK: jaxlib 0.10 can wait forever where a program has
    several of its calls for batches. Gram-Schmidt, each column twice."""
    given = jax.random.normal(key, (max(rows, columns), min(rows, columns)))

    def with_column(number: Array, done: Array) -> Array:
        column = given[:, number]
        for _ in range(2):
            column = column - (done * (done * column[:, None]).sum(0)).sum(1)
        return done.at[:, number].set(column / jnp.linalg.norm(column))

    found = jax.lax.fori_loop(0, given.shape[1], with_column, jnp.zeros_like(given))
    return found if rows >= columns else found.T

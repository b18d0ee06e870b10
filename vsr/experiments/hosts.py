"""Several processes that evolve together (vsr.experiments.launch): the values that they exchange.

Every function that sends must be called by all processes, in the same order; each waits for the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from vsr.experiments.config.problems import UserError
from vsr.experiments.population import SHARED_OUT, device_mesh, everywhere, from_first_device


class PeerLostError(UserError):
    """Another process is gone."""

    exit_code = 1
    leave_at_once = True


@contextlib.contextmanager
def detect_peer_loss() -> Iterator[None]:
    """While it is open, what fails because another process is gone is reported as that.

    JAX has two kinds of error for it: programs that are begun after the loss raise the one, results that are waited for
    the other.
    """
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise PeerLostError(
            f"process {jax.process_index()} cannot go on without the others: {reason}; if one of them has ended, start "
            "all again with --resume"
        ) from error


def exchange(*numbers: int) -> np.ndarray:
    """The numbers of every process: 32-bit integers, (processes, numbers)."""
    brought = _brought(np.array(numbers, np.int32))
    with detect_peer_loss():
        said = np.asarray(_gather()(brought).addressable_data(0))
    owners = np.array([device.process_index for device in device_mesh().devices])
    return np.stack([said[owners == process][0] for process in range(jax.process_count())])


def broadcast(tree: Any) -> Any:
    """Process 0's arrays, on every device; the others bring arrays of the same shapes."""
    leaves, structure = jax.tree.flatten(tree)
    # Empty arrays need no broadcast, and jaxlib 0.11 dies of compiling one.
    brought = [_brought(leaf) for leaf in leaves if leaf.size]
    with detect_peer_loss():
        received = iter(_spread()(brought))
    return structure.unflatten([next(received) if leaf.size else _nothing(leaf) for leaf in leaves])


def broadcast_text(text: str, length: int) -> str:
    """Process 0's text of a length in bytes; what the others bring does not matter."""
    data = (text.encode() if jax.process_index() == 0 else b"").ljust(4 * -(-length // 4), b"\0")
    words = broadcast(np.frombuffer(data, np.int32))
    return np.asarray(words.addressable_data(0)).tobytes()[:length].decode()


def _brought(leaf: Any) -> jax.Array:
    """An array over all devices, each of which brings what its process has."""
    sharding = NamedSharding(device_mesh(), SHARED_OUT)
    pieces = [jax.device_put(leaf[None], device) for device in jax.local_devices()]
    return jax.make_array_from_single_device_arrays((device_mesh().size, *leaf.shape), sharding, pieces)


def _nothing(leaf: Any) -> jax.Array:
    """An empty array on every device."""
    pieces = [jax.device_put(leaf, device) for device in jax.local_devices()]
    return jax.make_array_from_single_device_arrays(leaf.shape, everywhere(), pieces)


@cache
def _gather() -> Any:
    return jax.jit(lambda everyone: everyone, out_shardings=everywhere())


@cache
def _spread() -> Any:
    return jax.jit(from_first_device, out_shardings=everywhere())

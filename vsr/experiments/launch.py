"""Several processes that evolve together: how they find and join each other.

Processes started by SLURM's srun or by Open MPI's mpirun are recognized, if there are at least two; others name
themselves on the command line. JAX connects them (`jax.distributed`), after which its devices are those of all
processes. This module loads little, so that a process knows at once whether it is on its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import jax

from vsr.experiments.config.problems import UserError

SECONDS_TO_JOIN = 300
"""How long processes wait for each other."""
MOST_PORTS = 2**16
OPTIONS = ("--coordinator", "--processes", "--process")


@dataclass(frozen=True)
class Launch:
    """One process of several."""

    processes: int
    process: int
    """from 0"""
    coordinator: str | None = None
    """HOST:PORT where process 0 listens; None if the launcher knows"""
    launcher: str | None = None
    """JAX's name of the program that started the processes"""
    share_devices: bool = False
    """whether processes on one host must share its accelerators, one for each"""


def find_launch(coordinator: str | None, processes: int | None, process: int | None) -> Launch | None:
    """Which process of several this is, by options or else by the launcher; None if it is on its own."""
    if coordinator is None and process is None:
        if processes == 1:
            return None
        if processes is None:
            return _by_slurm() or _by_open_mpi()
    given = dict(zip(OPTIONS, (coordinator, processes, process), strict=True))
    if missing := [option for option, value in given.items() if value is None]:
        raise UserError(
            f"{' and '.join(option for option in OPTIONS if option not in missing)} given without "
            f"{' and '.join(missing)}; all three are needed: --coordinator HOST:PORT (where process 0 listens), "
            "--processes N and --process I (0 to N-1)"
        )
    assert coordinator is not None
    assert processes is not None
    assert process is not None
    _check_address(coordinator)
    if process >= processes:
        raise UserError(f"--process {process}: with --processes {processes} it should be 0 to {processes - 1}")
    return None if processes == 1 else Launch(processes, process, coordinator)


def _by_slurm() -> Launch | None:
    """As a task of a job step with several. What sbatch or salloc start themselves is one process, whatever the job."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID")
    if any(name not in os.environ for name in names):
        return None
    tasks = _number("SLURM_STEP_NUM_TASKS")
    if tasks < 2:
        return None
    # Written like 2(x3),1: that many tasks on each of three hosts, then on one more.
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    on_hosts = [int(count) for count, repeat in groups for _ in range(int(repeat or 1))]
    host = _number("SLURM_NODEID", 0)
    here = on_hosts[host] if host < len(on_hosts) else tasks
    return Launch(tasks, _number("SLURM_PROCID"), launcher="slurm", share_devices=_must_share(here))


def _by_open_mpi() -> Launch | None:
    if "OMPI_MCA_orte_hnp_uri" not in os.environ:
        return None
    tasks = _number("OMPI_COMM_WORLD_SIZE", 1)
    if tasks < 2:
        return None
    here = _number("OMPI_COMM_WORLD_LOCAL_SIZE", tasks)
    return Launch(tasks, _number("OMPI_COMM_WORLD_RANK"), launcher="ompi", share_devices=_must_share(here))


def _must_share(processes_here: int) -> bool:
    """Whether each process should take one of the host's accelerators; not if it is alone there, or has its own."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    has_own = visible is not None and len(visible.split(",")) < processes_here
    return processes_here > 1 and not has_own


def _number(name: str, default: int | None = None) -> int:
    text = os.environ.get(name, "" if default is None else str(default))
    if not text.isdigit():
        raise UserError(
            f"{name}={text}: the launcher should set it to a number; --processes 1 runs this process on its own"
        )
    return int(text)


def _check_address(coordinator: str) -> None:
    host, colon, port = coordinator.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < MOST_PORTS):
        raise UserError(
            f"--coordinator {coordinator}: write it as HOST:PORT, the host of process 0 and a free port there (1 to "
            f"{MOST_PORTS - 1}), for example node1:5000"
        )


def join(launch: Launch) -> None:
    """Connect with the other processes. Must come before anything is computed."""
    if launch.coordinator is not None:
        _check_reachable(launch)
    with contextlib.suppress(
        AttributeError
    ):  # a service of JAX, if it has it, that would take SIGTERM, which saves here
        jax.config.update("jax_enable_preemption_service", False)
    with _giving_up(launch):
        try:
            jax.distributed.initialize(
                launch.coordinator,
                launch.processes,
                launch.process,
                cluster_detection_method=launch.launcher or "deactivate",
                initialization_timeout=2 * SECONDS_TO_JOIN,
            )
        except (RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"process {launch.process} of {launch.processes} could not join the others: {reason}; "
                "--processes 1 runs it on its own"
            ) from None
    if not launch.share_devices:  # JAX gives one accelerator to every process that a launcher has started
        for kind in ("cuda", "rocm"):
            visible = os.environ.get(f"JAX_{kind.upper()}_VISIBLE_DEVICES", "all")
            jax.config.update(f"jax_{kind}_visible_devices", visible)


def leave() -> None:
    """Part from the other processes, when all do."""
    with contextlib.suppress(RuntimeError):  # whoever has gone already cannot be waited for
        jax.distributed.shutdown()


def _check_reachable(launch: Launch) -> None:
    """Errors on which JAX would end the process without a helpful message."""
    host, _, port = (launch.coordinator or "").rpartition(":")
    try:
        if launch.process > 0:
            socket.getaddrinfo(host.strip("[]"), int(port))
            return
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        with socket.create_server(("", int(port)), family=family, dualstack_ipv6=family == socket.AF_INET6):
            pass
    except OSError as error:
        hint = "give the name or address of process 0's host" if launch.process > 0 else "give another port to all"
        reason = error.strerror or error
        raise UserError(f"--coordinator {launch.coordinator}: it cannot be used: {reason}; {hint}") from None


@contextlib.contextmanager
def _giving_up(launch: Launch) -> Iterator[None]:
    """End the process if the others do not come; JAX itself would end it with a stack trace of its own."""

    def give_up() -> None:
        where = f" at {launch.coordinator}" if launch.coordinator else ""
        sys.stderr.write(
            f"process {launch.process} of {launch.processes}: the others did not come{where} within "
            f"{SECONDS_TO_JOIN} s; start all of them with the same --coordinator and --processes, each with its own "
            "--process, and see whether a firewall keeps them apart\n"
        )
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(SECONDS_TO_JOIN, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

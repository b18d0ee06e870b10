"""A process from which commands are born quickly: it has imported everything and computed nothing.

Importing takes seconds, forking milliseconds, and a fork before JAX begins to compute is as good as a new process.
Orders come as lines of JSON on standard input, answers go to standard output. A second kind of this process, the
worker, runs commands in itself: quicker still, but nothing that ends a process may happen in it. A reader is a worker
with little memory.

    python -m vsr.experiments.torture.nursery [worker|reader]
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from typing import IO, Any

from vsr.experiments.installed import COMMAND
from vsr.experiments.torture import disk, faults, here, orders
from vsr.experiments.torture.fuzz import targets

IMPORTED = (
    "vsr.cli",
    "vsr.experiments.evolve.command",
    "vsr.experiments.plot.curves",
    "vsr.experiments.plot.comparison",
    "vsr.experiments.report.command",
    "vsr.experiments.terminal",
    "matplotlib.pyplot",
)
PAUSE = 0.001
"""How often the nursery looks at its children [s]."""


def main() -> None:
    """Carry out orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed by mistake must not be taken for an answer
    [kind] = sys.argv[1:] or ["nursery"]
    for name in IMPORTED if kind != "worker" else ():
        importlib.import_module(name)
    if kind == "reader":
        targets.limit_memory()
    for line in sys.stdin:
        order = json.loads(line)
        answer = _bear(order["processes"], order["limit"]) if kind == "nursery" else orders.carry_out(order)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _bear(processes: list[dict[str, Any]], limit: float) -> list[dict[str, Any]]:
    """Begin each process at its time, send it its signals, and wait for all; limit: for everything together [s]."""
    began, parent = time.monotonic(), os.getppid()
    children: list[dict[str, Any] | None] = [None] * len(processes)
    while True:
        now = time.monotonic() - began
        for index, process in enumerate(processes):
            if children[index] is None and now >= process["begin"]:
                children[index] = _begin(process)
        known = [child for child in children if child is not None]
        for child in known:
            _attend(child)
        if len(known) == len(children) and all("code" in child for child in known):
            return [_answer(child) for child in known]
        if now > limit or os.getppid() != parent:
            for child in known:
                _send(child, signal.SIGKILL)
        time.sleep(PAUSE)


def _begin(process: dict[str, Any]) -> dict[str, Any]:
    """Fork; the child never comes back from here but by SystemExit."""
    output = tempfile.TemporaryFile()  # noqa: SIM115 (the child has it too, and closes its own)
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        _live(process, output)
    pending = sorted((after, number) for after, number in process["signals"])
    return {"process": child, "began": time.monotonic(), "pending": pending, "output": output}


def _live(process: dict[str, Any], output: IO[bytes]) -> None:
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what they begin with & ignore it
    os.chdir(process["folder"])
    os.environ.update(process["environment"])
    if process["fresh"]:
        os.execv(COMMAND[0], [*COMMAND, *process["arguments"]])
    if process["small_disk"]:
        disk.mount(*process["small_disk"])
    code = 1
    try:
        with faults.injected(faults.from_plain(process["fault"])):
            here.run_command(process["arguments"])
        code = 0
    except SystemExit as ended:
        code = here.exit_code(ended)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException:
        traceback.print_exc()
    if process["small_disk"]:
        disk.rescue(process["small_disk"][0])
    sys.exit(code if code >= 0 else 128 - code)


def _attend(child: dict[str, Any]) -> None:
    """Send the signals that are due; note its end."""
    if "code" in child:
        return
    ended, status, used = os.wait4(child["process"], os.WNOHANG)
    if ended:
        child |= {
            "code": os.waitstatus_to_exitcode(status),
            "seconds": time.monotonic() - child["began"],
            "memory": 1024 * used.ru_maxrss,
        }
        return
    while child["pending"] and time.monotonic() - child["began"] >= child["pending"][0][0]:
        _send(child, child["pending"].pop(0)[1])


def _send(child: dict[str, Any], number: int) -> None:
    if "code" not in child:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child["process"], number)


def _answer(child: dict[str, Any]) -> dict[str, Any]:
    with child["output"] as file:
        file.seek(0)
        output = file.read().decode("utf-8", errors="replace")
    return {"code": child["code"], "output": output, "seconds": child["seconds"], "memory": child["memory"]}


if __name__ == "__main__":
    main()

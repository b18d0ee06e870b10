"""The work of `vsr convert`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vsr.experiments.config import UserError, dump_plain, load_scene, parse_scene
from vsr.experiments.convert.evogym_files import ConvertedRobot, all_connections, read_npz, structure_of
from vsr.experiments.convert.other_physics import in_other_physics
from vsr.experiments.convert.voxcad import read_voxcad
from vsr.experiments.storage.files import target_file, write_atomically, write_text

OTHERS = (".npz", ".vxa", ".vxd")
OURS = (".yaml", ".yml")


def run(source: str, out: str, engine: str | None, task: str) -> list[str]:
    """Write a robot of one kind of file as another, or for another engine; returns what is lost, for people."""
    kind = Path(source).suffix.lower()
    if kind not in (*OTHERS, *OURS):
        raise UserError(f"{source}: the name should end in {', '.join((*OTHERS, *OURS))}")
    if kind in OURS and engine is None:
        target = target_file("OUT", out, (".npz",))
        structure = structure_of(load_scene(source).robot.body, source)
        arrays = structure, all_connections(structure)
        write_atomically(target, lambda file: np.savez(file, *arrays))
        return ["the controller, the world and the task: a file of EvoGym has a body only"]
    target = target_file("OUT", out, OURS)
    if kind in OURS and engine is not None:
        read = in_other_physics(load_scene(source), engine, source)
    else:
        read = read_npz(Path(source), engine or "evogym", task) if kind == ".npz" else read_voxcad(Path(source))
    text = _header(Path(source).name, read) + dump_plain(read.scene)
    parse_scene(text, out)  # before anything is written
    write_text(target, text)
    return read.lost


def _header(name: str, read: ConvertedRobot) -> str:
    lines = [f"# From {name}."]
    if read.lost:
        lines += ["# Not carried over:", *(f"#   {one}" for one in read.lost)]
    return "\n".join(lines) + "\n"

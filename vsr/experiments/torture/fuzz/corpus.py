"""Sound inputs to begin with: what is shipped, and small robots, meshes and arrays made here."""

from __future__ import annotations

import functools
import io
import struct
import tempfile
from pathlib import Path

import numpy as np

from vsr.experiments.config import load_experiment
from vsr.experiments.runs.robot_files import BEST, robot_file, write_robot
from vsr.experiments.shipped import STUDY, shipped_files

ROBOTS = (
    "# best of seed 0: individual 12, relative_velocity 0.1\n"
    "robot:\n  body: {shape: [aa, a.], materials: {a: {spring_frequency: 8.0}}}\n"
    "  controller: {type: sine, frequency: 1.0, phase: [[0.1, 0.2], [0.3, null]]}\n"
    "task: {duration: 2.0}\nphysics: {time_step: 1/60, substeps: 6}\n",
    "robot:\n  body: {shape: aa}\n  controller:\n    type: mlp\n    senses: [{quantity: area_ratio}]\n    hidden: [2]\n"
    "    weights: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]\n"
    "world: {terrain: {type: hilly, height: 0.5}}\ntask: {duration: 1.0}\n",
    "robot:\n  body: {shape: [[aa], [aa]], masses: points}\n  controller: {type: sine}\n"
    "world: {terrain: sand}\ntask: {duration: 1.0}\n",
)


EVOLUTIONS = (
    "robot:\n  body: {shape: [aa, a.]}\n  controller: phases\ntask: {duration: 1.0}\nfitness: relative_velocity\n"
    "ea: {n_pop: 8, n_tour: 2}\ngenerations: 4\nseeds: 2\n",
    "robot:\n  body: {shape: ab, materials: {a: {}, b: {spring_frequency: 5.0}}}\n  controller: phases\n"
    "task: {duration: 1.0}\n"
    "world: {terrain: {type: uneven, roughness: 0.5}}\nfitness: {measure: travel_velocity, direction: minimise}\n"
    "evaluation: {starts: 2, jitter: {height: 0.1}}\nea: {n_pop: 8, n_tour: 2}\ngenerations: 4\n",
    "robot:\n  body: {shape: [[aa], [aa]], masses: points}\n  controller: phases\n"
    "task: {duration: 0.5}\nfitness: travel_velocity\nea: {n_pop: 8, n_tour: 2}\ngenerations: 4\n",
)
"""Experiments whose best robots are made here, as a run writes them, without beginning a device ..."""
START = {
    "generation": 0, "device": "cpu: cpu", "devices": 1, "machine": "Linux x86_64", "python": "3.12.1",
    "packages": {"vsr": "0.1.0", "jax": "0.11.0"}, "commit": None, "flags": {}, "code_generator": None,
}  # fmt: skip
"""... on some other computer."""


@functools.cache
def documents(kind: str) -> list[str]:
    """The texts of sound files of a kind: experiment, scene, study, reach, set, robot or evolved."""
    if kind == "robot":
        return list(ROBOTS)
    if kind == "evolved":
        return [_best_of(text) for text in EVOLUTIONS]
    return [shipped.path.read_text(encoding="utf-8") for shipped in shipped_files() if shipped.kind == kind]


def _best_of(text: str) -> str:
    """The file of a robot that this experiment would have found, with what it tells of its evolution."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "experiment.yaml"
        file.write_text(text, encoding="utf-8")
        experiment = load_experiment(file).resolved()
        (Path(folder) / BEST).mkdir()
        body = experiment.robot.body
        counts = {"body": body.gene_count, "controller": experiment.robot.controller.gene_count(body)}
        genes = {part: np.linspace(-0.5, 0.5, count, dtype=np.float32) for part, count in counts.items()}
        write_robot(Path(folder), experiment, 0, genes, 9, 0.25, [START])
        return robot_file(Path(folder), experiment.seeds[0]).read_text(encoding="utf-8")


@functools.cache
def beside_studies() -> list[Path]:
    """Folders of experiments, which shipped studies name by paths from their own."""
    return sorted({file.path.with_suffix("") for file in shipped_files() if file.kind == STUDY})


CORNERS = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
FACES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2))


@functools.cache
def meshes() -> dict[str, bytes]:
    """A tetrahedron in every kind of file that is read, by the ending of its name."""
    corners = np.asarray(CORNERS, float)
    obj = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS)
    obj += "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES)
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {x} {y} {z}\n" for x, y, z in corners[list(face)])
        + "endloop\nendfacet\n"
        for face in FACES
    )
    binary = b"\0" * 80 + struct.pack("<I", len(FACES))
    for face in FACES:
        binary += struct.pack("<12fH", 0, 0, 0, *corners[list(face)].ravel(), 0)
    off = f"OFF\n{len(CORNERS)} {len(FACES)} 0\n" + "".join(f"{x} {y} {z}\n" for x, y, z in CORNERS)
    off += "".join(f"3 {a} {b} {c}\n" for a, b, c in FACES)
    return {
        ".obj": obj.encode(),
        ".stl": binary,
        ".ascii.stl": f"solid x\n{facets}endsolid x\n".encode(),
        ".off": off.encode(),
    }


@functools.cache
def arrays() -> bytes:
    """An npz file as run folders have it."""
    target = io.BytesIO()
    np.savez_compressed(
        target,
        id=np.arange(8).reshape(2, 1, 4),
        parents=-np.ones((2, 1, 4, 2), int),
        fitness=np.linspace(0, 1, 8).reshape(2, 1, 4),
        best_id=np.array([[3], [3]]),
    )
    return target.getvalue()

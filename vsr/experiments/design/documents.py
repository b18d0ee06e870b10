"""Documents of the designer: what its page offers, and drawings as scenes, experiments and YAML.

A document is what a scene's file holds, as plain data. The page changes parts of it; all checks are those of files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vsr.controllers import Oscillators, Sine
from vsr.drawing.colors import MATERIALS
from vsr.experiments.config import ConfigError, UserError, dump_plain, load_scene, parse_experiment, parse_scene
from vsr.experiments.formatting import UNITS
from vsr.experiments.play.recordings import RecordedRobot
from vsr.robot import ENGINE_KINDS, Material
from vsr.robot.engine_kinds import EngineName
from vsr.robot.kinds import KINDS
from vsr.scene import Scene
from vsr.spec import Spec
from vsr.tasks import MEASURES, TASKS
from vsr.terrain import TERRAINS

NAME = "robot.yaml"
"""What messages call the drawing."""
MOST_CELLS, LONGEST = 1000, 60.0
"""Of a grid, and of an episode [s]: more is for `vsr simulate`."""
WORDS = {
    "a": "muscle, all sides",
    "r": "stiff, passive",
    "s": "soft, passive",
    "h": "muscle, horizontal",
    "v": "muscle, vertical",
}
PASSIVE = {symbol: KINDS["points"][symbol] for symbol in "rs"}
PALETTES: dict[EngineName, dict[str, Material]] = {
    "squares": {"a": Material(), **PASSIVE},
    "points": {"a": Material(), **KINDS["points"]},
    "evogym": KINDS["evogym"],
}
"""Materials to draw with, by engine; the letters of passive ones and of muscles along one axis are EvoGym's."""
FREQUENCY = {"evogym": 12.0}
"""Of sines, where it is not 1 [Hz]: EvoGym's episodes last a second or two."""
SEARCH = {"optimizer": {"population_size": 40, "tournament_size": 5}, "generations": 20}
"""How a drawing's phases evolve: minutes on two cores for a small body."""


def catalog() -> dict[str, Any]:
    """All that a page offers to choose from."""
    return {
        "engines": [
            {
                "name": engine,
                "dimensions": list(ENGINE_KINDS[engine].dimensions),
                "side": ENGINE_KINDS[engine].default_side,
                "frequency": FREQUENCY.get(engine, 1.0),
                "materials": {symbol: _short(material) for symbol, material in PALETTES[engine].items()},
            }
            for engine in PALETTES
        ],
        "words": WORDS,
        "colors": MATERIALS["original"],
        "terrains": [
            {"name": name, "words": _words(terrain), "in3d": made.in_3d}
            for name, terrain in TERRAINS.items()
            if (made := _made(terrain)) is not None
        ],
        "tasks": [
            {
                "name": name,
                "words": _words(task),
                "duration": made.duration,
                "engines": [engine for engine in PALETTES if _suits(made, engine)],
                "ground": any("terrain" in made.overrides(engine, 1.0, 2).world for engine in PALETTES),
            }
            for name, task in TASKS.items()
            if (made := _made(task)) is not None
        ],
        "controllers": [
            {"name": kind.model_fields["type"].default, "words": _words(kind)} for kind in (Sine, Oscillators)
        ],
        "longest": LONGEST,
        "mostCells": MOST_CELLS,
    }


def _made(kind: type[Spec]) -> Any:
    """One with defaults; None where something has to be given, which is for files."""
    try:
        return kind()
    except ValueError:
        return None


def _suits(task: Any, engine: EngineName) -> bool:
    return not task.issues(engine, 2, list(PALETTES[engine].values()))


def _words(kind: Any) -> str:
    """What it is, from its own description."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


def _short(material: Material) -> dict[str, Any]:
    """A material without what is as by default."""
    return material.model_dump(mode="json", exclude_defaults=True)


def scene_of(document: Any) -> Scene:
    """The scene that a page describes; raises UserError with every fault in it."""
    scene = parse_scene(json.dumps(document), NAME)
    cells = scene.robot.body.cells.size
    if cells > MOST_CELLS:
        raise UserError(f"robot.body.shape: {cells:,} cells; at most {MOST_CELLS:,} here, more with vsr simulate")
    if scene.task.duration > LONGEST:
        seconds = scene.task.duration
        raise UserError(f"task.duration: {seconds:g} s; at most {LONGEST:g} s here, more with vsr simulate")
    return scene


def as_yaml(document: Any, evolving: bool) -> str:
    """The file of a drawing, for `vsr simulate` and `vsr play`; evolving: of an experiment, for `vsr evolve`.

    Raises UserError with every fault in it.
    """
    document = _without_unused(document, scene_of(document))
    scene = scene_of(document)
    plain = {"kind": "scene", "format": 1, **{name: part for name, part in document.items() if name not in OF_FILES}}
    if not evolving:
        return f"# Drawn with vsr design; to see it: vsr play {NAME}\n{dump_plain(plain)}"
    experiment = {**plain, "kind": "experiment", **_search(scene)}
    experiment["robot"] = {**plain["robot"], "controller": _evolved(scene)}
    text = dump_plain(experiment)
    parse_experiment(text, NAME)
    return f"# Drawn with vsr design; its phases evolve: vsr evolve {NAME}\n{text}"


def _without_unused(document: dict[str, Any], scene: Scene) -> dict[str, Any]:
    """A document without the materials that were on offer and that no voxel has."""
    body, robot = document["robot"]["body"], document["robot"]
    used = {
        symbol for index, symbol in enumerate(scene.robot.body.materials) if (scene.robot.body.cells == index).any()
    }
    materials = {symbol: one for symbol, one in body.get("materials", {}).items() if symbol in used}
    return {**document, "robot": {**robot, "body": {**body, **({"materials": materials} if materials else {})}}}


OF_FILES = ("kind", "format")


def _search(scene: Scene) -> dict[str, Any]:
    """What is selected for, and how."""
    measures = scene.task.measures
    return {"fitness": "relative_velocity" if "relative_velocity" in measures else measures[0], **SEARCH}


def _evolved(scene: Scene) -> dict[str, Any]:
    """The controller with its phases left open; raises UserError for one that has none."""
    controller, body = scene.robot.controller, scene.robot.body
    if not isinstance(controller, Sine | Oscillators):
        raise UserError("robot.controller: only sines and oscillators have phases that evolve; save it as a scene")
    given = {"type": controller.type, "frequency": controller.frequency, "amplitude": controller.amplitude}
    for name in ("frequency", "amplitude"):
        if isinstance(given[name], tuple):
            raise UserError(f"robot.controller.{name}: give one for all voxels, or save it as a scene")
    passive = [symbol for symbol, material in body.materials.items() if material.actuation == "none"]
    return {**given, **({"passive": passive} if passive and isinstance(controller, Sine) else {})}


def read(text: str, name: str = NAME) -> dict[str, Any]:
    """A file's scene as a document; raises UserError with every fault in it."""
    return _document(parse_scene(text, name))


def read_file(path: Path) -> dict[str, Any]:
    """The same of a file on this computer."""
    return _document(load_scene(path))


def _document(scene: Scene) -> dict[str, Any]:
    """What was chosen, without what is as by default, where that reads back as the same; else all of it."""
    short = scene.model_dump(mode="json", exclude_defaults=True)
    body, robot = scene.robot.body, short["robot"]
    robot["body"] = {
        "shape": body.to_plain()["shape"],
        "engine": body.engine,
        "voxel_side": body.voxel_side,
        "materials": {symbol: _short(material) for symbol, material in body.materials.items()},
    }
    robot["controller"] = _typed(scene.robot.controller, robot.get("controller", {}))
    short["task"] = {**_typed(scene.task, short.get("task", {})), "duration": scene.task.duration}
    if scene.world.terrain is not None and "terrain" in short.get("world", {}):
        short["world"]["terrain"] = _typed(scene.world.terrain, short["world"]["terrain"])
    try:
        same = parse_scene(json.dumps(short), NAME) == scene
    except UserError:
        same = False
    return short if same else {name: part for name, part in scene.to_plain().items() if name not in OF_FILES}


def _typed(spec: Spec, short: dict[str, Any]) -> dict[str, Any]:
    return {"type": spec.to_plain()["type"], **short}


def problems_of(error: UserError) -> list[dict[str, str]]:
    """Faults, each with where it is, as a page shows them."""
    if isinstance(error, ConfigError):
        return [{"path": ".".join(map(str, one.path)), "message": one.message} for one in error.problems]
    path, colon, message = str(error).partition(": ")
    return [{"path": path, "message": message} if colon else {"path": "", "message": path}]


def measures_of(robot: RecordedRobot) -> list[dict[str, Any]]:
    """Each with its unit and its meaning."""
    known = {**MEASURES, **robot.scene.task.known_measures()}
    return [
        {"name": name, "value": value, "unit": UNITS.get(name, ""), "words": _words(known.get(name))}
        for name, value in robot.measures.items()
    ]

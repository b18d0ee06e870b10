"""One page that holds everything: viewer, recorded robots, and three.js if one of them is 3-D. Loads nothing."""

from __future__ import annotations

import base64
import html
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.drawing.chambers import pressure_scale, walls
from vsr.drawing.colors import DARK, GRAIN_QUANTITIES, LIGHTNESS, MATERIALS, SCALES
from vsr.drawing.faces import faces_of, parts_outside_fluid
from vsr.drawing.grains import RecordedGrains, grain_scale
from vsr.drawing.outlines import FACES
from vsr.drawing.overlays import OVERLAYS, description, sensor_marks
from vsr.drawing.painter import WALL, Look
from vsr.drawing.recording import Recording, size_word
from vsr.environment import Environment
from vsr.experiments.play.recordings import RecordedRobot
from vsr.terrain import HeightField

ORDER = 2
"""How many times differences are taken."""
FELT_STEPS = 50
"""Steps of a sensor value from that at rest to the farthest; bars are not much longer in pixels."""
GRAIN_STEPS = 100
"""Steps of a grain's place in the smallest radius."""
GRAIN_FORCES = 64
"""Steps of grains' forces up to what few exceed; those beyond count as much."""
GRAIN_SPEED = 0.02
"""Quantum of grains' speeds [m/s]."""

PRESSURE_STEPS = 500
"""Steps of a chamber's pressure from 0 to the largest."""
CHAMBER_VOLUME = 0.002
"""Quantum of a chamber's volume over that at rest."""


@dataclass(frozen=True)
class Stream:
    """One quantity over time."""

    name: str
    quantum: float
    values: np.ndarray
    """(moments, series)"""


def streams_of(recording: Recording) -> list[Stream]:
    """Data of a viewer, each with the precision that is visible."""
    moments = len(recording.time)

    def series(values: np.ndarray) -> np.ndarray:
        return np.asarray(values, float).reshape(moments, -1)

    streams = [Stream("position", recording.voxel_side / 2000, series(recording.position))]
    if recording.angle is not None:
        streams.append(Stream("angle", 0.002, series(recording.angle)))
    streams += [
        Stream("ratio", 0.005, series(recording.ratio)),
        Stream("control", 0.01, series(recording.control)),
        Stream("contact", 1.0, series(recording.contact)),
        *(
            Stream(f"felt{index}", (sensor.reach or 1.0) / FELT_STEPS, series(sensor.value * sensor.has))
            for index, sensor in enumerate(recording.felt)
        ),
    ]
    if recording.broken is not None and recording.broken.any():
        streams.append(Stream("broken", 1.0, series(recording.broken)))
    if recording.chambers is not None:
        chambers = recording.chambers
        most = float(np.abs(chambers.pressure).max()) or 1.0
        streams.append(Stream("pressure", most / PRESSURE_STEPS, series(chambers.pressure)))
        streams.append(Stream("volume", CHAMBER_VOLUME, series(chambers.volume)))
    faces = faces_of(recording)
    if faces is not None:
        streams.append(Stream("objects", recording.voxel_side / 1000, series(faces.face)))
        streams.append(Stream("balls", recording.voxel_side / 1000, series(faces.ball)))
        streams.append(Stream("spokes", 0.005, series(faces.spoke)))
    if recording.grains is not None:
        grains = recording.grains
        streams.append(Stream("grains", float(grains.radius.min()) / GRAIN_STEPS, series(grains.position)))
        streams.append(Stream("grainSpeed", GRAIN_SPEED, series(grains.speed)))
        most = max(float(np.quantile(grains.force, 0.98)), 1e-6)
        streams.append(Stream("grainForce", most / GRAIN_FORCES, series(np.minimum(grains.force, 2 * most))))
    return streams


def pack(streams: list[Stream]) -> dict[str, Any]:
    """Plain data that JSON can hold."""
    parts = [_bytes_of(np.rint(stream.values / stream.quantum).astype(np.int64)) for stream in streams]
    data = zlib.compress(b"".join(parts), 9)
    return {
        "moments": len(streams[0].values),
        "order": ORDER,
        "streams": [
            {"name": stream.name, "quantum": stream.quantum, "series": stream.values.shape[1]} for stream in streams
        ],
        "data": base64.b64encode(data).decode("ascii"),
    }


def unpack(packed: dict[str, Any]) -> dict[str, np.ndarray]:
    """Every quantity by its name, (moments, series), to within half a quantum."""
    numbers = _numbers_of(zlib.decompress(base64.b64decode(packed["data"])))
    moments, place, found = packed["moments"], 0, {}
    for stream in packed["streams"]:
        count = moments * stream["series"]
        values = numbers[place : place + count].reshape(stream["series"], moments)
        for _ in range(packed["order"]):
            values = values.cumsum(1)
        found[stream["name"]] = values.T * stream["quantum"]
        place += count
    return found


def _bytes_of(whole: np.ndarray) -> bytes:
    """Differences over time as bytes; whole: (moments, series)."""
    rest = whole.T
    for _ in range(ORDER):
        rest = np.diff(rest, axis=1, prepend=0)
    rest = rest.reshape(-1)
    number = (rest << 1) ^ (rest >> 63)  # signs as the lowest bit
    groups = [number & 0x7F]
    while (number := number >> 7).any():
        groups.append(number & 0x7F)
    table = np.stack(groups, 1)
    needed = np.maximum(1, (table > 0).shape[1] - np.argmax(table[:, ::-1] > 0, 1))
    needed[(table == 0).all(1)] = 1
    place = np.arange(table.shape[1])
    table = np.where(place < needed[:, None] - 1, table | 0x80, table)
    return table[place < needed[:, None]].astype(np.uint8).tobytes()


def _numbers_of(data: bytes) -> np.ndarray:
    one = np.frombuffer(data, np.uint8)
    last = one < 0x80
    start = np.concatenate([[True], last[:-1]])
    place = np.arange(len(one)) - np.flatnonzero(start)[np.cumsum(start) - 1]
    number = np.add.reduceat((one.astype(np.int64) & 0x7F) << (7 * place), np.flatnonzero(start))
    return (number >> 1) ^ -(number & 1)


ASSETS = Path(__file__).parent / "assets"
MOST_PER_SECOND = 30
"""Moments kept; a viewer draws straight lines between them."""
GROUND_AROUND = 100.0
"""How far the ground is kept beyond where the robot gets [m]."""


def page(robots: Sequence[RecordedRobot], look: Look, *, repeat: bool = False) -> str:
    """The whole file. repeat: whether it plays again at the end."""
    is_3d = [robot.recording.dimension == 3 for robot in robots]
    inner = "2d" if len(set(is_3d)) == 2 else not any(is_3d)
    size = size_word([robot.recording for robot in robots])
    marks = sensor_marks(robot.recording for robot in robots)
    pressures = pressure_scale(robot.recording.chambers for robot in robots)
    data = {
        "robots": [_data_of(robot) for robot in robots],
        "overlays": description(),
        "sensors": [{**asdict(mark), "words": mark.words} for mark in marks],
        "scales": {
            palette: {name: asdict(scale) for name, scale in scales.items()} for palette, scales in SCALES.items()
        },
        "pressureScale": None if pressures is None else asdict(pressures),
        "grainScales": _grain_scales([robot.recording.grains for robot in robots]),
        "materials": MATERIALS,
        "lines": {"lightness": LIGHTNESS.tolist(), "dark": DARK, "wall": WALL},
        "faces": [{"axis": axis, "side": side, "corners": corners} for (axis, side), corners in FACES.items()],
        "size": size,
        "look": {
            "colorBy": look.color_by,
            "palette": look.palette,
            "grainsBy": look.grains_by,
            "masses": inner,
            "springs": inner,
            "repeat": repeat,
            "pressure": pressures is not None,
            **{overlay: overlay in look.overlays for overlay in OVERLAYS},
        },
    }
    scripts = [_asset(f"{name}.js") for name in ("decode", "motion", "overlays", "chambers", "plane")]
    if any(is_3d):
        scripts += [f"/*\n{_asset('three.LICENSE')}*/\n{_asset('three.min.js')}", _asset("space.js")]
    scripts.append(_asset("player.js"))
    fields = {
        "TITLE": html.escape(", ".join(robot.name for robot in robots)),
        "STYLE": _asset("style.css"),
        "SIZE": size if len(set(is_3d)) == 1 else "size",
        "HINT": "; drag: turn" if any(is_3d) else "",
        "DATA": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "SCRIPTS": "\n".join(f"<script>\n{script}</script>" for script in scripts),
    }
    pieces = _asset("page.html").split("@@")
    return "".join(fields[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _data_of(robot: RecordedRobot) -> dict[str, Any]:
    recording = _thinned(robot.recording)
    time = recording.time
    return {
        "name": robot.name,
        "dimension": recording.dimension,
        "side": recording.voxel_side,
        "interval": float(time[1] - time[0]) if len(time) > 1 else 1.0,
        "failed": recording.failed,
        "part": recording.part.tolist(),
        "offset": recording.offset.round(5).tolist() if recording.angle is not None else None,
        "half": recording.half_side.round(5).tolist(),
        "springs": recording.springs.astype(int).tolist(),
        "springOf": recording.spring_ends,
        "material": recording.material.tolist(),
        "place": recording.place.tolist(),
        "symbols": robot.symbols,
        "felt": [{"label": sensor.label, "has": sensor.has.astype(int).tolist()} for sensor in recording.felt],
        "ground": _ground(robot, recording),
        "grains": _grains(recording.grains),
        "objects": _objects(recording),
        "chambers": _chambers(recording),
        "packed": pack(streams_of(recording)),
    }


def _chambers(recording: Recording) -> dict[str, Any] | None:
    """Constant data of voxels, and the parts that fluid voxels lack: springs in no membrane, masses amid fluid."""
    chambers = recording.chambers
    if chambers is None:
        return None
    voxels, corners = found = walls(chambers.chamber, recording.place)
    parts, outside = np.arange(recording.position.shape[1]), parts_outside_fluid(recording, found)
    lacking = np.zeros((len(chambers.chamber), 0)) if recording.lacking is None else recording.lacking
    return {
        "count": len(chambers.rest_volume),
        "chamber": chambers.chamber.tolist(),
        "walls": [
            {"voxel": int(voxel), "corners": of_one.tolist()} for voxel, of_one in zip(voxels, corners, strict=True)
        ],
        "amid": np.setdiff1d(parts, outside).tolist(),
        "lacking": [np.flatnonzero(row).tolist() for row in lacking],
    }


def _objects(recording: Recording) -> dict[str, Any] | None:
    """Constant data of rigid objects, soft ones and further robots: corners of a face, colors, radii."""
    faces = faces_of(recording)
    if faces is None:
        return None
    return {
        "ends": faces.face.shape[2],
        "colors": list(faces.colors),
        "radius": faces.radius.round(4).tolist(),
        "ballColors": list(faces.ball_colors),
    }


def _grains(grains: RecordedGrains | None) -> dict[str, Any] | None:
    """Constant data of grains."""
    if grains is None:
        return None
    return {"radius": grains.radius.round(4).tolist(), "period": grains.period.tolist()}


def _grain_scales(beds: Sequence[RecordedGrains | None]) -> dict[str, Any] | None:
    """By what grains may be colored; None if there are none."""
    scales = {quantity: grain_scale(beds, quantity) for quantity in GRAIN_QUANTITIES}
    return {quantity: asdict(scale) for quantity, scale in scales.items() if scale is not None} or None


def _thinned(recording: Recording) -> Recording:
    """Not more moments than a viewer can show."""
    time = recording.time
    if len(time) < 2:
        return recording
    every = max(1, math.floor(1 / (MOST_PER_SECOND * (time[1] - time[0])) + 1e-6))
    return recording.at(time[::every]) if every > 1 else recording


def _ground(robot: RecordedRobot, recording: Recording) -> dict[str, Any] | None:
    """The part of the ground that may come into view."""
    if robot.ground is None:
        return None
    x, y = robot.ground
    seen = recording.position.reshape(-1, recording.dimension)
    low, high = seen.min(0) - GROUND_AROUND, seen.max(0) + GROUND_AROUND
    near = _near(x, low[0], high[0])
    # Where the ground steps up, x stays; a viewer needs one height for each x.
    risen = x + 1e-3 * np.concatenate([[False], np.diff(x) <= 0])
    found: dict[str, Any] = {"x": risen[near].round(4).tolist(), "y": y[near].round(4).tolist()}
    environment: Environment = robot.scene.world.build()
    if isinstance(environment.terrain, HeightField):
        field = environment.terrain
        start, spacing, height = (np.asarray(part, float) for part in (field.start, field.spacing, field.height))
        rows = _near(start[1] + spacing[1] * np.arange(height.shape[0]), low[1], high[1])
        columns = _near(start[0] + spacing[0] * np.arange(height.shape[1]), low[0], high[0])
        found["field"] = {
            "start": [float(start[0] + spacing[0] * columns.start), float(start[1] + spacing[1] * rows.start)],
            "spacing": spacing.tolist(),
            "heights": height[rows, columns].round(4).tolist(),
        }
    return found


def _near(points: np.ndarray, low: float, high: float) -> slice:
    """Points between two places and the next ones on either side; at least two."""
    first = max(int(np.searchsorted(points, low)) - 1, 0)
    last = min(int(np.searchsorted(points, high)) + 1, len(points))
    return slice(min(first, len(points) - 2), max(last, first + 2))


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")

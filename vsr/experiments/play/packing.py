"""Recorded robots in few bytes, for pages that carry them along.

Every quantity is rounded to whole multiples of a quantum and written, series by series, as differences of differences
over time: smooth motion leaves small numbers. These go as bytes of seven bits (the lowest first, the eighth says that
more follow; signs as the lowest bit), deflated, in base64. `assets/decode.js` undoes it as `unpack` does.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from vsr.drawing.faces import faces_of
from vsr.drawing.recording import Recording

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
    """What a viewer needs, each as precisely as eyes do."""
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

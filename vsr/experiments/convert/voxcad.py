"""Robots of VoxCad and Voxelyze: .vxa and .vxd files, which are XML with layers of voxels, from the lowest up."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from vsr.experiments.config import UserError
from vsr.experiments.convert.evogym_files import ConvertedRobot
from vsr.robot.shape import drawing

SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
MOST_CELLS = 100_000
DEFAULTS = {"Elastic_Mod": 1e6, "Density": 1e6, "uDynamic": 0.5}
"""Of materials that a file does not describe, as .vxd files do not [Pa, kg/m³]."""
USED = {
    *("Lattice_Dim", "X_Voxels", "Y_Voxels", "Z_Voxels", "Data", "Layer", "Palette", "Material", "Mechanical", "Name"),
    *("Elastic_Mod", "Density", "uDynamic", "CTE", "TempAmp", "TempAmplitude", "TempPeriod", "TempEnabled"),
    *("VaryTempEnabled", "GravAcc", "GravEnabled", "Gravity", "Thermal", "Environment", "VXC", "Lattice", "Structure"),
    *("VXA", "VXD", "PhaseOffset"),
}
"""The parts of a file that are carried over."""


def read_voxcad(path: Path) -> ConvertedRobot:
    """A robot; raises UserError."""
    root = _root(path)
    structure = _only(root, "Structure")
    if structure is None:
        raise UserError(f"{path}: there is no <Structure>, which holds the voxels")
    size = tuple(int(_number(structure, f"{axis}_Voxels", 0, path)) for axis in "XYZ")
    if min(size) < 1 or math.prod(size) > MOST_CELLS:
        raise UserError(f"{path}: {' x '.join(map(str, size))} voxels given; from 1 to {MOST_CELLS} in all")
    cells = _cells(structure, size, path)
    used = sorted(set(np.unique(cells).tolist()) - {0})
    if not used:
        raise UserError(f"{path}: the robot has no voxel")
    if len(used) > len(SYMBOLS):
        raise UserError(f"{path}: {len(used)} materials; at most {len(SYMBOLS)}")
    amplitude, period = _temperature(root, path)
    palette = {int(one.get("ID", "0")): one for one in root.iter("Material")}
    materials = {SYMBOLS[i]: _material(palette.get(kind), amplitude, path) for i, kind in enumerate(used)}
    index = np.searchsorted(used, cells) - np.where(cells == 0, cells.size, 0)
    shape = drawing(np.where(cells == 0, -1, index), list(materials))
    side = _number(root, "Lattice_Dim", 0.01, path)
    body = {"shape": [list(level) for level in shape], "materials": materials, "voxel_side": side, "engine": "points"}
    robot: dict[str, Any] = {"body": body}
    expansion = {kind: _number(palette[kind], "CTE", 0, path) if kind in palette else 0 for kind in used}
    if period > 0 and any(expansion.values()):
        robot["controller"] = _controller(structure, cells, expansion, size, period, path)
    world = {"gravity": abs(_number(root, "GravAcc", -9.81, path))}
    return ConvertedRobot({"robot": robot, "world": world}, _lost(root))


def _root(path: Path) -> ElementTree.Element:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if b"<!ENTITY" in text:
        raise UserError(f"{path}: it defines entities, which no robot needs")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: not XML: {error}") from None


def _only(element: ElementTree.Element, tag: str) -> ElementTree.Element | None:
    return element if element.tag == tag else next(element.iter(tag), None)


def _number(element: ElementTree.Element, tag: str, default: float, path: Path) -> float:
    """Text of the first element of a name."""
    found = _only(element, tag)
    if found is None or found.text is None or not found.text.strip():
        return default
    try:
        number = float(found.text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{path}: <{tag}> should be a number; given: {found.text.strip()!r}")
    return number


def _layers(element: ElementTree.Element, tag: str) -> list[str]:
    data = _only(element, tag)
    return [] if data is None else [(layer.text or "").strip() for layer in data.iter("Layer")]


def _cells(structure: ElementTree.Element, size: tuple[int, ...], path: Path) -> np.ndarray:
    """Numbers of materials, (levels, rows, columns), the lowest first."""
    layers = _layers(structure, "Data")
    if len(layers) != size[2]:
        raise UserError(f"{path}: {len(layers)} layers of voxels given; <Z_Voxels> is {size[2]}")
    how = structure.get("Compression", "ASCII_READABLE").upper()
    found = [_layer(layer, how, path) for layer in layers]
    if any(len(layer) != size[0] * size[1] for layer in found):
        raise UserError(f"{path}: every layer needs {size[0]} x {size[1]} voxels")
    return np.array(found, int).reshape(size[2], size[1], size[0])


def _layer(text: str, how: str, path: Path) -> list[int]:
    if how == "ASCII_READABLE":
        if not text.isalnum():
            raise UserError(f"{path}: a layer should be digits and letters, one for each voxel")
        return [int(one, 36) for one in text]
    if how not in ("BASE64", "ZLIB"):
        raise UserError(f"{path}: compression '{how}' is not known; there are ASCII_READABLE, BASE64 and ZLIB")
    try:
        raw = base64.b64decode(text, validate=True)
        return list(zlib.decompress(raw) if how == "ZLIB" else raw)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise UserError(f"{path}: a layer cannot be unpacked: {error}") from None


def _temperature(root: ElementTree.Element, path: Path) -> tuple[float, float]:
    """Amplitude [degrees] and period [s] of what drives voxels; 0 if nothing does."""
    if not _number(root, "TempEnabled", 1, path) or not _number(root, "VaryTempEnabled", 1, path):
        return 0.0, 0.0
    amplitude = _number(root, "TempAmplitude", _number(root, "TempAmp", 0, path), path)
    return abs(amplitude), _number(root, "TempPeriod", 0, path)


def _material(element: ElementTree.Element | None, amplitude: float, path: Path) -> dict[str, Any]:
    """Stiffness, density and friction; expansion by heat becomes the change of volume at full control."""

    def number(tag: str) -> float:
        return DEFAULTS[tag] if element is None else _number(element, tag, DEFAULTS[tag], path)

    heat = 0.0 if element is None else abs(_number(element, "CTE", 0, path)) * amplitude
    change = min((1 + heat) ** 3 - 1, 1.0)
    driven = {"max_area_change": round(change, 6)} if change > 0 else {"actuation": "none"}
    return {
        "young_modulus": number("Elastic_Mod"),
        "density": number("Density"),
        "friction": number("uDynamic"),
        **driven,
    }


def _controller(
    structure: ElementTree.Element,
    cells: np.ndarray,
    expansion: dict[int, float],
    size: tuple[int, ...],
    period: float,
    path: Path,
) -> dict[str, Any]:
    """A sine for every voxel: those that shrink when it is warm are half a period behind."""
    phase = np.full(cells.shape, np.nan)
    for kind, cte in expansion.items():
        phase[cells == kind] = math.pi if cte > 0 else 0.0  # a positive control value shrinks
    offsets = _layers(structure, "PhaseOffset")
    if offsets:
        try:
            given = np.array([[float(one) for one in layer.split(",") if one.strip()] for layer in offsets])
            phase = phase + 2 * math.pi * given.reshape(size[2], size[1], size[0])
        except ValueError:
            raise UserError(f"{path}: <PhaseOffset> needs a number for every voxel, with commas between") from None

    def row_of(values: np.ndarray) -> list[float | None]:
        return [None if math.isnan(one) else round(float(one), 6) for one in values]

    drawn = [[row_of(row) for row in level[::-1]] for level in phase[::-1]]
    return {"type": "sine", "frequency": 1 / period, "phase": drawn}


def _lost(root: ElementTree.Element) -> list[str]:
    """Names of elements that are not carried over, with what they hold where that is short."""
    found: dict[str, str] = {}
    for element in root.iter():
        text = (element.text or "").strip()
        if element.tag not in USED and text:
            found.setdefault(element.tag, text if len(text) <= 20 else "...")
    return [f"{tag} = {text}" for tag, text in sorted(found.items())]

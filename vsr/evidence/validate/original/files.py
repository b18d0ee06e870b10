"""The original simulator's files, read into our own descriptions.

2D-VSR-Sim 1.0 computes the mass of a square as (mass/4) times its area, so the paper's 1 kg is 0.2025 kg there;
`material_of` takes that over. Voxel rows come bottom first in these files and top first in a Body.
"""

from __future__ import annotations

import math
import re
from typing import Any

from vsr.controllers import MLP, Clock, ControllerSpec, Development, Sine
from vsr.robot import Body, Material
from vsr.sensors import Sensor
from vsr.terrain import AnyGround, Flat, Polyline

_GROUPS = {
    "SIDE_EXTERNAL": "side_external",
    "SIDE_INTERNAL": "side_internal",
    "SIDE_CROSS": "side_cross",
    "CENTRAL_CROSS": "central_cross",
}
_SHORT_GROUPS = {"E": "side_external", "I": "side_internal", "X": "side_cross", "C": "central_cross"}
_QUANTITIES = {
    "AREA_RATIO": "area_ratio",
    "VELOCITY_MAGNITUDE": "velocity_magnitude",
    "ANGLE": "angle",
    "X_VELOCITY": "velocity_x",
    "Y_VELOCITY": "velocity_y",
    "X_ROT_VELOCITY": "rotated_velocity_x",
    "Y_ROT_VELOCITY": "rotated_velocity_y",
    "TOUCHING": "contact",
}
_SYMBOLS = "abcdefghijklmnopqrstuvwxyz"


def material_of(original: dict[str, Any], **changes: Any) -> Material:
    """A material as the original's builder lists it; `changes` are our own fields."""
    side = original.get("massSideLengthRatio", 0.3) * original.get("sideLength", 3.0)
    fields: dict[str, Any] = {
        "mass_side_ratio": original.get("massSideLengthRatio", 0.3),
        "linear_damping": original.get("massLinearDamping", 1.0),
        "angular_damping": original.get("massAngularDamping", 1.0),
        "mass": original.get("mass_param", 1.0) / 4 * side**2,
        "friction": original.get("friction", 100.0),
        "restitution": original.get("restitution", 0.1),
        "spring_frequency": original.get("springF", 8.0),
        "spring_damping_ratio": original.get("springD", 0.3),
        "max_force": original.get("maxForce", 1000.0),
        "max_area_change": original.get("areaRatioOffset", 0.2),
        "scaffolding": tuple(_GROUPS[name] for name in original.get("springScaffoldings", _GROUPS)),
        "actuation": "force" if original.get("forceMethod") == "FORCE" else "area",
        "lower_limit": 1.0 if original.get("limitContractionFlag_ropes", True) else 0.0,
    }
    return Material(**{**fields, **changes})


def scaffolding_of(short: str) -> tuple[str, ...]:
    """'All' or letters such as 'E+I+C'."""
    return tuple(_SHORT_GROUPS.values() if short == "All" else (_SHORT_GROUPS[letter] for letter in short.split("+")))


def body_of(case: dict[str, Any]) -> Body:
    """The body of an input block."""
    materials = {_SYMBOLS[i]: material_of(material) for i, material in enumerate(case["materials"])}
    rows = ["".join("." if cell < 0 else _SYMBOLS[cell] for cell in row) for row in case["body_rows_bottom_first"]]
    return Body(shape=tuple(reversed(rows)), materials=materials, voxel_side=case["materials"][0]["sideLength"])


def terrain_of(case: dict[str, Any]) -> AnyGround:
    """The ground of an input block, shifted as the original does: it starts at x = 0 and its lowest point is y = 0."""
    x, y = case.get("terrain_xs"), case.get("terrain_ys")
    if not x or not y:
        return Flat()
    low = min(y)
    return Polyline(x=tuple(value - x[0] for value in x), y=tuple(value - low for value in y))


def controller_of(case: dict[str, Any]) -> ControllerSpec:
    """The controller of an input block."""
    controller = case["controller"]
    if isinstance(controller, str):
        return Sine(amplitude=0.0)
    if controller["type"] == "TimeFunction":
        return _time_functions(controller)
    if controller["type"] == "CentralizedMLP":
        return _perceptron(controller)
    raise ValueError(f"unknown controller '{controller['type']}'")


def placed_low_left(case: dict[str, Any]) -> tuple[float, float]:
    """Lower left corner of the initial bounding box [m] by the original's rule, which ignores the terrain's shift."""
    x, y = case["terrain_xs"], case["terrain_ys"]
    width = case["w"] * case["materials"][0]["sideLength"]
    left = x[1] + 1
    slope = (y[2] - y[1]) / (x[2] - x[1])
    ground = max(y[1] + slope * (left - x[1]), y[1] + slope * (left + width - x[1]))
    return left - x[0], ground + 1


def control_of_note(note: str) -> tuple[ControllerSpec, float]:
    """The control of a single-voxel case, which only its note states, and the time it sets in [s]."""
    after = re.search(r"t\s*>=\s*([\d.]+)", note)
    start = float(after.group(1)) if after else 0.0
    number = r"([-+]?[\d.]*)"
    sine = re.search(rf"f\s*=\s*{number}\s*\*?\s*sin\(\s*{number}\s*\*?\s*pi\s*\*?\s*t\s*\)", note)
    if sine:
        amplitude, half_turns = (float({"": "1", "-": "-1", "+": "1"}.get(text, text)) for text in sine.groups())
        return Sine(amplitude=amplitude, frequency=half_turns / 2), start
    constant = re.search(r"f\s*=\s*([-+]?[\d.]+)\s*(?![\d.*a-z])", note)
    if constant:
        return Sine(frequency=0.0, phase=math.pi / 2, amplitude=float(constant.group(1))), start
    if "f=" in note.replace(" ", ""):
        raise ValueError(f"the control in the note '{note}' is not understood")
    return Sine(amplitude=0.0), start


def _top_first(rows: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in reversed(rows))


def _time_functions(controller: dict[str, Any]) -> Development:
    return Development(
        frequency=_top_first(controller["freq_rows_bottom_first"]),
        phase=_top_first(controller["phase_rows_bottom_first"]),
        amplitude=_top_first(controller["amp_rows_bottom_first"]),
        start=_top_first(controller["a_rows_bottom_first"]),
        end=_top_first(controller["b_rows_bottom_first"]),
        duration=controller["devoT"],
    )


def _perceptron(controller: dict[str, Any]) -> MLP:
    frequency = controller.get("drivingF")
    return MLP(
        sensors=tuple(_sensor(text) for text in controller["sensors_per_voxel"]),
        weights=tuple(controller["weights_flat"]),
        hidden=tuple(controller["inner_neurons"]),
        clock=None if frequency is None else Clock(frequency=frequency),
        legacy_angle=True,
    )


def _sensor(text: str) -> Sensor:
    """'QUANTITY:from:to:AGG'; only windows that begin with the latest reading exist in the data."""
    name, *rest = text.split(":")
    if len(rest) <= 1:
        if rest not in ([], ["0"]):
            raise ValueError(f"sensor '{text}' reads the past, which has no counterpart here")
        return Sensor(quantity=_QUANTITIES[name])
    if rest[0] != "0":
        raise ValueError(f"sensor '{text}' does not begin with the latest reading")
    return Sensor(
        quantity=_QUANTITIES[name], reading="mean" if rest[2] == "MEAN" else "difference", window=int(rest[1])
    )

"""Table 1 of the paper: defaults, domains, scaffolding."""

import itertools

import numpy as np
import pytest
from pydantic import ValidationError

from vsr.physics.squares.model import spring_lengths
from vsr.robot import Body, Material
from vsr.robot.springs import SQUARE_GROUPS, Group

DEFAULTS = {
    "mass_side_ratio": 0.3,
    "linear_damping": 1.0,
    "angular_damping": 1.0,
    "mass": 1.0,
    "friction": 100.0,
    "restitution": 0.1,
    "spring_frequency": 8.0,
    "spring_damping_ratio": 0.3,
    "max_force": 1000.0,
    "max_area_change": 0.2,
}


def test_defaults_are_the_papers():
    material = Material()
    assert {name: getattr(material, name) for name in DEFAULTS} == DEFAULTS
    assert material.scaffolding is None
    assert all(material.has(group) for group in SQUARE_GROUPS)
    assert material.actuation == "area"
    assert Body(shape="a").voxel_side == 3.0


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("mass_side_ratio", 0.0), ("mass_side_ratio", 0.51), ("linear_damping", -1.0), ("angular_damping", -0.1),
        ("mass", 0.0), ("friction", -1.0), ("restitution", 0.0), ("spring_frequency", -8.0),
        ("spring_damping_ratio", -0.1), ("spring_damping_ratio", 1.1), ("max_force", -1.0), ("max_area_change", 1.1),
        ("max_area_change", -0.1), ("lower_limit", -1.0), ("upper_limit", 0.9), ("actuation", "magnets"),
        ("mass", float("nan")), ("mass", float("inf")), ("mass", "heavy"), ("mass", True), ("mass", "1.0"),
    ],
)  # fmt: skip
def test_domains_are_checked(name, bad):
    with pytest.raises(ValidationError) as caught:
        Material(**{name: bad})
    assert caught.value.errors()[0]["loc"] == (name,)


@pytest.mark.parametrize("name", ["mass_side_ratio", "spring_damping_ratio", "max_area_change"])
def test_closed_ends_are_allowed(name):
    top = {"mass_side_ratio": 0.5}.get(name, 1.0)
    assert getattr(Material(**{name: top}), name) == top


def test_unknown_parameter_is_refused():
    with pytest.raises(ValidationError, match="frictoin"):
        Material(frictoin=1.0)


@pytest.mark.parametrize("side", [0.0, -3.0])
def test_voxel_side_is_positive(side):
    with pytest.raises(ValidationError, match="voxel_side"):
        Body(shape="a", voxel_side=side)


@pytest.mark.parametrize(
    "groups",
    [chosen for size in range(5) for chosen in itertools.combinations(SQUARE_GROUPS, size)],
    ids=lambda g: "+".join(g) or "none",
)
def test_scaffoldings_that_hold_together_are_allowed(groups):
    if any(group is not Group.central_cross for group in groups):
        assert set(Material(scaffolding=groups).scaffolding) == set(groups)
    else:
        with pytest.raises(ValidationError, match="falls apart"):
            Material(scaffolding=groups)


def test_spring_lengths_are_the_originals(original_voxel):
    kind = {"SIDE_INTERNAL": 0, "SIDE_EXTERNAL": 0, "SIDE_CROSS": 1, "CENTRAL_CROSS": 2}
    for name, change in (("min", -0.2), ("rest", 0.0), ("max", 0.2)):
        ours = np.asarray(spring_lengths(3.0 * np.sqrt(1 + change), 0.9))
        for spring in original_voxel["springs_in_order"]:
            assert ours[kind[spring["group"]]] == pytest.approx(spring[name], rel=1e-6)

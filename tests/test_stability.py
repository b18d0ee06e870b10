"""The bound on the substep: its value, its sharpness, and the refusal of what would blow up."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from vsr.environment import Environment
from vsr.physics.engine import assemble_body, stability_bound
from vsr.physics.squares.advance import advance
from vsr.physics.squares.geometry import kinetic_energy, rest_state
from vsr.physics.squares.stability import longest_substep
from vsr.physics.substeps import MARGIN, STABLE, choose_substeps
from vsr.robot import Body, Material

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SOFT = {"scaffolding": ("side_external", "central_cross")}
UNUSUAL = {"spring_damping_ratio": 0.0}, {"mass_side_ratio": 0.15}


@pytest.mark.parametrize(
    ("material", "milliseconds"), [({}, 13.4), ({"spring_frequency": 25.0}, 4.29), ({"spring_frequency": 5.0}, 21.5)]
)
def test_bound_of_known_materials(material, milliseconds):
    assert 1000 * longest_substep(Material(**material)) == pytest.approx(milliseconds, rel=5e-3)


def shaken(material, share, shape=("a",)):
    """Kinetic energy after many substeps of a share of the bound over that after one, begun with a little noise."""
    model = assemble_body(Body(shape=shape, materials={"a": material}))
    random = np.random.default_rng(0)
    state = rest_state(model)
    exists = np.asarray(model.cluster_mass > 0)[..., None]
    noise = jnp.asarray(1e-4 * random.normal(size=state.position.shape) * exists, jnp.float32)
    state = replace(state, position=state.position + noise, spin=state.spin + noise[..., 0])
    free = Environment(gravity=jnp.float32(0.0))
    substep = share * longest_substep(material)
    begin, end = (
        kinetic_energy(model, advance(model, free, state, 0 * model.present, substep=substep, count=count))
        for count in (1, 600)
    )
    return float(end / begin)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{}, SOFT, *(pytest.param(other, marks=pytest.mark.full) for other in UNUSUAL)],
    ids=str,
)
def test_bound_is_sharp_for_one_voxel(fields):
    material = Material(linear_damping=0.0, angular_damping=0.0, **fields)
    assert shaken(material, 0.97) < 2
    assert not shaken(material, 1.1) < 50


@pytest.mark.slow
def test_bound_holds_for_bodies():
    material = Material(linear_damping=0.0, angular_damping=0.0)
    assert shaken(material, 0.97, ("aaaa", "a..a")) < 2


def test_substeps_follow_the_stiffest_material():
    hard, soft = Material(spring_frequency=25.0), Material(spring_frequency=5.0)
    both = stability_bound("squares", [hard, soft], 3.0, 2, "semi_implicit_euler")
    assert choose_substeps(both, 1 / 60) == choose_substeps(longest_substep(hard), 1 / 60) == 9
    assert choose_substeps(longest_substep(Material()), 1 / 60) == 6
    for material, margin in ((hard, STABLE), (soft, MARGIN)):
        count = choose_substeps(longest_substep(material), 1 / 60)
        assert 1 / 60 / count <= longest_substep(material) / margin


def test_too_few_substeps_are_refused_with_the_bound():
    assert choose_substeps(longest_substep(Material()), 1 / 60, 2) == 2
    with pytest.raises(ValueError, match=r"13\.41 ms.*at least 2"):
        choose_substeps(longest_substep(Material()), 1 / 60, 1)

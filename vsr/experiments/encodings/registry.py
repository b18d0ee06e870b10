"""Every encoding by its name."""

from __future__ import annotations

from pydantic import BaseModel

from vsr.experiments.encodings.bodies import FixedBody, GaussianMixture, MaterialGrid, VoxelKinds
from vsr.experiments.encodings.cppn import PatternBody, SineCPPN
from vsr.experiments.encodings.networks import DistributedWeights, MLPWeights, PolicyWeights, RecurrentWeights
from vsr.experiments.encodings.oscillators import EvolvedOscillators
from vsr.experiments.encodings.time_functions import EvolvedDevelopment, EvolvedSine, SineByMaterial
from vsr.spec import Registry

BODIES: Registry[type[BaseModel]] = Registry(
    "body",
    {
        "fixed": FixedBody,
        "gaussian_mixture": GaussianMixture,
        "material_grid": MaterialGrid,
        "voxel_kinds": VoxelKinds,
        "cppn": PatternBody,
    },
)
CONTROLLERS: Registry[type[BaseModel]] = Registry(
    "evolved controller",
    {
        "sine": EvolvedSine,
        "development": EvolvedDevelopment,
        "mlp": MLPWeights,
        "sine_by_material": SineByMaterial,
        "sine_cppn": SineCPPN,
        "oscillators": EvolvedOscillators,
        "recurrent": RecurrentWeights,
        "distributed": DistributedWeights,
        "policy": PolicyWeights,
    },
)

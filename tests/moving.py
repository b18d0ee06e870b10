"""A recording that was never simulated: a row of voxels that swings and creeps along. For tests of what is shown."""

import numpy as np

from vsr.drawing.recording import Felt, Recording
from vsr.experiments.config import parse_scene
from vsr.experiments.play.recordings import RecordedRobot
from vsr.physics.engine import ENGINES

SIDE, VOXELS = 3.0, 3


def moving_robot(name="mover", *, dimension=2, squares=False, seconds=4.0):
    """dimension: 2 or 3; squares: of square masses, each its own part, rather than of points; 30 moments a second."""
    time = np.arange(round(30 * seconds) + 1) / 30
    sinusoid = np.sin(2 * np.pi * (time[:, None] + np.arange(VOXELS + 1) / 4))
    bits = np.array([[corner >> axis & 1 for axis in range(dimension)] for corner in range(2**dimension)])
    corner = np.arange(VOXELS)[:, None, None] * np.eye(dimension)[0] + bits
    rest = SIDE * corner.reshape(-1, dimension) + 0.5
    column = (corner[..., 0].reshape(-1) + 0.5).astype(int)
    position = np.broadcast_to(rest, (len(time), *rest.shape)).copy()
    position[..., 0] += 50 + time[:, None]  # away from the wall where the ground begins
    position[..., -1] += 0.5 * sinusoid[:, column] * (rest[:, -1] > 1)  # the upper side swings, the lower one stays
    parts = len(rest)
    recording = Recording(
        time=time,
        position=position,
        angle=0.3 * sinusoid[:, column] if squares else None,
        ratio=1 + 0.2 * sinusoid[:, :VOXELS],
        control=-sinusoid[:, :VOXELS],
        contact=sinusoid[:, :VOXELS] > 0,
        velocity=np.ones((len(time), VOXELS, dimension)),
        part=np.arange(parts).reshape(VOXELS, -1),
        offset=np.zeros((VOXELS, 2**dimension, dimension)),
        half_side=np.full(VOXELS, 0.4 if squares else 0.0),
        springs=np.ones((VOXELS, 4 if squares else dimension), bool),
        spring_ends=tuple(ENGINES["squares" if squares else "points"].spring_ends(dimension)),
        material=np.arange(VOXELS) % 2,
        place=np.arange(VOXELS)[:, None] * np.eye(dimension, dtype=int)[0],
        voxel_side=SIDE,
        failed=False,
        felt=(
            Felt("area ratio", "", 1.0, 1 + 0.2 * sinusoid[:, :VOXELS], np.ones(VOXELS, bool)),
            Felt("velocity x", "m/s", 0.0, -sinusoid[:, :VOXELS], np.arange(VOXELS) > 0),
        ),
    )
    shape = "[[aba]]" if dimension == 3 else "[aba]"
    masses = "" if squares else ", engine: points"
    scene = parse_scene(f"robot: {{body: {{shape: {shape}, materials: {{a: {{}}, b: {{}}}}{masses}}}}}")
    return RecordedRobot(name, scene, recording, {})

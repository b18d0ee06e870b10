"""Steps per CPU-second of EvoGym itself: Walker-v0, a full 5 x 5 body, random actions, nothing rendered, one process.

For Python 3.10, of which EvoGym has wheels: pip install evogym==2.0.0; python evogym_rate.py evogym.json
`vsr bench environments --scene walker-evogym` measures the same here.
"""

import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import evogym.envs  # noqa: F401  # pyright: ignore[reportMissingImports]
import gymnasium
import numpy as np

STEPS, REPEATS = 1000, 5
HORIZONTAL = 3
"""EvoGym's number of a horizontal actuator."""


def steps_per_second(seed: int) -> float:
    env = gymnasium.make("Walker-v0", body=np.full((5, 5), HORIZONTAL))
    random = np.random.default_rng(seed)
    env.reset(seed=seed)
    begun = time.process_time()
    for _ in range(STEPS):
        *_, ended, truncated, _ = env.step(random.uniform(0.6, 1.6, env.action_space.shape))
        if ended or truncated:
            env.reset(seed=seed)
    return STEPS / (time.process_time() - begun)


if __name__ == "__main__":
    rates = [steps_per_second(seed) for seed in range(REPEATS)]
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
    found = {
        "command": "python evogym_rate.py FILE",
        "date": time.strftime("%Y-%m-%d"),
        "evogym": version("evogym"),
        "python": platform.python_version(),
        "processor": processor.strip(),
        "precision": "float64",
        "steps_per_cpu_s": [round(rate, 1) for rate in rates],
        "median": round(float(np.median(rates)), 1),
    }
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")

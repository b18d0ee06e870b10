"""Run folders that grow without any evolution, for tests of what follows them."""

import json

from conftest import TINY

ROBOT = "robot: {body: {shape: aa}, controller: sine}\ntask: {placement: {clearance: 0.0}}\n"
"""What best/ holds."""


def begin_run(folder, experiment=TINY):
    """As `vsr evolve` leaves it before the first generation; by default two seeds of five generations."""
    for name in ("best", "lineage", "checkpoints"):
        (folder / name).mkdir(parents=True)
    (folder / "meta.json").write_text('{"plugins": {}, "starts": []}')
    (folder / "config.yaml").write_text(experiment)
    return folder


def statistics(generation, seeds=(0, 1), *, best=None, failed=0, seconds=0.5):
    """Lines of one generation; seconds: that it took; best: of each seed, None for one whose robots all failed."""
    values = best or [0.1 * (generation + 1) + seed for seed in seeds]
    rows = (
        {
            "generation": generation,
            "seed": seed,
            "best": value,
            "median": None if value is None else value / 2,
            "failed": failed,
            "evaluations": 6 * (generation + 1),
            "best_id": 6 * generation,
            "seconds": seconds,
        }
        for seed, value in zip(seeds, values, strict=True)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def add_generation(folder, generation, **more):
    """Written as the run writes it."""
    with (folder / "statistics.jsonl").open("a") as file:
        file.write(statistics(generation, **more))


def put_best(folder, seed, individual, robot=ROBOT, value=0.5):
    """A checkpoint's robot; value: what it reached."""
    text = f"# best of seed {seed}: individual {individual}, relative_velocity {value}\n{robot}"
    (folder / "best" / f"seed-{seed}.yaml").write_text(text)

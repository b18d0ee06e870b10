"""What people see in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from vsr.scene import Outcome, Scene

UNITS = {"travel_velocity": "m/s", "relative_velocity": "1/s", "average_height": "m", "average_squared_control": ""}


def show_outcome(name: str, scene: Scene, outcome: Outcome, out: str | None) -> None:
    """Measures of one simulation as a small table."""
    schedule = outcome.schedule
    console = Console()
    console.print(
        f"{name}: {int(scene.robot.body.present.sum())} voxels, {schedule.total_time:.2f} s, "
        f"{schedule.steps} steps of {schedule.substeps} substeps, {scene.physics.precision}",
        highlight=False,
        soft_wrap=True,
    )
    table = Table(box=None, show_header=False)
    for measure, value in outcome.measures.items():
        table.add_row(measure, f"{value:.6g}", UNITS.get(measure, ""))
    console.print(table)
    if outcome.failed:
        console.print("failed: the state stopped being finite or exploded", style="red")
    if out:
        console.print(f"drawn in {out}", highlight=False, soft_wrap=True)

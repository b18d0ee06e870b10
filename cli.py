"""The `vsr` command. Each subcommand imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import sys

import click


class _Commands(click.Group):
    """A group whose commands never show a traceback for what a user can mend."""

    def invoke(self, ctx: click.Context):
        try:
            return super().invoke(ctx)
        except Exception as error:
            problems = sys.modules.get("experiments.config.problems")
            if problems is not None and isinstance(error, problems.UserError):
                click.echo(str(error), err=True)
                ctx.exit(2)
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vsr")
def main() -> None:
    """Simulate and evolve voxel-based soft robots."""


@main.command()
@click.argument("robot", metavar="ROBOT.yaml")
@click.option("--json", "as_json", is_flag=True, help="Print the measures as JSON.")
@click.option("--out", metavar="FILE.gif|.png", help="Draw the motion: a GIF, or a PNG strip of five moments.")
def simulate(robot: str, as_json: bool, out: str | None) -> None:
    """Simulate one robot in its world and print how it did."""
    from experiments import simulate as work
    from experiments.terminal import show_outcome

    scene, outcome = work.run(robot, out)
    if as_json:
        click.echo(work.as_json(scene, outcome))
    else:
        show_outcome(robot, scene, outcome, out)


@main.command()
@click.option("--reference", metavar="DIR", help="Folder of reference data; without it, the small set that is shipped.")
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON.")
@click.option("--plots", metavar="DIR", help="Redraw Figures 5 and 6 of the paper, with the original's points.")
def validate(reference: str | None, json_file: str | None, plots: str | None) -> None:
    """Compare the physics with data of the original simulator."""
    from experiments.validation import validate_command

    validate_command(reference, json_file, plots)


if __name__ == "__main__":
    main()

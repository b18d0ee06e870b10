"""The `vsr` command, also as `python -m vsr`: it hears Ctrl-C before it loads anything else."""

from vsr.experiments.stopping import listen


def main() -> None:
    """Run the command line."""
    listen()
    from vsr.cli import main as commands

    commands()


if __name__ == "__main__":
    main()

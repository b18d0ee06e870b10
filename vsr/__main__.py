"""`python -m vsr`: the `vsr` command."""

from vsr.cli import main

if __name__ == "__main__":
    main()

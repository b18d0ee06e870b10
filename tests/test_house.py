"""The house rules that a machine can hold: who may import whom, and what help may load."""

import ast
import subprocess
import sys

import pytest
from conftest import ROOT

MAY_IMPORT = {"vsr": {"vsr"}, "evo": {"evo"}, "experiments": {"vsr", "evo", "experiments"}, "cli": {"experiments"}}
OURS = set(MAY_IMPORT)


def imported_names(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def source_files():
    yield "cli", ROOT / "cli.py"
    for room in ("vsr", "evo", "experiments"):
        for path in sorted((ROOT / room).rglob("*.py")):
            yield room, path


@pytest.mark.parametrize(("room", "path"), list(source_files()), ids=lambda value: str(value).removeprefix(f"{ROOT}/"))
def test_rooms_import_only_their_neighbours(room, path):
    used = {name.split(".")[0] for name in imported_names(path)} & OURS
    assert used <= MAY_IMPORT[room]


def test_help_does_not_load_jax():
    code = (
        "import sys; from click.testing import CliRunner; import cli; "
        "result = CliRunner().invoke(cli.main, ['--help']); "
        "assert result.exit_code == 0 and 'simulate' in result.output; sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_every_public_name_exists():
    import vsr

    assert all(getattr(vsr, name) is not None for name in vsr.__all__)
    with pytest.raises(AttributeError, match="Robott"):
        vsr.Robott  # noqa: B018

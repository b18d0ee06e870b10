"""The house rules that a machine can hold: who may import whom, and what help may load."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest
from conftest import ROOT

MAY_IMPORT = {
    "vsr.evo": {"vsr.evo"},
    "vsr.experiments": {"vsr", "vsr.evo", "vsr.experiments"},
    "vsr.evidence": {"vsr", "vsr.evo", "vsr.experiments", "vsr.evidence"},
    "vsr.cli": {"vsr.experiments", "vsr.evidence"},
    "vsr": {"vsr"},
}
"""Parts of the package, and the parts that each may import; `vsr` is the simulator: everything else."""
AT_THE_TOP = {"evo": "vsr/evo", "experiments": "vsr/experiments", "configs": "vsr/configs", "cli.py": "vsr/cli.py"}
"""Links for people, into the package."""

LAYERS = (
    ("spec", "display", "compute", "arrays"),
    ("terrain", "environment", "sdf", "robot", "lattice"),
    ("physics",),
    ("sensors", "controllers"),
    ("world",),
    ("tasks",),
    ("episode", "gradients", "scene", "randomization"),
    ("drawing", "envs"),
    ("evo",),
    ("experiments",),
    ("evidence",),
    ("cli",),
)
"""Layers of the package, the lowest first: a layer imports itself and lower ones."""
WHEN_BUILT = {("vsr.terrain.sand", "physics")}
"""A description that makes a system of its own imports what moves it when that is built."""


def imported_names(path):
    """Every module and name that a file imports, and whether it does so at its top."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.col_offset == 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", node.col_offset == 0) for alias in node.names)


def source_files(folder):
    return sorted(path for path in (ROOT / folder).rglob("*.py") if path.name != "__main__.py")


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def part_of(name):
    """The part of the package that a module is of; "vsr" for the simulator."""
    return next((part for part in MAY_IMPORT if f"{name}.".startswith(f"{part}.")), None)


def test_parts_import_only_their_neighbors():
    wrong = []
    for path in source_files("vsr"):
        for name, _ in imported_names(path):
            assert name.split(".")[0] not in ("evo", "experiments", "cli"), f"{module_of(path)}: import vsr.{name}"
            if part_of(name) and part_of(name) not in MAY_IMPORT[part_of(module_of(path))]:
                wrong.append(f"{module_of(path)} imports {name}")
    assert not wrong


def test_links_at_the_top_lead_into_the_package():
    for name, target in AT_THE_TOP.items():
        assert (ROOT / name).is_symlink()
        assert (ROOT / name).resolve() == ROOT / target


def test_imports_only_lead_down():
    layer = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
    wrong = []
    for path in source_files("vsr"):
        room = module_of(path).split(".")[1]
        if room == "__init__":
            continue
        assert room in layer, f"vsr.{room} is in no layer: add it to LAYERS"
        for name, _ in imported_names(path):
            used = name.split(".")[1] if name.startswith("vsr.") else ""
            if layer.get(used, 0) > layer[room] and (module_of(path), used) not in WHEN_BUILT:
                wrong.append(f"{module_of(path)} imports {name}")
    assert not wrong


def test_no_folder_imports_in_a_circle():
    """Between the modules and folders right below each folder, imports at the top of files make no circle."""
    wrong = []
    for folder in [ROOT / "vsr", *(path for path in (ROOT / "vsr").rglob("*") if (path / "__init__.py").exists())]:
        prefix = module_of(folder) + "."
        uses = {}
        for path in source_files(folder.relative_to(ROOT)):
            room = (module_of(path).removeprefix(prefix)).split(".")[0]
            if room != "__init__":  # a face shows its rooms
                names = [name for name, at_top in imported_names(path) if at_top and name.startswith(prefix)]
                uses.setdefault(room, set()).update(name.removeprefix(prefix).split(".")[0] for name in names)
        try:
            tuple(TopologicalSorter({room: used - {room} for room, used in uses.items()}).static_order())
        except CycleError as error:
            wrong.append(f"{prefix[:-1]}: {' > '.join(error.args[1])}")
    assert not wrong


def test_engines_do_not_know_each_other():
    for wing, other in (("squares", "points"), ("points", "squares"), ("contact", "squares"), ("contact", "points")):
        for path in source_files(f"vsr/physics/{wing}"):
            used = [name for name, _ in imported_names(path) if name.startswith(f"vsr.physics.{other}")]
            assert not used, f"{module_of(path)} imports {used}"


def test_only_the_engines_tell_masses_apart():
    """What depends on the kind of masses is asked of the engine or of the table of kinds, never compared."""
    for path in source_files("vsr"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = {ast.unparse(side) for side in (node.left, *node.comparators)}
                assert not sides & {"'squares'", "'points'", "'evogym'"}, f"{module_of(path)}:{node.lineno}"


def test_descriptions_of_bodies_load_no_jax():
    code = "import sys, vsr.robot; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_help_does_not_load_jax():
    code = (
        "import sys; from click.testing import CliRunner; import vsr.cli as cli; "
        "result = CliRunner().invoke(cli.main, ['--help']); "
        "assert result.exit_code == 0 and 'simulate' in result.output; sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_every_public_name_exists():
    import vsr

    assert all(getattr(vsr, name) is not None for name in vsr.__all__)
    with pytest.raises(AttributeError, match="Robott"):
        vsr.Robott  # noqa: B018


@pytest.mark.slow
def test_commands_load_what_they_need():
    """What takes long to load and few commands use is loaded by those."""
    code = (
        "import sys, vsr.experiments.sweep.command, vsr.experiments.plot.comparison, vsr.experiments.terminal; "
        "print(*sorted({'matplotlib', 'scipy', 'jax.experimental.pallas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_reports_load_no_scipy():
    code = "import sys, vsr.experiments.report.command; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0

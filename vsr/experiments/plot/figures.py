"""Style of all figures, from one style file (paper.mplstyle), and how they are saved."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsr.experiments.config.problems import UserError
from vsr.experiments.formatting import UNITS
from vsr.experiments.storage.files import write_atomically

if TYPE_CHECKING:  # it takes a second to load
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")


def paper_style(changes: dict[str, Any] | None = None) -> AbstractContextManager[None]:
    """While it is open, figures look as they should in print; changes: settings of matplotlib that go before."""
    import matplotlib

    file = str(files("vsr.experiments") / "paper.mplstyle")
    settings: Any = matplotlib.rc_params_from_file(file, use_default_template=False)
    settings.update(changes or {})
    return matplotlib.rc_context(settings)


def save_figure(figure: Figure, target: Path) -> None:
    """A whole PNG, PDF or SVG, or nothing."""
    kind = target.suffix[1:].lower()
    try:
        write_atomically(target, lambda file: figure.savefig(file, format=kind, metadata=_without_date(kind)))
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None


def with_unit(measure: str) -> str:
    """A measure in words, with its unit if it has one."""
    unit = UNITS.get(measure, "")
    return measure.replace("_", " ") + (f" [{unit}]" if unit else "")


def _without_date(kind: str) -> dict[str, None]:
    """The same figure gives the same file."""
    return {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})

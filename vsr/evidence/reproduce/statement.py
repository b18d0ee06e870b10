"""Claims stated before the first experiment runs: `claims.md` in the folder of a study, with a checksum.

It has the claims, their tests, families and correction, and how much is computed. The report repeats the checksum, and
reports where it is not that of the claims it judges, or where runs are older than the statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from vsr.evidence.reproduce.tables import markdown
from vsr.experiments.claims import SIGNIFICANT, Claim
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import ranges_of
from vsr.experiments.ranks import RESAMPLES
from vsr.experiments.storage.files import write_text
from vsr.experiments.study import StudyFile

CLAIMS = "claims.md"
NAMES = ("text", "family", "type")
BEFORE_DIGEST = "sha256 of the lines above: "


def state_claims(file: StudyFile, scale: str, experiments: dict[str, Experiment], folder: Path, begun: bool) -> None:
    """Write the statement, unless there is one; begun: whether an experiment has been run already.

    experiments: those of the scale. Claims that are stated after the fact are marked as such.
    """
    if not (folder / CLAIMS).exists():
        lines = list(_statement(file, scale, experiments))
        if begun:
            lines += ["**Stated after some experiments were run.**", ""]
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / CLAIMS, _signed(lines))


def statement_lines(file: StudyFile, scale: str, experiments: dict[str, Experiment], folder: Path) -> list[str]:
    """What the report says about the statement: its checksum, and where it differs from what is judged."""
    try:
        text = (folder / CLAIMS).read_text(encoding="utf-8")
    except OSError:
        return [
            f"**Warning:** there is no `{CLAIMS}`: these claims were not stated before the experiments were run.",
            "",
        ]
    body, _, digest = text.rstrip("\n").rpartition(BEFORE_DIGEST)
    found = [f"Stated before the experiments were run in [`{CLAIMS}`]({CLAIMS}), sha256 `{digest}`.", ""]
    if digest != _digest(body):
        found += [f"**Warning:** `{CLAIMS}` is not as it was written.", ""]
    stated = "\n".join(_statement(file, scale, experiments))
    if not body.startswith(stated):
        found += [f"**Warning:** the claims, tests or experiments below are not those of `{CLAIMS}`.", ""]
    elif body.rstrip("\n") != stated.rstrip("\n"):
        found[0] = f"Stated in [`{CLAIMS}`]({CLAIMS}), sha256 `{digest}`, after some experiments were run."
    return found


def rules_of(claims: tuple[Claim, ...]) -> Iterator[str]:
    """How each kind of claim is tested, as a list."""
    rules = {str(getattr(claim, "type", "")): (type(claim).__doc__ or "").split("\n\n")[-1].split() for claim in claims}
    yield from (f"- `{kind}`: {' '.join(rule)}" for kind, rule in rules.items())


def _test_of(claim: Claim) -> str:
    """Its kind, and the values that its test uses."""
    values = {name: getattr(claim, name) for name in type(claim).model_fields if name not in NAMES}
    given = [f"{name} {value}" for name, value in values.items() if value is not None and value not in claim.needs]
    return " ".join([str(getattr(claim, "type", "")), *([f"({', '.join(given)})"] if given else [])])


def _statement(file: StudyFile, scale: str, experiments: dict[str, Experiment]) -> Iterator[str]:
    study = file.study
    yield from (f"# Claims of the study: {study.title}", "", study.about, "", f"Scale `{scale}`.", "")
    yield from markdown(
        ["experiment", "seeds", "robots x generations", "fitness that counts"],
        [
            [
                name,
                f"{len(one.seeds)}: {ranges_of(one.seeds)}",
                f"{one.optimizer.population_size} x {one.generations}",
                f"{one.fitness.direction} {one.fitness.measure}: "
                + (one.evaluation.confirmation or one.evaluation.summary or "one episode, as the search has it"),
            ]
            for name, one in experiments.items()
        ],
    )
    yield ""
    yield from markdown(
        ["claim", "test", "experiments", "family"],
        [[claim.text, _test_of(claim), ", ".join(claim.needs), claim.family or "all"] for claim in study.claims],
    )
    yield from ("", "Tests, always over seeds:", "")
    yield from rules_of(study.claims)
    yield from (
        "",
        f"Within a family p is corrected by Holm's method. Below {SIGNIFICANT} a claim is `supported` if the "
        "difference is as claimed and `contradicted` if it is the opposite; otherwise it is `not significant`. Effects "
        f"are Vargha and Delaney's A with bootstrap intervals of 95 % ({RESAMPLES:,} resamples, fixed seed).",
        "",
    )


def _signed(lines: list[str]) -> str:
    body = "\n".join(lines) + "\n"
    return f"{body}{BEFORE_DIGEST}{_digest(body)}\n"


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()

"""The work of `vsr reproduce`: run a study's experiments one after the other, then write down what they came to.

Every experiment is an ordinary run folder, DIR/STUDY/EXPERIMENT, so that a study that was stopped or killed goes on
where it was, and what is finished is not run again.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image
from rich.console import Console

from vsr.evidence.reproduce.exchange import exchange, read_exchange
from vsr.evidence.reproduce.exchange_report import BODIES, keep_winners
from vsr.evidence.reproduce.report import REPORT, write_study, write_summary
from vsr.evidence.reproduce.robots import TRIALS, keep_best, read_repeats, read_robustness
from vsr.evidence.reproduce.statement import state_claims, statement_lines
from vsr.evidence.reproduce.stored import read_copied
from vsr.evidence.reproduce.transfer import Checked, check_winners, read_checked
from vsr.experiments.claims import Claim, Result, Verdict
from vsr.experiments.config import dump_yaml, run_plugins_of
from vsr.experiments.config.problems import UserError
from vsr.experiments.console import say
from vsr.experiments.devices import prepare
from vsr.experiments.evolve.command import Stopped, evolve, read_options
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import COMMAND
from vsr.experiments.options import EvolveOptions, ReproduceOptions
from vsr.experiments.processes import Work, run_processes
from vsr.experiments.stopping import EXIT_CODE, on_interrupt
from vsr.experiments.storage.files import replace_when_closed, write_text
from vsr.experiments.storage.robots import BEST
from vsr.experiments.storage.run_folder import is_run
from vsr.experiments.storage.runs import Run, read_run
from vsr.experiments.storage.settings import CONFIG
from vsr.experiments.study import StudyFile, find_studies
from vsr.spec import suggest


@dataclass(frozen=True)
class Job:
    """One experiment to run."""

    file: StudyFile
    name: str
    options: EvolveOptions
    repeats: int
    factors: tuple[int, ...]

    @property
    def run(self) -> Path:
        return Path(str(self.options.out))


def reproduce(options: ReproduceOptions) -> Path:
    """Run what is asked for and write the reports; returns the folder they are in."""
    files = [replace(file, engine=options.engine) for file in find_studies(options.study)]
    folder = Path(options.out) if options.out else Path("runs") / f"{options.scale}-studies"
    if options.copy is not None and Path(options.copy).resolve() == folder.resolve():
        raise UserError(f"--copy {options.copy}: the runs are there already; give another folder")
    jobs = plan(files, options, folder)
    console = Console()
    if options.report_only:
        for job in jobs:  # what the user's own files name, so that their runs can be read as a whole
            if job.file.file(job.name).is_file():
                run_plugins_of(job.file.file(job.name))
        _look_at_all(jobs, options, folder, console)
        if options.no_report:
            return folder
    else:
        # All that can be wrong is reported before anything runs.
        experiments = [read_options(job.options)[0] for job in jobs]
        for file in (file for file in files if file.study.claims):
            begun = any(is_run(folder / file.name / name) for name in file.study.experiments)
            state_claims(file, options.scale, _of_scale(file, options), folder / file.name, begun)
        if options.jobs > 1:
            both = zip(jobs, experiments, strict=True)
            left = [(job, own) for job, own in both if not _finished(job.run, own)]
            _at_once(longest_first(left), options, folder, "--no-report", *(["--resume"] if options.resume else []))
        else:
            prepare(options.device)
            with _stoppable():
                _run(jobs, experiments, options, folder, console)
        if options.no_report:
            return folder
        _look_at_all(jobs, options, folder, console)
        with _stoppable():
            for file in files:
                if file.study.exchange is not None:
                    _exchange(file, options, folder, console)
    judged = [(file, verdicts) for file in files if (verdicts := _write(file, options, folder, jobs)) is not None]
    if not judged:
        raise UserError(f"{folder}: there is no run in it; leave --report out to begin")
    if len(files) > 1:
        write_summary(folder, judged)
    if options.copy is not None:
        for file, _ in judged:
            copy_results(folder / file.name, Path(options.copy), file, options.scale)
    for file, verdicts in judged:
        for claim, verdict in verdicts:
            shown = "; ".join(part for part in (verdict.evidence, verdict.effect and f"A {verdict.effect}") if part)
            corrected = f", p (Holm) {verdict.p}" if verdict.p else ""
            _say(console, f"{verdict.holds:15} {claim.text}: {shown}{corrected}")
        _say(console, f"report: {folder / file.name / REPORT}")
    return folder


def _at_once(jobs: Sequence[Job], options: ReproduceOptions, folder: Path, *more: str) -> None:
    """The same command for each experiment, in processes of their own; more: options of theirs."""
    works = {}
    for job in jobs:
        given = ["--scale", options.scale, "--only", job.name, "--out", str(folder), *more]
        given += [part for setting in options.settings for part in ("--set", setting)]
        given += [] if options.device is None else ["--device", options.device]
        given += [] if options.engine is None else ["--engine", options.engine]
        job.run.parent.mkdir(parents=True, exist_ok=True)
        log = job.run.with_suffix(".log")
        works[f"{job.file.name}/{job.name}"] = Work([*COMMAND, "reproduce", str(job.file.path), *given], log)
    if not works:
        return
    codes, stopped = run_processes(works, options.jobs)
    failed = [name for name, code in codes.items() if code not in (0, EXIT_CODE)]
    if stopped:
        raise Stopped(f"stopped; what is finished is kept: to go on, {_again()}")
    if failed:
        raise UserError(f"{', '.join(failed)}: failed, see the output in {works[failed[0]].log}; to go on, {_again()}")


def _look_at_all(jobs: Sequence[Job], options: ReproduceOptions, folder: Path, console: Console) -> None:
    """Simulate winners again; with --jobs in processes of their own, so that nothing is left to do here."""
    if options.jobs > 1:
        seen = [job for job in jobs if job.file.study.exchange is None and is_run(job.run)]
        _at_once(seen, options, folder, "--report-only", "--no-report")
    prepare(options.device)
    with _stoppable():
        for job in jobs:
            _look_again(job, console)


def _stoppable() -> AbstractContextManager[None]:
    return on_interrupt(f"stopped; what is finished is kept: to go on, {_again()}")


def _run(
    jobs: Sequence[Job], experiments: Sequence[Experiment], options: ReproduceOptions, folder: Path, console: Console
) -> None:
    for number, (job, experiment) in enumerate(zip(jobs, experiments, strict=True), 1):
        _say(console, f"{job.file.name}/{job.name} ({number} of {len(jobs)})")
        _evolve(job, experiment, console)
        if not options.no_report:
            _look_again(job, console)
            _write(job.file, options, folder, jobs)


def _again() -> str:
    """The command that goes on with what was stopped."""
    words = ["vsr", *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])


def copy_results(home: Path, results: Path, file: StudyFile, scale: str) -> None:
    """Copy a study's page, figures, tables and best robots without its runs, of which only the settings are copied.

    Pictures are copied with a palette, which makes them a third as large.
    The study is written beside them with one scale, as it was run: `--report-only` makes the page from this copy again.
    """
    target = results / file.name
    (target / BEST).mkdir(parents=True, exist_ok=True)
    files = [path for folder in (home, home / BEST) if folder.is_dir() for path in sorted(folder.iterdir())]
    for path in files:
        if path.is_file() and path.suffix != ".pdf":
            _copy(path, target / path.relative_to(home))
    for name in file.study.experiments:
        if is_run(home / name):
            shutil.copyfile(home / name / CONFIG, target / f"{name}.yaml")
    members = {
        name: member.model_copy(update={"file": f"{file.name}/{name}.yaml", "set": ()})
        for name, member in file.study.experiments.items()
    }
    as_run = file.scale(scale).model_copy(update={"set": (), "set_for": {}})
    study = file.study.model_copy(update={"experiments": members, "scales": {scale: as_run}})
    write_text(results / f"{file.name}.yaml", dump_yaml(study))


def _copy(path: Path, target: Path) -> None:
    if path.suffix != ".png":
        shutil.copyfile(path, target)
        return
    with Image.open(path) as picture, replace_when_closed(target) as partial_file:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        small.save(partial_file, format="PNG", optimize=True)


def plan(files: Sequence[StudyFile], options: ReproduceOptions, folder: Path) -> list[Job]:
    """The experiments to run, in their order."""
    known = [name for file in files for name in file.study.experiments]
    rows = {member.row for file in files for member in file.study.experiments.values() if member.row is not None}
    if unknown := [name for name in options.only if name not in known]:
        raise UserError(f"--only {unknown[0]}: there is no such experiment{suggest(unknown[0], known)}")
    tasks = [name.strip() for name in (options.tasks or "").split(",") if name.strip()]
    if unknown := [name for name in tasks if name not in rows]:
        raise UserError(f"--tasks {unknown[0]}: there is no such row of published scores{suggest(unknown[0], rows)}")
    jobs = []
    for file in files:
        scale = file.scale(options.scale)
        members = file.study.experiments
        of_tasks = tuple(name for name, member in members.items() if member.row in tasks)
        requested = (*options.only, *of_tasks) or scale.experiments or tuple(members)
        for name in (name for name in dict.fromkeys(requested) if name in members):
            try:
                settings = file.settings(name)
            except UserError as error:  # a task that this engine cannot have
                if options.engine is None or name in options.only:
                    raise
                say(f"{name}: left out: {error}")
                continue
            evolve_options = EvolveOptions(
                str(file.file(name)),
                (*settings, *scale.settings(name), *options.settings),
                out=str(folder / file.name / name),
                resume=options.resume,
                device=options.device,
            )
            jobs.append(Job(file, name, evolve_options, scale.repeats, scale.factors))
    return jobs


def _evolve(job: Job, experiment: Experiment, console: Console) -> None:
    if _finished(job.run, experiment):
        _say(console, f"{job.run}: already finished")
        return
    try:
        evolve(replace(job.options, resume=is_run(job.run)))
    except Stopped as stopped:
        raise Stopped(f"{stopped}\nor, for all that was asked: {_again()}") from None


def _look_again(job: Job, console: Console) -> None:
    """Simulate the best robots of a run again, also of one that is not finished; not what is known already."""
    study, best = job.file.study, job.run.parent / BEST
    if study.exchange is not None:  # all winners are simulated together at the end
        return
    try:
        run = read_run(job.run)
    except UserError:  # no generation yet
        return
    if study.transfer is None:
        keep_best(run, best, job.name, job.repeats, job.factors)
    elif read_checked(run, best, job.name) is None:
        _say(console, f"{job.run}: its winners again, there and in the physics of {', '.join(study.transfer.engines)}")
        check_winners(run, best, job.name, job.repeats, study.transfer.engines)


def _exchange(file: StudyFile, options: ReproduceOptions, folder: Path, console: Console) -> None:
    """Try all winners in all worlds, once all experiments of the scale are finished."""
    assert file.study.exchange is not None
    home, scale = folder / file.name, file.scale(options.scale)
    runs = _finished_runs(file, options.scale, home)
    if runs is None:
        _say(console, f"{file.name}: winners are exchanged when all experiments are finished")
        return
    if read_exchange(runs, home) is None:
        (home / BODIES).unlink(missing_ok=True)  # pictures are those of other robots
    found = exchange(runs, home, scale.factors, min(scale.repeats, TRIALS), partial(_say, console))
    if not (home / BODIES).exists():
        labels = {name: member.label for name, member in file.study.experiments.items()}
        keep_winners(runs, found, labels, file.study.exchange.film, home, home / BEST)


def _read(home: Path, name: str) -> Run:
    """An experiment's run, or what was copied of it; raises UserError if neither is there."""
    copied = None if is_run(home / name) else read_copied(home, name)
    return read_run(home / name) if copied is None else copied


def _finished_runs(file: StudyFile, scale: str, home: Path) -> dict[str, Run] | None:
    """All runs of a scale, None unless all are finished."""
    wanted = file.scale(scale).experiments or tuple(file.study.experiments)
    runs = {}
    for name in wanted:
        try:
            runs[name] = _read(home, name)
        except UserError:
            return None
    return runs if all(run.is_finished for run in runs.values()) else None


def longest_first(jobs: Sequence[tuple[Job, Experiment]]) -> list[Job]:
    """By the control steps of all episodes, so that no long one is left alone in the end."""

    def steps(experiment: Experiment) -> float:
        return experiment.episodes() * experiment.schedule().calls * experiment.generations * len(experiment.seeds)

    return [job for job, _ in sorted(jobs, key=lambda both: -steps(both[1]))]


def _finished(path: Path, experiment: Experiment) -> bool:
    try:
        return is_run(path) and read_run(path).generations == experiment.generations
    except UserError:  # no generation yet
        return False


def _write(
    file: StudyFile, options: ReproduceOptions, folder: Path, jobs: Sequence[Job]
) -> list[tuple[Claim, Verdict]] | None:
    """The report of all of a study's runs that are there; None if there are none."""
    results: dict[str, Result] = {}
    warnings: list[str] = []
    checked: dict[str, Checked] = {}
    home = folder / file.name
    runs = _finished_runs(file, options.scale, home) if file.study.exchange is not None else None
    found = None if runs is None else read_exchange(runs, home)
    for name, member in file.study.experiments.items():
        try:
            run = _read(home, name)
        except UserError as error:
            warnings += [" ".join(str(error).split())] if is_run(home / name) else []
            continue
        if found is not None and name in found.names:
            robustness = found.robustness(name)
            repeats = robustness.refined[:, 0]
        else:
            repeats = read_repeats(run, home / BEST, name)
            robustness = read_robustness(run, home / BEST, name)
        results[name] = Result(name, member.label, run, repeats, robustness, found)
        if file.study.transfer is not None and (seen := read_checked(run, home / BEST, name)) is not None:
            checked[name] = seen
        warnings += _warnings(name, run)
    warnings += _other_settings([job for job in jobs if job.file is file and is_run(job.run)])
    if not results:
        return None
    statement = statement_lines(file, options.scale, _of_scale(file, options), home) if file.study.claims else ()
    return write_study(file, options.scale, results, home, warnings, statement, checked)


def _of_scale(file: StudyFile, options: ReproduceOptions) -> dict[str, Experiment]:
    """All experiments of a scale, whichever are run now."""
    scale = file.scale(options.scale)
    names = scale.experiments or tuple(file.study.experiments)
    there = [name for name in names if file.file(name).is_file()]
    return {name: file.experiment(name, (*scale.settings(name), *options.settings)) for name in there}


def _warnings(name: str, run: Run) -> list[str]:
    warning = f"{name} is not finished: {run.generations} of {run.experiment.generations} generations"
    return [*run.warnings, *([] if run.is_finished else [warning])]


def _other_settings(jobs: Sequence[Job]) -> list[str]:
    """Which runs are not what the study's file asks for now."""
    warnings = []
    for job in jobs:
        try:
            read_options(replace(job.options, resume=True))
        except UserError as error:
            warnings.append(" ".join(str(error).split()))
    return warnings


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)

"""What `vsr report` says: every part of the page against what the run folder holds, and what it refuses."""

import fcntl
import html
import json
import re
import shutil
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from growing import put_meta, put_statistics

import vsr.cli as cli
from vsr.experiments.config.problems import UserError
from vsr.experiments.play.recordings import read_sources
from vsr.experiments.report import page as page_module
from vsr.experiments.report import sections
from vsr.experiments.report.charts import descent_chart, draw_body, room_for
from vsr.experiments.report.findings import find_out
from vsr.experiments.report.markup import SERIES, table, tag
from vsr.experiments.storage.files import write_arrays
from vsr.experiments.storage.lineage import Lineage, descent_of_best
from vsr.experiments.storage.runs import read_run
from vsr.robot import Body

pytestmark = pytest.mark.usefixtures("quickly_compiled")

ROBOT = (
    "robot: {body: {shape: aa, engine: points}, controller: sine}\ntask: {duration: 0.6, placement: {clearance: 0.0}}\n"
)
VOID = {"meta", "br", "img", "input"}
GENERATIONS, SIZE = 3, 6
COMMAND = "vsr evolve tiny.yaml --out '<run>'"


class Reader(HTMLParser):
    """Holds that every element is closed, and gathers ids, links, frames and headings."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.frames, self.headings, self.faults = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[key] for key in ("href", "src", "xlink:href") if key in given]
        self.frames += [given["srcdoc"]] if "srcdoc" in given else []
        if name == "svg" and not given.get("aria-label"):
            self.faults.append(self.getpos())
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        if name not in VOID:
            self.open.pop()

    def handle_endtag(self, name):
        assert self.open.pop() == name, self.getpos()

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)


LABEL = {"first": 0, "count": GENERATIONS}
"""Of the piece of lineage."""


def rows_of(best=0.25, diverse=True):
    """Seed 1 is the better one."""
    for generation in range(GENERATIONS):
        for seed in range(2):
            row = {"generation": generation, "seed": seed, "best": None, "median": None, "failed": generation}
            if best is not None:
                row |= {"best": best + seed + 0.1 * generation, "median": 0.1, "seconds": 0.5}
            yield row | ({"spread": 1.5 - 0.1 * generation, "bodies": 1} if diverse else {})


def make_run(folder, *, best=0.25, diverse=True, lineage=True, seeds=2, config=TINY):
    for name in ("best", "lineage"):
        (folder / name).mkdir(parents=True)
    (folder / "config.yaml").write_text(config.replace("generations: 5\n", f"generations: {GENERATIONS}\n"))
    start = {"generation": 0, "command": COMMAND, "commit": "0123456789abcdef0123+", "packages": {"jax": "0.10.2"}}
    put_meta(folder, sessions=[start])
    put_statistics(folder, list(rows_of(best, diverse)))
    if lineage:
        write_arrays(folder / "lineage" / "00000000.npz", lineage_arrays(), LABEL)
    for seed in range(seeds) if best is not None else ():
        (folder / "best" / f"seed-{seed}.yaml").write_text(ROBOT)
    return folder


def lineage_arrays():
    """In both seeds 13 comes by crossover from 7 and 2, 7 by mutation from 0; 2 is the fitter founder."""
    id = np.broadcast_to(np.arange(GENERATIONS * SIZE).reshape(GENERATIONS, SIZE), (2, GENERATIONS, SIZE))
    parents = np.full((2, GENERATIONS, SIZE, 2), -1)
    parents[:, 1, 1] = (0, -1)
    parents[:, 2, 1] = (7, 2)
    fitness = np.zeros((2, GENERATIONS, SIZE))
    fitness[:, 0, 0], fitness[:, 0, 2], fitness[:, 1, 1], fitness[:, 2, 1] = 0.5, 0.6, 0.9, 1.45
    fitness[:, 1, 3] = -np.inf
    return {"id": id, "parents": parents, "fitness": fitness, "best_id": np.array([[2, 7, 13]] * 2)}


@pytest.fixture
def vsr(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.main, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "walk <b>&")


@pytest.fixture(scope="module")
def written(run):
    """A whole page, with a robot that was simulated for it."""
    result = CliRunner().invoke(cli.main, ["report", str(run)])
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"written to {run / 'report.html'}\n")  # after signs of life, if it takes long
    return (run / "report.html").read_text()


@pytest.fixture
def unmoving(monkeypatch):
    """No viewer, which takes most of the time."""
    monkeypatch.setattr(page_module, "_record", lambda runs: [])
    monkeypatch.setattr(page_module, "viewer", lambda runs, robots: tag("p", f"{len(runs)} robots"))


def test_faults_of_robots_that_are_simulated_beside_are_told(vsr, run, monkeypatch):
    def fault(runs):
        raise UserError("it cannot be simulated")

    monkeypatch.setattr(page_module, "_record", fault)
    result = vsr(run)
    assert result.exit_code == 2
    assert "it cannot be simulated" in result.output


# the page


def test_a_page_is_sound_and_loads_nothing(written):
    seen = Reader(written)
    assert not seen.faults  # drawings without words for those who cannot see them
    assert len(seen.ids) == len(set(seen.ids))
    inside = [link.removeprefix("#") for link in seen.links if link.startswith("#")]
    assert set(inside) <= set(seen.ids)
    assert all(link.startswith(("#", "data:text/yaml;base64,")) for link in seen.links)
    assert "default-src 'none'" in written
    assert not re.findall(r"https?://", re.sub(r'xmlns\S*="[^"]*"', "", written))
    assert len(written) < 200_000


def test_every_part_is_there(written):
    expected = ["Summary", "Best robot", "Fitness", "Best bodies", "Diversity", "Lineage of the best robot", "Failures"]
    expected += ["Robustness", "Settings", "Versions", "How to reproduce it"]
    title, *headings = Reader(written).headings
    assert headings == expected
    assert "walk" in title
    assert "<b>" not in written
    assert "finished: 3 generations" in written
    assert html.escape(COMMAND) in written
    assert "vsr evolve &#x27;" in written  # a name with blanks, quoted for a shell
    assert "git checkout 0123456789abcdef0123\n" in written
    assert "0123456789+" in written
    assert "The source had been changed since that commit" in written
    assert "6 of 36 robots failed (17 %)" in written
    assert "<dd>fixed: 2\N{NO-BREAK SPACE}voxels in a grid of 2 × 1</dd>" in written
    assert "<dd>2, all for its controller</dd>" in written
    assert "meta.json" not in written
    assert "placement:" in written


def test_the_viewer_shows_the_best_robot(written):
    (frame,) = Reader(written).frames
    Reader(re.sub(r"<script>.*?</script>", "", frame, flags=re.S))
    robots = json.loads(re.search(r'id="robots">(.*?)</script>', frame, re.S).group(1))["robots"]
    assert [robot["name"] for robot in robots] == ["walk <b>&, seed 1"]
    assert robots[0]["packed"]["moments"] == 19  # 0.6 s, a moment every 1/30 s: an episode as long as the task


def test_seeds_come_best_first(written):
    body = re.search(r"Seeds, the best first.*?<tbody>(.*?)</tbody>", written, re.S).group(1)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", body)]
    assert cells == [["1", "1.25", "1.45", "2", "0.1", "2", "3"], ["0", "0.25", "0.45", "2", "0.1", "2", "3"]]


def test_gains_are_listed_with_their_generation_and_maker(written):
    body = re.search(r"All gains on this line.*?<tbody>(.*?)</tbody>", written, re.S).group(1)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", body)]
    assert cells == [["1", "mutation", "0.5", "0.9", "42 %"], ["2", "crossover", "0.9", "1.45", "58 %"]]
    assert "it has 3 ancestors, 2 of them founders" in written


def test_charts_take_the_colors_of_the_page(run):
    lineage = Lineage(**{name: values[1] for name, values in lineage_arrays().items()})
    chart = descent_chart(read_run(run), 1, descent_of_best(lineage), "name")
    Reader(chart)
    assert not re.search("|".join(SERIES), chart)
    assert "currentColor" in chart
    assert "<style" not in chart  # it would hold for the whole page
    for word in ("generation", "relative velocity [1/s]", "by crossover", "by mutation", "founder"):
        assert f">{word}</text>" in chart
    used = set(re.findall(r"url\(#([^)]*)\)", chart)) | set(re.findall(r'href="#([^"]*)"', chart))
    assert used
    assert used == set(re.findall(r' id="([^"]*)"', chart))
    assert all(id.startswith("name-") for id in used)


def test_what_is_missing_is_reported(vsr, tmp_path):
    make_run(tmp_path / "bare", best=None, diverse=False, lineage=False)
    assert vsr("bare").exit_code == 0
    text = (tmp_path / "bare" / "report.html").read_text()
    Reader(text)
    assert text.count("There is no best robot: all robots failed.") == 2  # of the viewer and of the bodies
    assert "made before diversity was written down" in text
    assert "No lineage is kept" in text
    assert ">failed<" in text
    assert not re.search(r"\bnan\b", text, re.I)


def test_damaged_files_are_reported(vsr, tmp_path, unmoving):
    run = make_run(tmp_path / "torn")
    (run / "lineage" / "00000003.npz").write_bytes(b"PK\x03\x04torn")
    (run / "best" / "seed-0.yaml").write_text("robot: 3\n")
    (run / "meta.json").write_text("[]")
    result = vsr("torn")
    assert result.exit_code == 0, result.output
    assert "00000003.npz: corrupted (" in result.output
    assert (
        "meta.json: corrupted (this is not a JSON object); versions, device and command of this run are not known"
        in result.output
    )
    text = (run / "report.html").read_text()
    assert "meta.json: corrupted" in text
    assert "bit for bit" not in text
    assert "on which device the run was made is not known" in text
    assert "00000003.npz: corrupted (" in text
    assert "seed-0.yaml:1" in text
    assert "it has 3 ancestors" in text


@pytest.mark.parametrize("busy", [True, False])
def test_a_run_that_is_not_finished_says_so(vsr, tmp_path, unmoving, busy):
    run = make_run(tmp_path / "half", config=TINY.replace("generations: 5", "generations: 50"))
    with (run / "lock").open("w") as lock:
        if busy:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert vsr("half").exit_code == 0
    text = (run / "report.html").read_text()
    assert ("in progress: 3 of 50 generations" in text) == busy
    assert ("not finished: stopped after 3 of 50 generations" in text) != busy
    assert ("<span>evolve</span> <span>half</span> <span>--resume</span>" in text) != busy


@pytest.mark.parametrize(
    ("generations", "message"),
    [
        (GENERATIONS, "nothing was found at best/seed-1.yaml, where a finished run keeps it"),
        (50, "the run&#x27;s next checkpoint brings best/seed-1.yaml"),
    ],
)
def test_robots_that_are_gone_are_not_promised(vsr, tmp_path, generations, message):
    run = make_run(tmp_path / "walk", config=TINY.replace("generations: 5", f"generations: {generations}"))
    shutil.rmtree(run / "best")
    result = vsr(run)
    assert result.exit_code == 0, result.output
    assert (run / "report.html").read_text().count(message) == 2  # of the viewer and of the bodies
    warned = "the run is finished, but there is no seed-0.yaml, seed-1.yaml"
    assert (warned in result.output) == (generations == GENERATIONS)


def test_a_folder_that_is_named_twice_is_reported_once(vsr, tmp_path, unmoving):
    make_run(tmp_path / "one")
    result = vsr("one", "one", "./one/")
    assert result.exit_code == 0, result.output
    *others, written = result.output.splitlines()
    assert [line for line in others if not line.startswith("writing the report ...")] == [
        "warning: one: it was given twice; it is reported once",
        "warning: ./one/: it is the same folder as one; it is reported once",
    ]
    assert written == "written to one/report.html"
    assert "Comparison" not in Reader((tmp_path / "one" / "report.html").read_text()).headings


def test_several_runs_are_compared_first(vsr, tmp_path, unmoving):
    make_run(tmp_path / "one")
    make_run(tmp_path / "two", best=3.0)
    result = vsr("one", "two")
    assert result.output.splitlines()[-1] == "written to report.html"  # after how long it took, if it was long
    assert "warning" not in result.output
    text = (tmp_path / "report.html").read_text()
    seen = Reader(text)
    assert len(seen.ids) == len(set(seen.ids))
    assert [heading for heading in seen.headings if heading in ("one", "two", "Comparison")] == [
        "Comparison",
        "one",
        "two",
    ]
    assert seen.headings.count("Failures") == 2
    assert ">-2.75</td>" in text  # between 0.95 and 3.7, the medians over seeds
    assert "2 robots" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent",), "absent: there is no such run folder"),
        (("empty",), "empty: this is not a run folder"),
        (("one", "other"), "different goals"),
        (("one", "--out", "page.pdf"), "the name should end in .html"),
        (("one", "--out", "nowhere/page.html"), "there is no folder nowhere"),
    ],
)
def test_errors_are_reported_in_a_line_and_leave_nothing(vsr, tmp_path, unmoving, arguments, message):
    make_run(tmp_path / "one")
    make_run(tmp_path / "other", config=TINY + "fitness: travel_velocity\n")
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = vsr(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


# its parts


def test_the_line_follows_the_fitter_parent():
    descent = descent_of_best(Lineage(**{name: values[0] for name, values in lineage_arrays().items()}))
    assert [ancestor.id for ancestor in descent.line] == [0, 7, 13]
    assert [ancestor.generation for ancestor in descent.line] == [0, 1, 2]
    assert [ancestor.parents for ancestor in descent.line] == [(), (0,), (7, 2)]
    assert (descent.ancestors, descent.founders) == (3, 2)


def test_a_best_robot_made_at_random_has_no_line(vsr, tmp_path, unmoving):
    run = make_run(tmp_path / "luck", lineage=False)
    arrays = lineage_arrays()
    write_arrays(run / "lineage" / "00000000.npz", {**arrays, "best_id": arrays["best_id"] * 0 + 16}, LABEL)
    assert vsr("luck").exit_code == 0
    assert "it was made at random in generation 2" in (run / "report.html").read_text()


def test_bodies_are_drawn_cell_by_cell():
    flat, cube = Body(shape=["ab", "a."], materials={"a": {}, "b": {}}), Body(shape=[["aa"]])
    assert room_for([flat]) == (2, 2)
    assert room_for([flat, Body(shape=["aaaa"])]) == (4, 2)
    drawn = draw_body(flat, "an ell", (4, 2))
    assert drawn.count("<polygon") == 3
    assert len(set(re.findall(r'fill="([^"]*)"', drawn))) == 2
    assert (
        draw_body(cube, "two cubes", room_for([cube])).count("<polygon") == 5
    )  # the right one's side, fronts and tops


def test_tables_of_many_columns_name_every_value_on_phones():
    many, few = table("t", tuple("abcdef"), [tuple("uvwxyz")]), table("t", tuple("abcde"), [tuple("vwxyz")])
    assert re.findall(r'data-label="(.)">(.)<', many) == list(zip("abcdef", "uvwxyz", strict=True))
    assert 'class="many"' in many
    assert "data-label" not in few
    assert 'class="many"' not in few


def test_text_is_escaped_and_tables_have_heads():
    made = table("a < b", ("name", "value"), [("<i>", "&")])
    Reader(made)
    assert "<i>" not in made
    assert made.count('scope="col"') == 2
    assert made.count('scope="row"') == 1


def test_nothing_of_a_report_is_left_when_the_disk_is_full(vsr, tmp_path, unmoving, monkeypatch):
    run = make_run(tmp_path / "one")
    before = sorted(run.rglob("*"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = vsr("one")
    assert result.exit_code == 2
    assert "report.html: cannot be written: No space left on device" in result.output
    assert sorted(run.rglob("*")) == before
    shutil.rmtree(run)


def test_a_kept_robot_stands_beside_its_own_fitness(tmp_path):
    run = make_run(tmp_path / "walk")
    for seed, value in ((0, "0.45"), (1, "1.35")):  # seed 1 has reached 1.45 since
        title = f"# best of seed {seed}: individual 7, relative_velocity {value}\n"
        (run / "best" / f"seed-{seed}.yaml").write_text(title + ROBOT)
    found = find_out(read_run(run), "walk")
    assert [found.is_surpassed(index) for index in range(2)] == [False, True]
    assert '<th scope="col">best kept</th>' in sections.fitness(found, "c")
    robot = SimpleNamespace(
        name="walk", measures={"relative_velocity": 1.3}, recording=SimpleNamespace(time=[0.0, 2.0])
    )
    text = page_module._measured_again([found], [robot])
    assert "walk: 1.35" in text
    assert "the best kept; the run has since reached 1.45" in text
    (run / "best" / "seed-1.yaml").write_text(ROBOT)
    found = find_out(read_run(run), "walk")
    assert "best kept" not in sections.fitness(found, "c") + page_module._measured_again([found], [robot])


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_best_robot_is_the_best_that_is_kept(tmp_path, direction):
    """A run that was killed: in the statistics seed 1 leads by what no file holds."""
    run = make_run(
        tmp_path / "walk", config=TINY + f"fitness: {{measure: relative_velocity, direction: {direction}}}\n"
    )
    worse, better = ("0.3", "0.4") if direction == "maximize" else ("0.4", "0.3")
    for seed, value in ((0, better), (1, worse)):
        title = f"# best of seed {seed}: individual 7, relative_velocity {value}\n"
        (run / "best" / f"seed-{seed}.yaml").write_text(title + ROBOT)
    found = find_out(read_run(run), "walk")
    assert (found.seed, found.is_behind) == (0, True)
    robot = SimpleNamespace(name="walk", measures={"relative_velocity": 0.0}, recording=SimpleNamespace(time=[0.0]))
    assert f"walk: {better} 1/s as reported" in page_module._measured_again([found], [robot])


def test_the_report_shows_the_robot_that_play_shows(tmp_path):
    run = make_run(tmp_path / "walk")
    for seed, value in ((0, "0.45"), (1, "1.45")):  # as the statistics have them, in six digits
        (run / "best" / f"seed-{seed}.yaml").write_text(f"# best of seed {seed}: individual 7, x {value}\n{ROBOT}")
    (source,) = read_sources([str(run)])
    assert source.name == f"walk, seed {find_out(read_run(run), 'walk').seed}" == "walk, seed 1"

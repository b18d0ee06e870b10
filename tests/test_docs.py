"""Pages hold together: links lead somewhere, code is code, commands and keys exist, what is made is complete."""

import importlib.util
import re
import shlex
from functools import cache

import pytest
import yaml
from conftest import ROOT

from vsr.cli import main
from vsr.experiments.config import load_experiment, load_scene
from vsr.experiments.shipped import STUDY, find_config
from vsr.experiments.study import ALL

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
DOORS = ["learn", "do", "reference", "understand", "develop", "results"]
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def builder():
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name(page):
    return str(page.relative_to(ROOT))


def fences(page, *kinds):
    return [text for kind, text in FENCE.findall(page.read_text()) if kind in kinds]


def prose(page):
    return FENCE.sub("", page.read_text())


@cache
def anchors(page):
    """Headings as GitHub and the site name them."""
    found = []
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.append(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_pictures_of_a_page_lead_somewhere(page):
    made = {(DOCS / place).resolve() for place in builder().GENERATED}
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target in made or target.exists(), link
        assert page.parent == ROOT or target.is_relative_to(DOCS), f"{link}: the site has only docs/"
        if anchor and target not in made:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("door", DOORS)
def test_an_index_lists_every_page_of_its_folder(door):
    listed = {(DOCS / door / link).resolve() for link in builder().contents(DOCS / door / "index.md")}
    there = {path.resolve() for path in (DOCS / door).rglob("*.md")} - {DOCS / door / "index.md"}
    assert there <= listed, f"{there - listed} not in {door}/index.md"
    assert DOCS / door / "index.md" in {(DOCS / link).resolve() for link in builder().contents(DOCS / "index.md")}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_of_a_page_compiles(page):
    for block in fences(page, "python"):
        compile(block, name(page), "exec")


def documents():
    """Whole files among the YAML of pages, without those that need a module of their own."""
    for page in PAGES:
        for number, block in enumerate(fences(page, "yaml")):
            if re.search(r"^kind: (experiment|scene)$", block, re.MULTILINE) and not re.search(r"plugins: \[\w", block):
                yield pytest.param(block, id=f"{name(page)}:{number}")


@pytest.mark.parametrize("block", list(documents()))
def test_whole_files_of_a_page_are_valid(block, tmp_path):
    (tmp_path / "file.yaml").write_text(block)
    load = {"experiment": load_experiment, "scene": load_scene}[yaml.safe_load(block)["kind"]]
    assert load(tmp_path / "file.yaml").robot


def test_there_are_whole_files_to_check():
    assert len(list(documents())) >= 8


def calls(page):
    """Every call of vsr in blocks without a language, or of the console: its command and its words."""
    for block in fences(page, "", "console", "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            text = line.partition(" #")[0].replace("$ vsr", "vsr").replace(".venv/bin/vsr", "vsr")
            match = re.search(r"(?:^|\s)vsr ([a-z]+)\b(.*)", text)
            if match:
                yield match[1], shlex.split(match[2].split(";")[0].split(" | ")[0].strip("[]"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_options_of_a_page_exist(page):
    for command, words in calls(page):
        assert command in main.commands, command
        options = {option for parameter in main.commands[command].params for option in parameter.opts}
        options |= {option for parameter in main.commands[command].params for option in parameter.secondary_opts}
        for word in words:
            if word.strip("[").startswith("--"):
                assert word.strip("[]").partition("=")[0] in {*options, "--help"}, f"vsr {command} {word}"


SHIPPED = ("check", "evolve", "simulate", "play", "landscape", "reach")
OWN = re.compile(r"[A-Z./*]|^runs|[=,]|^my_|\.yaml$|^results/")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_shipped_files_that_a_page_names_exist(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command, words in calls(page):
        if command in SHIPPED and words and not words[0].startswith("-") and not OWN.search(words[0]):
            assert find_config(words[0]).is_file(), f"vsr {command} {words[0]}"
        if command == "reproduce" and words[0] != ALL and not OWN.search(words[0]):
            assert find_config(words[0], STUDY).is_file(), f"vsr reproduce {words[0]}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


NAMED = re.compile(r"\bthe (?:paper|original)(?:'s)?\b(?! \w*(?:file|run|data|order|one|text))")


@pytest.mark.parametrize("page", [page for page in PAGES if "results" not in page.parts], ids=name)
def test_the_paper_and_the_original_are_named_before(page):
    text = prose(page)
    mention = NAMED.search(text)
    if mention:
        before = text[: mention.start()]
        assert re.search(r"doi\.org|arxiv\.org|references\.md|hal\.science", before), f"{mention[0]!r} of which work?"


def test_pages_that_are_made_are_complete():
    import vsr
    from vsr.experiments.catalog import KINDS, components, schema

    pages = {place: make() for place, make in builder().GENERATED.items()}
    commands, keys, python = (pages[f"reference/{one}.md"] for one in ("commands", "keys", "python"))
    for command in main.commands:
        assert f"### vsr {command}\n" in commands
    assert "--resume" in commands
    for key in schema("experiment")["properties"]:
        assert f"| `{key}` |" in keys
    for kind in KINDS:
        assert all(f"**`{one.name}`**" in keys for one in components(kind))
    for each in vsr.__all__:
        assert re.search(rf"^### (vsr\.)?{each}$", python, re.MULTILINE), each


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing(tmp_path):
    pytest.importorskip("sphinx")
    assert builder().main(["--out", str(tmp_path)]) == 0
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert len(pages) > 30
    for page in pages:
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"https?:", page)
    assert "first_walker" in (tmp_path / "site" / "searchindex.js").read_text()


def test_pages_that_code_names_exist():
    places = [ROOT / "Makefile", ROOT / "pyproject.toml"]
    places += [path for folder in ("vsr", "tests", "examples") for path in (ROOT / folder).rglob("*.[py][ya]*")]
    for place in places:
        if place.suffix in (".py", ".yaml", ".toml", ""):
            for page in re.findall(r"docs/[\w/]+\.md", place.read_text()):
                assert (ROOT / page).is_file(), f"{name(place)}: {page}"

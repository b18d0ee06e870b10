"""`vsr design`: what its page is offered, who may ask, and that drawings are checked, simulated and saved as files."""

import http.client
import json
import re
import threading

import pytest
from click.testing import CliRunner
from moving import moving_robot

import vsr.cli as cli
from vsr.experiments.config import load_scene, parse_experiment, parse_scene
from vsr.experiments.config.problems import UserError
from vsr.experiments.design.command import FIRST
from vsr.experiments.design.documents import LONGEST, PALETTES, as_yaml, catalog, read, read_file, scene_of
from vsr.experiments.design.server import ASSETS, DesignServer, open_server
from vsr.experiments.shipped import SCENE, shipped_files
from vsr.scene import _record

SCENES = [one.path for one in shipped_files() if one.kind == SCENE]


def drawn(shape=("aaa", "a.a"), engine="squares", **parts):
    return {"robot": {"body": {"shape": list(shape), "engine": engine}, "controller": {"type": "sine"}}, **parts}


# Documents


def test_the_catalog_offers_only_what_can_be_simulated():
    offered = catalog()
    for engine in offered["engines"]:
        body = {"shape": ["".join(engine["materials"])], "engine": engine["name"], "materials": engine["materials"]}
        assert scene_of({"robot": {"body": body}, "task": {"duration": 1}}).robot.body.engine == engine["name"]
    for terrain in offered["terrains"]:
        if not terrain["in3d"]:
            scene_of({**drawn(), "world": {"terrain": {"type": terrain["name"]}}, "task": {"duration": 1}})
    for task in offered["tasks"]:
        for engine in task["engines"]:
            symbol = next(iter(PALETTES[engine]))
            scene_of(drawn([symbol * 3], engine, task={"type": task["name"]} | _short(task)))


def _short(task):
    return {} if task["duration"] is None else {"duration": min(task["duration"], 10)}


@pytest.mark.parametrize("path", SCENES, ids=lambda path: path.stem)
def test_shipped_scenes_become_documents_that_mean_the_same(path):
    document = read_file(path)
    assert parse_scene(json.dumps(document)) == load_scene(path)


def test_a_drawing_is_saved_as_a_scene_and_as_an_experiment_without_unused_materials():
    document = drawn(["aaa", "r.r"], task={"type": "locomotion", "duration": 4})
    palette = {symbol: one.model_dump(mode="json") for symbol, one in PALETTES["squares"].items()}
    document["robot"]["body"]["materials"] = palette
    document["robot"]["controller"] |= {"frequency": 2.0, "phase": [[0, 1, 2], [0, None, 0]]}
    scene = parse_scene(as_yaml(document, False))
    assert list(scene.robot.body.materials) == ["a", "r"]
    assert scene.robot.controller == scene_of(document).robot.controller
    experiment = parse_experiment(as_yaml(document, True))
    assert experiment.robot.controller.to_plain()["passive"] == ["r"]
    assert experiment.robot.controller.to_plain()["frequency"] == 2.0
    assert experiment.fitness.measure == "relative_velocity"
    assert experiment.task.duration == 4


def test_a_controller_without_phases_is_not_saved_as_an_experiment():
    document = {**drawn(), "task": {"duration": 2}}
    document["robot"]["controller"] = {"type": "sine", "frequency": [[1, 1, 1], [1, None, 2]]}
    with pytest.raises(UserError, match="frequency"):
        as_yaml(document, True)
    assert "frequency" in as_yaml(document, False)


def test_long_and_large_drawings_are_left_to_other_commands():
    with pytest.raises(UserError, match="vsr simulate"):
        scene_of({**drawn(), "task": {"duration": LONGEST + 1}})
    with pytest.raises(UserError, match=r"2,500 cells.*vsr simulate"):
        scene_of({**drawn(["a" * 50] * 50), "task": {"duration": 1}})


# The server


@pytest.fixture
def server():
    played = []

    def simulate(source, seconds):
        played.append((source.scene, seconds))
        return moving_robot(source.name, squares=True, seconds=1.0)

    with DesignServer(0, read(FIRST), simulate) as opened:
        opened.played = played
        threading.Thread(target=opened.serve_forever, args=(0.02,), daemon=True).start()
        yield opened
        opened.shutdown()


def ask(server, path, sent=None, method=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    body = sent if sent is None or isinstance(sent, bytes) else json.dumps(sent).encode()
    kind = {} if body is None else {"Content-Type": "application/json"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method or ("GET" if body is None else "POST"), path, body, kind | given)
    answer = connection.getresponse()
    return answer, answer.read()


def test_the_page_and_its_first_drawing_are_served(server):
    for path, name in (("/", "design.html"), ("/design.css", "design.css"), ("/design.js", "design.js")):
        answer, content = ask(server, path)
        assert (answer.status, content) == (200, (ASSETS / name).read_bytes())
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    page = (ASSETS / "design.html").read_text(encoding="utf-8")
    for button in ("play", "save", "save-experiment", "load"):  # of no use until the page has the catalog
        assert re.search(f'<button id="{button}"[^>]* disabled>', page)
    offered = json.loads(ask(server, "/catalog.json")[1])
    assert scene_of(offered["first"]).robot.body.shape == ("aaaaa", "a...a")
    assert ask(server, "/robot.html")[0].status == 404
    assert ask(server, "/other")[0].status == 404


def test_a_drawing_is_played(server):
    answer = json.loads(ask(server, "/play", {"document": {**drawn(), "task": {"duration": 3}}})[1])
    assert (answer["problems"], answer["version"], answer["simulated"]) == ([], 1, 3)
    (scene, seconds) = server.played[0]
    assert (scene.robot.body.shape, seconds) == (("aaa", "a.a"), 3)
    shown, content = ask(server, "/robot.html?1")
    assert shown.status == 200
    assert b'id="robots"' in content
    assert "frame-ancestors 'self'" in shown.headers["Content-Security-Policy"]


def test_all_faults_of_a_drawing_come_back_with_their_places(server):
    wrong = {**drawn(["..."]), "world": {"terrain": "moon"}, "task": {"duration": -1}}
    for path in ("/play", "/save", "/check"):
        problems = json.loads(ask(server, path, {"document": wrong})[1])["problems"]
        places = {problem["path"] for problem in problems}
        assert any(place.startswith("robot.body") for place in places)
        assert {"task.duration", "world.terrain"} <= places
    assert not server.played
    assert json.loads(ask(server, "/check", {"document": drawn()})[1])["problems"] == []
    for unfit in (None, 3, [], "robot"):
        assert json.loads(ask(server, "/play", {"document": unfit})[1])["problems"]


def test_files_are_loaded_and_their_plugins_are_not_run(server):
    text = SCENES[0].read_text()
    answer = json.loads(ask(server, "/read", {"text": text, "name": "mine.yaml"})[1])
    assert parse_scene(json.dumps(answer["document"])) == parse_scene(text)
    assert json.loads(ask(server, "/read", {"text": "robot: [", "name": "mine.yaml"})[1])["problems"]
    named = json.loads(ask(server, "/read", {"text": f"{text}\nplugins: [antigravity]\n"})[1])["problems"]
    assert any("antigravity" in problem["message"] for problem in named)


def test_only_its_own_page_may_send(server):
    sent = {"document": {**drawn(), "task": {"duration": 3}}}
    assert ask(server, "/play", sent, Origin="http://example.com")[0].status == 403
    assert ask(server, "/play", sent, Origin=f"http://127.0.0.1:{server.server_port + 1}")[0].status == 403
    assert ask(server, "/play", sent, Host="example.com")[0].status == 403
    assert ask(server, "/catalog.json", Host="example.com")[0].status == 403
    assert ask(server, "/play", sent, Content_Type="text/plain")[0].status == 415
    assert ask(server, "/play", b"not JSON")[0].status == 400
    assert ask(server, "/play", b"[" * 100_000)[0].status == 400
    assert ask(server, "/play", sent, method="PUT")[0].status == 405
    assert ask(server, "/nothing", sent)[0].status == 404
    assert ask(server, "/play", b"{}", Content_Length=str(10**9))[0].status == 413
    assert not server.played
    assert ask(server, "/play", sent, Origin=f"http://127.0.0.1:{server.server_port}")[0].status == 200


def test_a_port_in_use_is_reported_with_another(server):
    with pytest.raises(UserError, match=r"vsr design --port \d+"):
        open_server(server.server_port, read(FIRST))


def test_a_robot_that_evolves_is_not_drawn(tmp_path):
    file = tmp_path / "robot.yaml"
    file.write_text("kind: experiment\nrobot: {body: {shape: aa}, controller: {type: sine}}\n")
    found = CliRunner().invoke(cli.main, ["design", str(file)])
    assert found.exit_code == 2
    assert "experiment" in found.output


@pytest.mark.slow
def test_drawings_in_one_grid_share_one_program():
    with DesignServer(0, read(FIRST)) as server:
        palette = {symbol: one.model_dump(mode="json") for symbol, one in PALETTES["squares"].items()}
        counts = []
        for shape in (["aaa", "a.a"], ["a..", "aaa"], ["aaa", "aaa"]):
            document = drawn(shape, task={"duration": 0.5})
            document["robot"]["body"]["materials"] = palette
            answer = server.posts["/play"](json.dumps({"document": document}).encode())
            assert json.loads(answer[2])["problems"] == []
            counts.append(_record._cache_size())
        assert counts[0] == counts[1] == counts[2]

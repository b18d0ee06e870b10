"""`vsr watch`: what it shows of a run that grows, who may ask, and how it ends."""

import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest
from click.testing import CliRunner
from conftest import TINY
from growing import ROBOT, add_generation, begin_run, put_best, put_statistics, record, rows
from moving import moving_robot

import vsr.cli as cli
from vsr.experiments.formatting import count
from vsr.experiments.storage.run_folder import is_being_written
from vsr.experiments.watch import following
from vsr.experiments.watch import portrait as portraits
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.experiments.watch.server import ASSETS, open_server


@pytest.fixture
def run(tmp_path):
    return begin_run(tmp_path / "walk")


def old(run):
    """Let the run look as if nothing had been written for a day."""
    for path in run.iterdir():
        os.utime(path, (path.stat().st_atime - 86400,) * 2)


# What is shown


def test_a_run_is_followed_from_its_start_to_its_end(run):
    follower = Follower(run)
    state = follower.look()
    assert (state["state"], state["generations"], state["of"], "curves" in state) == ("starting", 0, 5, False)
    assert follower.leader() is None
    assert (state["measure"], state["unit"], state["direction"]) == ("relative velocity", "1/s", "maximize")
    add_generation(run, 0)
    state = follower.look()
    assert state["state"] == "running"
    assert state["curves"]["best"] == [[0.1], [1.1]]
    assert state["curves"]["bestMiddle"] == pytest.approx([0.6])
    assert (state["best"], state["bestSeed"], state["median"]) == pytest.approx((1.1, 1, 0.3))
    assert state["evaluationsPerSecond"] == pytest.approx(2 * 6 / 0.5)
    assert state["robotSecondsPerSecond"] == pytest.approx(2 * 6 / 0.5 * 0.6)
    assert state["secondsLeft"] == pytest.approx(4 * 0.5)
    assert follower.leader() is None  # best/ has none yet
    assert "curves" not in follower.look(state["version"])  # nothing is sent twice
    for generation in range(1, 5):
        add_generation(run, generation)
    state = follower.look(state["version"])
    assert (state["state"], state["generations"]) == ("finished", 5)
    assert state["curves"]["generation"] == [0, 1, 2, 3, 4]
    assert state["curves"]["best"][0] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


@pytest.mark.parametrize("generations", [30, 25], ids=["finished", "running"])
def test_the_speed_of_a_run_that_is_over_is_that_of_all_of_it(tmp_path, generations):
    run = begin_run(tmp_path / "walk", TINY.replace("generations: 5", "generations: 30"))
    for generation in range(generations):
        add_generation(run, generation, seconds=2.0 if generation < 5 else 0.5)
    state = Follower(run).look()
    assert state["secondsTaken"] == 5 * 2.0 + (generations - 5) * 0.5
    pace = {30: 22.5 / 30, 25: 0.5}[generations]  # of all; of the last twenty
    assert state["secondsPerGeneration"] == pytest.approx(pace)
    assert state["evaluationsPerSecond"] == pytest.approx(2 * 6 / pace)


def test_a_record_that_is_being_written_is_left_for_later(run):
    follower = Follower(run)
    first, second = record(run, 0), record(run, 1)
    data = first + second
    for end in range(0, len(data) + 99, 99):
        with (run / "statistics.bin").open("ab") as file:
            file.write(data[max(end - 99, 0) : end])
        assert follower.look()["generations"] == min(end, len(data)) // len(first)


def test_corrupted_records_are_left_out(run):
    for generation in range(4):
        add_generation(run, generation)
    file = run / "statistics.bin"
    data = bytearray(file.read_bytes())
    data[-3 * len(record(run, 0)) + 9] ^= 4  # of generation 1
    file.write_bytes(data)
    state = Follower(run).look()
    assert state["generations"] == 4
    assert state["curves"]["best"][0][1] is None
    (warning,) = state["warnings"]
    assert warning.startswith(f"{file}: generation 1 ")


def test_a_run_that_goes_on_may_take_records_back(run):
    follower = Follower(run)
    for generation in range(3):
        add_generation(run, generation)
    before = follower.look()
    put_statistics(run, [*rows(0), *rows(1, best=[0.7, 0.8])])
    after = follower.look(before["version"])
    assert after["generations"] == 2
    assert after["curves"]["best"] == [[0.1, 0.7], [1.1, 0.8]]


def test_failures_and_measures_to_minimize(tmp_path):
    run = begin_run(tmp_path / "walk", TINY + "fitness: {measure: average_height, direction: minimize}\n")
    add_generation(run, 0, best=[-0.4, None], failed=6)
    state = Follower(run).look()
    assert (state["best"], state["unit"], state["failed"], state["failedInAll"]) == (0.4, "m", 12, 12)
    assert state["curves"]["best"] == [[0.4], [None]]
    assert state["curves"]["bestMiddle"] == [None]  # of two seeds one failed, and a failure is worse than any value
    json.dumps(state, allow_nan=False)


def test_long_runs_are_shown_with_fewer_generations(run, monkeypatch):
    monkeypatch.setattr(following, "MOST_NUMBERS", 10)
    put_statistics(run, [row for generation in range(1000) for row in rows(generation)])
    shown = Follower(run).look()["curves"]["generation"]
    assert len(shown) == 100
    assert (shown[0], shown[-1]) == (0, 999)


def test_a_lock_shows_whether_a_run_goes_on(run):
    add_generation(run, 0)
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_being_written(run):
            pytest.skip("this computer does not list its locks")
        old(run)
        follower = Follower(run)
        assert follower.look()["state"] == "running"
    add_generation(run, 1)  # just written, but nobody writes any more
    state = follower.look()
    assert state["state"] == "stopped"
    assert state["resume"] == f"vsr evolve {run} --resume"


def test_without_a_lock_silence_shows_it(run):
    add_generation(run, 0)
    follower = Follower(run)
    assert follower.look()["state"] == "running"
    old(run)
    assert follower.look()["state"] == "stopped"
    add_generation(run, 1)
    assert follower.look()["state"] == "running"


def test_looking_changes_nothing_and_takes_no_lock(run, monkeypatch):
    add_generation(run, 0)
    put_best(run, 1, 4)
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("the lock was taken"))
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    follower = Follower(run)
    follower.look()
    follower.look()
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


# The robot


def portrait_of(run, **more):
    follower = Follower(run)
    follower.look()
    return follower, Portrait(follower, 1.0, **more)


def test_a_robot_is_simulated_when_it_is_new_and_someone_watches(run):
    simulated = []

    def simulate(source, seconds):
        simulated.append((source.name, seconds, source.scene.physics.implementation))
        return moving_robot(source.name)

    add_generation(run, 0)
    follower, portrait = portrait_of(run, simulate=simulate)
    put_best(run, 0, 3, value=0.4)
    put_best(run, 1, 4)
    assert not portrait.look()  # nobody watches
    portrait.request()
    assert portrait.look()
    assert simulated == [("walk, seed 1", 1.0, "auto")]
    assert portrait.version == 1
    assert portrait.caption == "best of seed 1: individual 4, relative velocity 0.5 1/s"
    assert '"repeat":true' in portrait.text
    put_best(run, 0, 9, value=0.45)
    add_generation(run, 1, best=[5.0, 1.2])
    follower.look()
    assert not portrait.look()  # not the best that is kept
    put_best(run, 0, 9, value=5.0)
    assert portrait.look()
    assert simulated[1][0] == "walk, seed 0"
    put_best(run, 0, 10, ROBOT + "physics: {implementation: fused}\n", value=5.1)
    assert portrait.look()
    assert simulated[2][2] == "auto"  # the GPU is the run's
    put_best(run, 0, 11, "robot: 3\n", value=5.2)
    assert portrait.look()
    assert portrait.version == 3
    assert "robot" in portrait.trouble
    put_best(run, 0, 12, value=5.3)
    assert portrait.look()
    assert (portrait.version, portrait.trouble) == (4, "")


def test_only_robots_after_the_first_come_second_to_what_evolves(run, monkeypatch):
    """Beside a busy run the first one would take several times as long."""
    done, two = [], threading.Event()

    def simulate(source, _):
        done.append("simulated")
        if done.count("simulated") == 1:
            put_best(run, 1, 5, value=0.6)
        else:
            two.set()
        return moving_robot(source.name)

    monkeypatch.setattr(os, "setpriority", lambda _, thread, priority: done.append("polite") if priority else None)
    monkeypatch.setattr(portraits, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(portraits, "REST", 0.0)
    add_generation(run, 0)
    put_best(run, 1, 4)
    _, portrait = portrait_of(run, simulate=simulate)
    portrait.request()
    portrait.start()
    assert two.wait(30)
    portrait.stop()
    assert (done[0], done[1], done[-1]) == ("simulated", "polite", "simulated")
    assert done.count("simulated") == 2


# The server


@pytest.fixture
def served(run):
    add_generation(run, 0)
    put_best(run, 1, 4)
    follower, portrait = portrait_of(run, simulate=lambda source, _: moving_robot(source.name))
    with open_server(0, follower, portrait) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def ask(server, path, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_known_paths_are_served_and_nothing_else(served):
    assert served.server_address[0] == "127.0.0.1"
    for path, kind in {"/": "text/html", "/watch.js": "text/javascript", "/watch.css": "text/css"}.items():
        answer, content = ask(served, path)
        assert (answer.status, answer.getheader("Content-Type").partition(";")[0]) == (200, kind)
        assert answer.getheader("Cache-Control") == "no-store"
        assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
        head, nothing = ask(served, path, "HEAD")
        assert (head.status, head.getheader("Content-Length"), nothing) == (200, str(len(content)), b"")
    for path in ("/config.yaml", "/../config.yaml", "/assets/", "/watch.html", "//etc/passwd", "/robot.html"):
        assert ask(served, path)[0].status == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer, _ = ask(served, "/", method)
        assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")


def test_the_state_and_the_robot_are_served(served):
    state = json.loads(ask(served, "/state.json")[1])
    assert (state["generations"], state["robot"]["version"], state["robot"]["coming"]) == (1, 0, True)
    assert served.portrait.look()
    state = json.loads(ask(served, f"/state.json?known={state['version']}")[1])
    assert (state["robot"]["version"], state["robot"]["coming"]) == (1, False)
    assert "curves" not in state
    answer, content = ask(served, "/robot.html?version=1")
    assert answer.status == 200
    assert b"walk, seed 1" in content


@pytest.mark.parametrize(
    ("coming", "seconds", "state", "caption"),
    [
        (False, 6.6, "running", "Compiling and simulating the best robot: 7 s so far."),
        (True, None, "finished", "The best robot is about to be simulated."),
        (False, None, "finished", "There is no best robot."),
        (False, None, "running", "The first generation brings the first robot."),
    ],
)
def test_the_page_says_what_becomes_of_the_robot(coming, seconds, state, caption):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page cannot be asked")
    script = (ASSETS / "watch.js").read_text(encoding="utf-8").partition("window.watch")[0]
    robot = json.dumps({"coming": coming, "version": 0, "caption": "", "busySeconds": seconds, "trouble": ""})
    asked = (
        "const part = {}; globalThis.document = { getElementById: () => part };"
        f"Watch.prototype.showRobot.call({{ robotVersion: 0 }}, {robot}, '{state}'); console.log(part.textContent);"
    )
    printed = subprocess.run([node, "-e", script + asked], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == caption


def test_numbers_are_the_same_on_the_page_and_elsewhere():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed, so the page cannot be asked")
    script = (ASSETS / "watch.js").read_text(encoding="utf-8").partition("window.watch")[0]
    values = [0, 7, 24.0, 8.388, 99.96, 100.2, 999.6, 3000, 1234567, 0.0625]
    asked = f"globalThis.document = {{}}; console.log(JSON.stringify({values}.map(count)));"
    printed = subprocess.run([node, "-e", script + asked], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [count(value) for value in values]
    assert json.loads(printed)[-3:] == ["3,000", "1,234,567", "0.0625"]


def test_a_run_that_cannot_be_read_is_reported(tmp_path):
    follower = Follower(tmp_path / "walk")
    with open_server(0, follower, Portrait(follower, 1.0)) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        (begin_run(tmp_path / "walk") / "statistics.bin").write_bytes(b"no statistics")
        answer, content = ask(server, "/state.json")
        server.shutdown()
    assert answer.status == 500
    assert b"statistics.bin" in content


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:9999", 200),
        ("LocalHost", 200),
        ("evil.example", 403),
        ("localhost.evil.example:8017", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1:8017@evil.example", 403),
    ],
)
def test_other_names_for_this_computer_are_refused(served, host, status):
    answer, content = ask(served, "/state.json", host=host)
    assert answer.status == status
    assert (b"curves" in content) == (status == 200)


# The command


def vsr(*arguments):
    return CliRunner().invoke(cli.main, ["watch", *map(str, arguments)])


def test_a_port_in_use_is_reported_with_a_free_one(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = vsr(run, "--port", port)
    assert result.exit_code == 2
    found = re.fullmatch(
        rf"--port {port}: it is in use; instead: vsr watch {re.escape(str(run))} --port (\d+)\n", result.output
    )
    assert found is not None, result.output
    assert int(found[1]) > port
    with open_server(int(found[1]), *portrait_of(run)):
        pass  # it is free indeed


@pytest.mark.parametrize(
    ("name", "wait", "message"),
    [
        ("absent", False, "there is no such run folder; --wait waits"),
        ("empty", False, "this is not a run folder: it has no config.yaml or no meta.json"),
        ("other", True, "this is not a run folder: it has no config.yaml or no meta.json"),
        ("broken", False, "statistics.bin"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path, name, wait, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    (begin_run(tmp_path / "broken") / "statistics.bin").write_bytes(b"no statistics\n")
    result = vsr(tmp_path / name, *(["--wait"] if wait else []))
    assert result.exit_code == 2
    assert message in result.output


def test_waiting_for_a_run(tmp_path):
    follower = Follower(tmp_path / "walk")
    assert follower.look() == {"name": "walk", "state": "waiting"}
    run = begin_run(tmp_path / "walk")
    assert follower.look()["state"] == "starting"
    shutil.rmtree(run)
    assert follower.look()["state"] == "gone"


@pytest.mark.slow
def test_it_ends_cleanly_when_asked_to(run):
    """The whole command in a process of its own, asked to end while it simulates a robot."""
    add_generation(run, 0)
    put_best(run, 1, 4)
    command = [sys.executable, "-m", "vsr", "watch", run, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        assert address is not None
        robot = {"busySeconds": None, "version": 0}
        while robot["busySeconds"] is None and not robot["version"]:
            with urllib.request.urlopen(f"{address[0]}state.json") as answer:
                robot = json.load(answer)["robot"]
            assert not robot["trouble"]
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert output.endswith("stopped\n")
    assert "Traceback" not in errors

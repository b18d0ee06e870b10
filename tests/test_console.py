"""Signs of life of long work."""

import io
import re
import time

from vsr.experiments import console
from vsr.experiments.console import Pulse, busy


def test_signs_of_life_come_soon_and_then_ever_more_seldom():
    now, reported = [0.0], []
    pulse = Pulse(reported.append, clock=lambda: now[0])
    for tenths in range(1300):
        now[0] = tenths / 10
        pulse.beat()
    assert reported == [2.0, 10.0, 20.0, 40.0, 80.0]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def waited_for(monkeypatch, stream, text, **options):
    """What stands in a stream once some text does, while work goes on."""
    monkeypatch.setattr(console.sys, "stderr", stream)
    monkeypatch.setattr(Pulse, "FIRST", 0.0)
    monkeypatch.setattr(Pulse.__init__, "__defaults__", (0.0, console.time.monotonic))
    deadline = time.monotonic() + 30
    with busy("thinking", **options):
        while text not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert text in stream.getvalue()
    return stream.getvalue()


def test_lines_in_a_log_and_a_line_that_goes_away_in_a_terminal(monkeypatch):
    assert re.fullmatch(r"(thinking \.\.\. \d+ s\n)+", waited_for(monkeypatch, io.StringIO(), "\n"))
    shown = waited_for(monkeypatch, Terminal(), " s")
    assert shown.startswith("\rthinking ... ")
    assert shown.endswith("\r\x1b[K")
    assert waited_for(monkeypatch, Terminal(), "", counting=False) == ""


def test_short_work_is_not_mentioned(monkeypatch):
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(console.sys, "stderr", stream)
        with busy("thinking"):
            pass
        assert stream.getvalue() == ""

"""How objects are shown in notebooks: looked up here, registered by whoever draws.

Nothing below the drawing imports it. A package names the modules that register renderers (`provide`), and they are
loaded when a notebook first asks for a picture.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any

Picture = Callable[[Any], bytes | None]
Markup = Callable[[Any, bytes | None], str]
"""From an object and its picture, if it has one."""
Film = Callable[[Any, float | None], Any]
"""From an object and a time [s], by default its task's, to a player."""

_PROVIDERS: list[str] = []
_RENDERERS: dict[type, tuple[Picture, Markup]] = {}
_FILMS: dict[type, Film] = {}
_latest: list[tuple[weakref.ref, bytes | None]] = []
"""The object drawn last, and its picture: notebooks ask for it twice."""


def provide(module: str) -> None:
    """Name a module that calls `register` when it is imported."""
    if module not in _PROVIDERS:
        _PROVIDERS.append(module)


def register(kind: type, *, png: Picture, html: Markup) -> None:
    """Say how objects of a class are shown."""
    _RENDERERS[kind] = png, html


def register_film(kind: type, film: Film) -> None:
    """Say how objects of a class are shown in motion."""
    _FILMS[kind] = film


class Displayed:
    """A base of what notebooks show as pictures."""

    def _repr_png_(self) -> bytes | None:
        if not _latest or _latest[0][0]() is not self:
            _latest[:] = [(weakref.ref(self), _attempt(lambda: _renderers(self)[0](self)))]
        return _latest[0][1]

    def _repr_html_(self) -> str | None:
        picture = self._repr_png_()
        return _attempt(lambda: _renderers(self)[1](self, picture))


class Moving(Displayed):
    """A base of what can be shown in motion."""

    def show(self, seconds: float | None = None) -> Any:
        """Simulate it and play it: inline in a notebook, elsewhere in a browser.

        Args:
            seconds: how long the episode is [s]; by default as long as its task.

        Returns:
            The player, with the page as `html`, and `save(file)`.
        """
        for module in _PROVIDERS:
            import_module(module)
        film = next(_FILMS[kind] for kind in type(self).__mro__ if kind in _FILMS)
        return film(self, seconds).shown()


def _renderers(described: Displayed) -> tuple[Picture, Markup]:
    for module in _PROVIDERS:
        import_module(module)
    return next(_RENDERERS[kind] for kind in type(described).__mro__ if kind in _RENDERERS)


def _attempt(render: Callable[[], Any]) -> Any:
    """What a notebook is to show, or None, which lets it fall back on text.

    A picture that fails must not keep people from their results, so that every fault is caught here.
    """
    try:
        return render()
    except Exception:
        import logging  # here, for it would double the time that a command takes to hear its first Ctrl-C

        logging.getLogger(__name__).debug("cannot be shown", exc_info=True)
        return None

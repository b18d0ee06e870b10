"""Values that readers of files have stumbled over, or might."""

from __future__ import annotations

from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 255, 1000, 10**6, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**18, 10**40,
    0.0, -0.0, 0.1, 0.5, 1.5, -0.5, 1e-3, 1e-12, 1e-300, 5e-324, 1e6, 1e12, 1e38, 3.5e38, 1e300, 1.7e308, -1e300,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
WORDS: tuple[str, ...] = (
    "", " ", "a", "aa", "a.", "...", ".", "-", "~", "null", "true", "no", "yes", "1", "1.0", "1/3", "1/0", "0/0", "1/",
    "1e999", "0x10", "0o7", "1_000", "12:30", "2024-01-01", "type", "flat", "hilly", "sand", "mlp", "phases", "sine",
    "fixed", "gaussian_mixture", "squares", "points", "float64", "fused", "maximise", "x" * 200, "é", "日本", "\u202e",
    "\ufeff", "\x00", "\x1b[31m", "\ud800", "a\nb", "a: b", "[", "{", "*a", "&a b", "!!python/name:os.system",
    "!!binary aGk=", "%s", "{0}", "../x", "/", "/dev/null", "[bold]", "$HOME", "`ls`", "'", '"', "#", "|", ">", "?",
)  # fmt: skip
PIECES: tuple[str, ...] = (
    "&a [*a]", "&a {<<: *a}", "*unknown", "<<: {}", "? [a]\n: b", "!!python/object:os.system {}", "!unknown x",
    "!!set {a}", "!!omap [a: 1]", "--- ", "...\n", "%YAML 9.9\n---\n", "%TAG ! x\n", "\t", "\x00", "\ufeff", "\x85",
    "- - - -", "{", "}", "[", "]", ": ", ",", "'", '"', "|\n", ">-\n", "#", "\\", "\r\n", "\r", "\u2028",
    "9" * 4400, "-" + "1" * 5000, "0." + "3" * 5000, "1e" + "9" * 400, "[" * 2000, "{a: " * 800, "- " * 1500,
    "a" * 100_000, "[" + "0," * 20_000 + "0]", "1e999", ".inf", "-.inf", ".nan", "null",
    "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
    "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
    "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
    "g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\nh: [*g, *g, *g, *g, *g, *g, *g, *g, *g]\n",
)  # fmt: skip


def any_value(random: Random, depth: int = 2) -> Any:
    """A number, a word, nothing, or a list or mapping of such."""
    chance = random.random()
    if chance < 0.4:
        return random.choice(NUMBERS)
    if chance < 0.7 or depth == 0:
        return random.choice(WORDS)
    if chance < 0.78:
        return random.choice((None, True, False))
    if chance < 0.9:
        return [any_value(random, depth - 1) for _ in range(random.choice((0, 1, 2, 3, 5)))]
    names = random.sample(("type", "a", "b", "x", "", "shape", "file", "weights", "1"), random.choice((0, 1, 2)))
    return {name: any_value(random, depth - 1) for name in names}

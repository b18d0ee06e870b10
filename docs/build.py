"""Build the site from these pages: `make docs`, into out/site.

Three pages of the reference are made here and not stored: commands (from click), keys (from the schema of files) and
the Python interface (from docstrings). Nothing is fetched, neither by the build nor by the site.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LINK = re.compile(r"\]\(([^)\s]+\.md)\)")
MEDIA = {".png", ".gif", ".jpg", ".svg", ".yaml", ".csv", ".json", ".npz", ".mp4"}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown; empty without rows."""
    lines = [head, ("---",) * len(head), *rows]
    return (
        "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines) if rows else ""
    )


def code(text: str) -> str:
    """Text as code, on one line."""
    return f"`{' '.join(text.split())}`" if text else ""


def one_line(text: str) -> str:
    return " ".join(text.split())


# Commands


def commands_page() -> str:
    """Every command with its arguments and options, as `vsr COMMAND --help` has them."""
    from vsr.cli import main

    parts = ["# Commands", "Made from the program. `vsr COMMAND --help` prints the same in a terminal."]
    return "\n\n".join([*parts, *_commands(main, "vsr", 2)]) + "\n"


def _commands(group: Any, path: str, level: int) -> Iterator[str]:
    import click

    section = None
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if getattr(command, "section", None) not in (section, "", None):
            section = command.section
            yield f"{'#' * level} {section}"
        yield f"{'#' * (level + 1)} {path} {name}"
        context = click.Context(command, info_name=f"{path} {name}")
        usage = " ".join([f"{path} {name}", *command.collect_usage_pieces(context)])
        yield f"```\n{usage}\n```"
        yield inspect.cleandoc(command.help or "")
        yield table(("option", "meaning"), [_option(one) for one in command.get_params(context) if _is_option(one)])
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}", level + 1)


def _is_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and "--help" not in parameter.opts and not parameter.hidden


def _option(option: Any) -> tuple[str, str]:
    import click

    names, help_text = option.get_help_record(click.Context(click.Command("x"))) or (", ".join(option.opts), "")
    return code(names), one_line(help_text)


# Keys of files


def keys_page() -> str:
    """Every key of every kind of file, and every component that a file can name."""
    from vsr.experiments.catalog import FILES, KINDS, components, schema

    schemas = {kind: schema(kind) for kind in FILES}
    parts = [
        "# Keys of files",
        "Made from the schema of files, which `vsr schema KIND` prints for editors. Blocks that several kinds of file"
        " share are described once, and components that a file names by their `type` at the end.",
    ]
    blocks = {name: block for described in schemas.values() for name, block in described.get("$defs", {}).items()}
    for kind, described in schemas.items():
        parts += [f"## kind: {kind}", one_line(described.get("description", "")), _keys(described, blocks)]
    parts.append("## Blocks")
    for name, block in sorted(blocks.items()):
        if not _component(block) and block.get("properties"):
            parts += [f"### {name}", one_line(block.get("description", "")), _keys(block, blocks)]
    parts.append("## Components")
    for kind, (where, _) in KINDS.items():
        parts += [f"### {kind}", f"In a file: {where}. `vsr list {kind}` prints them."]
        for component in components(kind):
            rows = [(code(one.name), one.domain, code(one.default), one_line(one.help)) for one in component.parameters]
            shown = table(("key", "values", "default", "meaning"), rows)
            parts += [f"**`{component.name}`** {one_line(component.help)}", shown]
    return "\n\n".join(part for part in parts if part) + "\n"


def _component(block: Mapping[str, Any]) -> str:
    """The name under which a file chooses it, if it is one of several."""
    return block.get("properties", {}).get("type", {}).get("const", "")


def _keys(described: Mapping[str, Any], blocks: Mapping[str, Any]) -> str:
    required = described.get("required", ())
    rows = [
        (
            code(name),
            allowed(field, blocks),
            "required" if name in required else code(_short(field["default"])) if "default" in field else "",
            one_line(field.get("description", "")),
        )
        for name, field in described.get("properties", {}).items()
    ]
    return table(("key", "values", "default", "meaning"), rows)


def allowed(field: Mapping[str, Any], blocks: Mapping[str, Any]) -> str:
    """The values that a JSON schema allows, in words; a block by its name, with a link."""
    if "anyOf" in field or "oneOf" in field:
        options = list(dict.fromkeys(allowed(one, blocks) for one in field.get("anyOf") or field["oneOf"]))
        return " or ".join(options[:4]) + (" ..." if len(options) > 4 else "")
    if "const" in field:
        return code(str(field["const"]))
    if "enum" in field:
        names = [code(str(name)) for name in field["enum"]]
        return " or ".join(names[:6]) + (" ..." if len(names) > 6 else "")
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        if component := _component(blocks.get(name, {})):
            return code(component)
        return f"[{name}](#{name.lower()})" if blocks.get(name, {}).get("properties") else name
    if field.get("type") == "array":
        inside = field.get("prefixItems") or [field.get("items", {})]
        return "list of " + ", ".join(dict.fromkeys(allowed(one, blocks) for one in inside))
    kind = {"object": "mapping", "string": "text", "boolean": "true or false", "null": "null"}.get(
        field.get("type", ""), field.get("type", "anything")
    )
    return f"{kind} {_interval(field)}".strip()


def _interval(field: Mapping[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    below, above = field.get("exclusiveMinimum"), field.get("exclusiveMaximum")
    if low is None and below is None and high is None and above is None:
        return ""
    left = f"[{_number(low)}" if low is not None else f"({_number(below)}" if below is not None else "(-∞"
    right = f"{_number(high)}]" if high is not None else f"{_number(above)})" if above is not None else "∞)"
    return f"{left}, {right}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) < 1e12 and float(value).is_integer() else f"{value:g}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else "{...}" if isinstance(value, dict) else "[...]"


# Python


def python_page() -> str:
    """Every public name of `vsr` with its signature and docstring."""
    import vsr
    from vsr.experiments.storage.runs import Run

    parts = ["# Python interface", "Made from docstrings. `import vsr`, then these names."]
    named = {name: getattr(vsr, name) for name in vsr.__all__}
    functions = {name: what for name, what in named.items() if inspect.isfunction(what)}
    classes = {name: what for name, what in named.items() if inspect.isclass(what)} | {"Run": Run}
    parts.append("## Functions")
    for name, what in functions.items():
        parts += [f"### vsr.{name}", f"```python\n{name}{_signature(what)}\n```", _docstring(what)]
    parts.append("## Classes")
    for name, what in classes.items():
        parts += [f"### {name}", _docstring(what), _fields(what), *_methods(what)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _signature(function: Callable) -> str:
    """One parameter a line, annotations without quotes."""
    signature = inspect.signature(function)
    shown, marked = [], False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not marked:
            shown.append("*")
            marked = True
        shown.append(str(one).replace("'", ""))
    result = (
        "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}".replace("'", "")
    )
    return "(\n    " + ",\n    ".join(shown) + f",\n){result}"


def _docstring(what: Any) -> str:
    """The first paragraph as text; sections such as Args, and parameters in one paragraph, as lists."""
    first, _, rest = (inspect.getdoc(what) or "").partition("\n\n")
    parts = [one_line(first)]
    for paragraph in rest.split("\n\n"):
        head, _, body = paragraph.partition("\n")
        if re.fullmatch(r"[A-Z]\w+:", head):
            items = re.split(r"\n(?=\S)", inspect.cleandoc("\n" + body))
            parts += [f"**{head[:-1]}**", "\n".join(f"- {one_line(item)}" for item in items)]
        elif paragraph:
            items = re.split(r"; (?=[a-z_]+: )", one_line(paragraph))
            parts.append("\n".join(f"- {item}" for item in items) if len(items) > 1 else items[0])
    return "\n\n".join(parts)


def _fields(kind: type) -> str:
    if not hasattr(kind, "model_fields"):
        return ""
    from vsr.experiments.docstrings import field_descriptions

    help_of = field_descriptions(kind)
    rows = [
        (code(name), "required" if field.is_required() else code(_value(field)), one_line(help_of.get(name, "")))
        for name, field in kind.model_fields.items()
    ]
    return table(("field", "default", "meaning"), rows)


def _value(field: Any) -> str:
    text = repr(field.get_default(call_default_factory=True))
    return text if len(text) <= 60 else text[:57] + "..."


def _methods(kind: type) -> list[str]:
    """Public methods that this class defines, each with the first paragraph of its docstring."""
    rows = [
        (
            code(name + str(inspect.signature(what)).replace("'", "")),
            one_line((inspect.getdoc(what) or "").split("\n\n")[0]),
        )
        for name, what in vars(kind).items()
        if inspect.isfunction(what) and not name.startswith("_") and inspect.getdoc(what)
    ]
    return [table(("method", "meaning"), rows)]


GENERATED: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/keys.md": keys_page,
    "reference/python.md": python_page,
}
"""Pages that are made by the build, by their place among the others."""


# The site


def contents(index: Path) -> list[str]:
    """The pages that an index links to, in their order."""
    return list(dict.fromkeys(LINK.findall(index.read_text())))


def prepare(source: Path) -> None:
    """All pages, those made here too, in a folder from which Sphinx can build the site."""
    shutil.rmtree(source, ignore_errors=True)
    for path in HERE.rglob("*"):
        if path.is_file() and (path.suffix in MEDIA or path.suffix == ".md"):
            target = source / path.relative_to(HERE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name, make in GENERATED.items():
        (source / name).write_text(make())
    for index in sorted(source.rglob("index.md")):
        pages = "\n".join(contents(index))
        index.write_text(f"{index.read_text()}\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n")


def main(arguments: list[str] | None = None) -> int:
    """Build the site; a broken link is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE.parent / "out")
    out: Path = parser.parse_args(arguments).out
    from sphinx.cmd.build import build_main

    prepare(out / "pages")
    shutil.rmtree(out / "site", ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-c", str(HERE), "-d", str(out / "doctrees")]
    status = build_main([*options, str(out / "pages"), str(out / "site")])
    if status == 0:
        sys.stdout.write(f"open {out / 'site' / 'index.html'}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())

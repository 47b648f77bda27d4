"""mkdocs hook: pages that are made from what is elsewhere in the repository, so that they cannot fall behind.

`<!-- commands -->` in a page becomes a section for each command of `ideaw`; `<!-- include NAME -->` becomes the file of
that name at the root of the repository, with its links to `docs/` as seen from there.
"""

import re
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from ideaw.cli import app

COMMANDS = "<!-- commands -->"
INCLUDE = re.compile(r"<!-- include (\S+) -->")
ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page, before its Markdown is converted."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, reference())
    return INCLUDE.sub(lambda match: (ROOT / match[1]).read_text(encoding="utf-8").replace("](docs/", "]("), markdown)


def reference() -> str:
    """Markdown with a section for each command, and one for each below `bench`."""
    return "\n".join(_sections(typer.main.get_command(app), ["ideaw"]))


def _sections(command: Any, path: list[str]) -> list[str]:
    if hasattr(command, "commands"):
        return [line for name, child in command.commands.items() for line in _sections(child, [*path, name])]
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    names = [argument.metavar if argument.required else f"[{argument.metavar}]" for argument in arguments]
    lines = [f"## {' '.join(path[1:])}", "", f"`{' '.join([*path, *names, *(['[OPTIONS]'] if options else [])])}`", ""]
    lines += [command.help or "", "", "| | |", "| --- | --- |"]
    lines += [f"| `{argument.metavar}` | {argument.help or ''} |" for argument in arguments]
    lines += [f"| {_option(option)} | {option.help or ''}{_default(option)} |" for option in options]
    return [*lines, ""]


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    if option.is_flag:
        return names
    choices = [str(choice.value) for choice in type(option.default)] if isinstance(option.default, Enum) else []
    return f"{names} `{'/'.join(choices) or option.metavar or 'N'}`"


def _default(option: Any) -> str:
    if option.required:
        return " (required)"
    if isinstance(option.show_default, str):
        return f" Default: {option.show_default}."
    if option.is_flag or option.default in (None, (), []):
        return ""
    return f" Default: {option.default.value if isinstance(option.default, Enum) else option.default}."

"""Every command that a page names exists, with the options that the page gives it.

The commands of whole pages run in test_examples.py. Here all of them are parsed, also those that are left out
there, and those in the middle of a sentence, whose arguments may be missing.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest
from typer.main import get_command

from manyarms.cli.main import app
from tests.docs.pages import ROOT, blocks, commands
from tests.docs.stages import LEFT_OUT, STAGES
from tests.docs.test_examples import ALL

ACT_AT_ONCE = {"--install-completion", "--show-completion", "--version"}  # already while they are parsed
EXTRAS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
)


def parse(words: list[str]) -> None:
    """Parse a command with the parser of the program, without running it."""
    command: Any = get_command(app)
    parent, name, arguments = None, words[0], words[1:]
    while True:
        context = command.make_context(name, list(arguments), parent=parent)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*context._protected_args, *context.args]
        name, command, arguments = command.resolve_command(context, rest)
        parent = context


def problem(words: list[str]) -> str | None:
    """What the parser says about a command; None if it accepts it."""
    try:
        parse(words)
    except Exception as found:
        return f"{type(found).__name__}: {found}"
    return None


@pytest.mark.parametrize("page", ALL)
def test_every_command_in_a_block_is_accepted(page: str) -> None:
    for _, language, code in blocks(page):
        for command in commands(code) if language == "bash" else []:
            words = shlex.split(command, comments=True)
            if words[0] == "manyarms":
                assert problem(words) is None, f"{page}: {command}"


@pytest.mark.parametrize("page", ALL)
def test_every_option_of_a_command_in_a_sentence_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for command in re.findall(r"`(manyarms [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)):
        words = [word for word in shlex.split(command) if word not in {*ACT_AT_ONCE, "…"}]
        found = (problem(words) if words[1:] else None) or ""
        assert not re.match("NoSuchOption|UsageError: No such command", found), f"{page}: {command}: {found}"


def test_what_is_wrong_is_found() -> None:
    assert "NoSuchOption" in str(problem(["manyarms", "ask", "c.db", "--no-such-option"]))
    assert "No such command" in str(problem(["manyarms", "aks", "c.db"]))
    assert "MissingParameter" in str(problem(["manyarms", "agents", "new", "c.agents"]))


def test_every_extra_that_a_page_installs_exists() -> None:
    named = set()
    for page in ALL:
        text = (ROOT / page).read_text(encoding="utf-8")
        for extras in re.findall(r"manyarms\[([\w, -]+)\]", text):
            named |= {extra.strip() for extra in extras.split(",")}
    assert named
    assert named <= EXTRAS, named - EXTRAS


def test_every_reason_for_leaving_a_command_out_is_used() -> None:
    all_commands = {
        page: [c for _, kind, code in blocks(page) if kind == "bash" for c in commands(code)] for page in ALL
    }
    everything = [command for found in all_commands.values() for command in found]
    for start in LEFT_OUT:
        assert any(command.startswith(start) for command in everything), start
    for page in ("docs/agents.md", "docs/flower.md"):
        for start in STAGES[page]().left_out:
            assert any(command.startswith(start) for command in all_commands[page]), f"{page}: {start}"

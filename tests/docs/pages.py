"""Run the examples of a page: Python blocks and commands, in order, as one session in the current folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.docs.stages import Stage

ROOT = Path(__file__).resolve().parents[2]
FENCED = r"^```(?P<language>python|bash)\n(?P<fenced>.*?)^```$"
INDENTED = r"(?P<indented>(?:^    (?:manyarms|make) [^\n]*\n)+)"  # as in README.md, which has to be short


def blocks(page: str) -> list[tuple[int, str, str]]:
    """The examples of a page: the number of the line before each, its language and its text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(f"{FENCED}|{INDENTED}", text, re.DOTALL | re.MULTILINE)
    return [
        (text[: match.start("fenced")].count("\n"), match["language"], match["fenced"])
        if match["indented"] is None
        else (text[: match.start()].count("\n"), "bash", match["indented"])
        for match in found
    ]


def commands(code: str) -> list[str]:
    """The commands of a block, one for each line that is not continued, without comments."""
    joined = re.sub(r"\\\n\s*", "", code)
    lines = [line.strip() for line in joined.splitlines()]
    return [line for line in lines if shlex.split(line, comments=True)]


def run_page(page: str, stage: Stage | None = None, only: str = "") -> dict[str, Any]:
    """The names that the examples of a page define; an error shows the line of the page.

    stage: what the page takes for granted, such as a table or a service; nothing by default.
    only: "python" leaves the commands out.
    """
    stage = stage or Stage()
    names: dict[str, Any] = {"__name__": "__main__", **stage.names}
    found = blocks(page)
    assert found, f"{page} has no example"
    with stage:
        for line, language, code in found:
            if language == "python":
                code = stage.replaced(code)
                exec(compile("\n" * line + code, str(ROOT / page), "exec"), names)
            elif only != "python":
                run_commands(code, f"{page}, line {line + 1}", stage)
    return names


def run_commands(code: str, place: str, stage: Stage) -> None:
    """Run commands with the programs of this environment; the first that fails is an error."""
    for command in commands(code):
        if stage.leaves_out(command):
            continue
        words = shlex.split(stage.replaced(command), comments=True)
        stage.before(words)
        if words[:2] == ["manyarms", "serve"]:
            stage.serve(words)
        else:
            run(stage.replaced(command), place)
        stage.after(words)


def run(command: str, place: str) -> None:
    """Run one command; a failure shows what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{place}:\n{command}\n{done.stdout}\n{done.stderr}"

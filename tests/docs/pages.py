"""Run the examples of a page: Python and shell blocks, in order, as one session in the current folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str) -> list[tuple[int, str, str]]:
    """The examples of a page: the number of the line before each, its language and its text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```(python|bash)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(2)].count("\n"), match[1], match[2]) for match in found]


def run_page(page: str) -> dict[str, Any]:
    """The names that the examples of a page define; an error shows the line of the page."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = blocks(page)
    assert found, f"{page} has no example"
    for line, language, code in found:
        if language == "python":
            exec(compile("\n" * line + code, str(ROOT / page), "exec"), names)
        else:
            run_commands(code, f"{page}, line {line + 1}")
    return names


def run_commands(code: str, place: str) -> None:
    """Run shell commands with the programs of this environment; the first that fails is an error."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", code],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{place}:\n{code}\n{done.stdout}\n{done.stderr}"

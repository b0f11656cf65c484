"""The worker process of `run --python module:function`: it answers each line of JSON with a line of JSON.

It runs as a plain script and imports only the standard library and the user's module. Whatever the function
prints goes to standard error, so that it cannot be mistaken for an answer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from types import SimpleNamespace
from typing import Any


def _function(name: str) -> Any:
    sys.path.insert(0, os.getcwd())
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{path} is not a function")
    return found


def _error(problem: BaseException) -> dict[str, str]:
    return {"error": f"{type(problem).__name__}: {problem}"}


def main() -> None:
    """Answer questions until the input ends; the standard input of the function is empty."""
    questions = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(reply: dict[str, Any]) -> None:
        answers.write(json.dumps(reply) + "\n")
        answers.flush()

    try:
        function = _function(sys.argv[1])
    except Exception as problem:
        answer(_error(problem))
        return
    answer({"ready": True})
    for line in questions:
        try:
            answer({"value": float(function(SimpleNamespace(**json.loads(line))))})
        except Exception as problem:
            answer(_error(problem))


if __name__ == "__main__":
    main()

"""No random generator is shared between tests: what a test draws must not depend on the tests before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MAKERS = {"default_rng", "Generator", "RandomState", "Random"}


def shared_generators(tree: ast.Module) -> list[int]:
    """Lines that make a generator when a module is imported and do not use it up at once.

    `FEATURES = np.random.default_rng(0).random((9, 2))` makes a constant; the generator is gone.
    """
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return [
        node.lineno
        for node in at_import(tree)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
        in MAKERS
        and not isinstance(parents[node], ast.Attribute)
    ]


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that is evaluated when a module is imported; of functions, decorators and defaults."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in (*child.decorator_list, child.args):
                yield from at_import(part)
        elif isinstance(child, ast.Lambda):
            yield from at_import(child.args)
        else:
            yield from at_import(child)


def test_no_test_module_shares_a_generator() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in shared_generators(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, f"{', '.join(found)}: use the fixture `rng`, or make the generator inside the test"


def test_shared_generators_are_found() -> None:
    shared = "\n".join(
        [
            "rng = np.random.default_rng(0)",
            "class Case:\n    rng = default_rng(0)",
            "def test(rng=np.random.default_rng(0)): ...",
            "CASES = [np.random.RandomState(1)]",
        ]
    )
    assert shared_generators(ast.parse(shared)) == [1, 3, 4, 5]
    own = "\n".join(
        [
            "X = np.random.default_rng(0).random(9)",
            "def test():\n    rng = np.random.default_rng(0)",
            "make = lambda: default_rng(0)",
        ]
    )
    assert shared_generators(ast.parse(own)) == []

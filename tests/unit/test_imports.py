"""Importing is quick and light, and imports point one way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import manyarms

SOURCE = Path(manyarms.__file__).parent

# From the ground up. A package, or a module beside them, may import from those above it in this list.
LAYERS = [
    "errors",
    "support",
    "kernels",
    "pool",
    "embeddings",
    "posterior",
    "sketch",
    "learning",
    "choice",
    "policies",
    "run",
    "agents",
    "problems",
    "campaigns",
    "reproduce",
    "testing",
    "cli",
    "demo",
    "__main__",
]
LEVEL = {part: level for level, part in enumerate(LAYERS)}
HEAVY = ["scipy.linalg", "scipy.spatial", "pandas", "polars", "narwhals", "pyarrow", "sklearn"]
HEAVY += ["sqlalchemy", "typer", "rich", "matplotlib", "rdkit", "psycopg"]


def module_name(path: Path) -> str:
    parts = ["manyarms", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that may run, inside functions too; not what is for the type checker alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from statements(node)


def imported(path: Path) -> set[str]:
    """Modules of this package that a file imports, at its top or inside a function."""
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are written in full, from manyarms.…"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else str(node.module))
    return {name for name in found if name in MODULES}


GRAPH = {name: imported(path) for name, path in MODULES.items()}


def part(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """A chain of modules that comes back to its start, or None."""
    done: set[str] = set()

    def walk(name: str, chain: list[str]) -> list[str] | None:
        if name in chain:
            return [*chain[chain.index(name) :], name]
        if name in done:
            return None
        for other in sorted(graph[name]):
            found = walk(other, [*chain, name])
            if found:
                return found
        done.add(name)
        return None

    return next((found for name in graph if (found := walk(name, []))), None)


def test_every_module_has_a_layer() -> None:
    homeless = sorted(name for name in MODULES if part(name) and part(name) not in LEVEL)
    assert not homeless, f"{', '.join(homeless)}: say in LAYERS of {Path(__file__).name} where this belongs"


@pytest.mark.parametrize("module", [name for name in MODULES if part(name)])
def test_imports_point_one_way(module: str) -> None:
    level = LEVEL.get(part(module), len(LAYERS))
    against = sorted(
        name for name in GRAPH[module] if part(name) != part(module) and LEVEL.get(part(name), -1) > level
    )
    assert not against, f"{module} (layer {level}) imports {', '.join(against)} from a layer above it"


def test_there_is_no_cycle() -> None:
    # A package's __init__ gathers its modules, which import each other by full name: only files count.
    files = {name: {other for other in others if other != "manyarms"} for name, others in GRAPH.items()}
    files["manyarms.run.optimizer"].discard("manyarms.run.checkpoint")
    assert cycle(files) is None, " → ".join(cycle(files) or [])


def test_the_cycle_finder_finds() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_nothing_inside_imports_the_front_door() -> None:
    outside = {"demo", "cli", "reproduce", "testing"}
    inward = sorted(
        name for name in MODULES if "manyarms" in GRAPH[name] and part(name) not in {"", *outside}
    )
    assert not inward, f"{', '.join(inward)}: import from the module itself, not from manyarms"


def run_fresh(code: str, **environment: str) -> str:
    """What a new interpreter prints."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = [sys.executable, "-c", code]
    return subprocess.run(run, check=True, capture_output=True, text=True, env=inherited | environment).stdout


def test_import_leaves_heavy_libraries_alone() -> None:
    loaded = run_fresh("import sys, manyarms; print(*sys.modules)", PYTHONDONTWRITEBYTECODE="1").split()
    assert "manyarms.pool.pool" in loaded
    assert not [name for name in HEAVY if name in loaded]


def test_import_takes_less_than_300_ms(tmp_path: Path) -> None:
    # As for any installed package, bytecode is compiled once (here by the first run) and then read.
    # Processor time: the clock on the wall would count the other tests that share the cores.
    code = "import time; t = time.process_time(); import manyarms; print(time.process_time() - t)"
    run_fresh(code, PYTHONPYCACHEPREFIX=str(tmp_path))
    # The least of up to ten: a busy machine only ever adds to what the import itself takes.
    seconds: list[float] = []
    while len(seconds) < 10 and min(seconds, default=1.0) >= 0.3:
        seconds.append(float(run_fresh(code, PYTHONPYCACHEPREFIX=str(tmp_path))))
    assert min(seconds) < 0.3, seconds

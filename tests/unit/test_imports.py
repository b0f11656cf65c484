"""Importing is light, and imports point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import manyarms

SOURCE = Path(manyarms.__file__).parent

# From the ground up. A package, or a module beside them, may import from those above it in this list.
LAYERS = [
    "errors",
    "support",
    "kernels",
    "pool",
    "engines",
    "embeddings",
    "posterior",
    "sketch",
    "learning",
    "choice",
    "policies",
    "run",
    "contextual",
    "continuous",
    "agents",
    "problems",
    "plots",
    "campaigns",
    "federation",
    "sklearn",
    "service",
    "optuna",
    "kernel_tuner",
    "reproduce",
    "testing",
    "demo",
    "cli",
    "__main__",
]
LEVEL = {part: level for level, part in enumerate(LAYERS)}
HEAVY = ["scipy.linalg", "scipy.spatial", "pandas", "polars", "narwhals", "pyarrow", "sklearn"]
HEAVY += ["altair", "sqlalchemy", "typer", "rich", "matplotlib", "rdkit"]
HEAVY += ["psycopg", "fastapi", "uvicorn", "httpx", "pydantic", "numba"]
HEAVY += ["distributed", "dask", "flwr"]


def module_name(path: Path) -> str:
    parts = ["manyarms", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(path: Path) -> set[str]:
    """The modules of this package that a file imports, including inside functions and for type checking."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are written in full, from manyarms.…"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else str(node.module))
    return {name for name in found if name in MODULES}


@cache
def graph() -> dict[str, set[str]]:
    """The imports of every module; read once, by the first test that asks."""
    return {name: imported(path) for name, path in MODULES.items()}


def part(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def cycle(imports: dict[str, set[str]]) -> list[str] | None:
    """A chain of modules that comes back to its start, or None."""
    done: set[str] = set()

    def walk(name: str, chain: list[str]) -> list[str] | None:
        if name in chain:
            return [*chain[chain.index(name) :], name]
        if name in done:
            return None
        for other in sorted(imports[name]):
            found = walk(other, [*chain, name])
            if found:
                return found
        done.add(name)
        return None

    return next((found for name in imports if (found := walk(name, []))), None)


def test_every_module_has_a_layer() -> None:
    homeless = sorted(name for name in MODULES if part(name) and part(name) not in LEVEL)
    assert not homeless, f"{', '.join(homeless)}: say in LAYERS of {Path(__file__).name} where this belongs"


def against_the_layers(imports: dict[str, set[str]]) -> list[str]:
    """Every import from a layer above the importing module's own."""
    return [
        f"{module} imports {name}"
        for module in sorted(imports)
        for name in sorted(imports[module])
        if part(module) and part(name) != part(module)
        and LEVEL.get(part(name), -1) > LEVEL.get(part(module), len(LAYERS))
    ]  # fmt: skip


def test_imports_point_one_way() -> None:
    assert not against_the_layers(graph()), "a module imports from a layer above its own"


def test_an_import_against_the_layers_is_found() -> None:
    wrong = {"manyarms.kernels.base": {"manyarms.pool.pool", "manyarms.errors"}, "manyarms": {"manyarms.run"}}
    assert against_the_layers(wrong) == ["manyarms.kernels.base imports manyarms.pool.pool"]


def test_there_is_no_cycle() -> None:
    # A package's __init__ gathers its modules, which import each other by full name: only files count.
    files = {name: {other for other in others if other != "manyarms"} for name, others in graph().items()}
    assert cycle(files) is None, " → ".join(cycle(files) or [])


def test_the_cycle_finder_finds() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_nothing_inside_imports_the_front_door() -> None:
    outside = {"demo", "cli", "reproduce", "testing"}
    inward = sorted(
        name for name in MODULES if "manyarms" in graph()[name] and part(name) not in {"", *outside}
    )
    assert not inward, f"{', '.join(inward)}: import from the module itself, not from manyarms"


def loaded_by_the_import() -> set[str]:
    """The modules that `import manyarms` loads in a new interpreter, beyond those that numpy loads."""
    code = "import sys, numpy.typing; before = set(sys.modules); import manyarms; "
    code += "print(*(set(sys.modules) - before))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )


def test_import_is_light() -> None:
    """How long an import takes depends on the machine; what it loads does not, and decides how long.

    Today 162 modules of this package and 49 of the standard library, about 0.1 s with those of numpy. The
    bounds leave room for a few more, and for another version of Python.
    """
    loaded = loaded_by_the_import()
    own = {name for name in loaded if name.partition(".")[0] == "manyarms"}
    standard = {name for name in loaded if name.partition(".")[0] in sys.stdlib_module_names}
    assert "manyarms.pool.pool" in own
    assert not loaded & set(HEAVY), "imported at first use only"
    assert not loaded - own - standard, "numpy is the only other library that an import needs"
    assert len(own) <= 170, sorted(own)
    assert len(standard) <= 70, sorted(standard)

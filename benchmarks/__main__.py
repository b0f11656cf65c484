"""Run benchmarks, print one table, and write the figures as JSON to `benchmarks/results/`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import Row, discover, select
from benchmarks.timing import one_thread
from manyarms.reproduce.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks named in the arguments. Exit code 1: a bar was missed (never in smoke mode)."""
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(discover()))
        return 0
    try:
        chosen = select(options.names)
    except LookupError as problem:
        print(problem.args[0], file=sys.stderr)
        return 2
    rows: list[Row] = []
    with one_thread():
        for name, benchmark in chosen.items():
            print(f"running {name}", file=sys.stderr, flush=True)
            rows += benchmark(options.smoke)
    print(table(rows, enforced=not options.smoke))
    print(f"written to {_write(rows, options.smoke, options.results)}", file=sys.stderr)
    return int(not options.smoke and any(row.ok is False for row in rows))


def table(rows: list[Row], enforced: bool = True) -> str:
    """The rows as text in aligned columns: name, figure, bar, whether it was met, and note."""
    verdict = {True: "ok", False: "MISSED", None: ""} if enforced else {True: "", False: "", None: ""}
    cells = [("benchmark", "measured", "bar", "", "note")]
    cells += [(r.name, f"{r.measured:.4g} {r.unit}".strip(), r.bar, verdict[r.ok], r.note) for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(c, widths, strict=True)) for c in cells]
    return "\n".join(line.rstrip() for line in lines)


def _write(rows: list[Row], smoke: bool, folder: Path) -> Path:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    record = {**provenance(), "when": when, "smoke": smoke, "rows": [asdict(row) for row in rows]}
    folder.mkdir(parents=True, exist_ok=True)
    stamp, commit = when.replace(":", "").replace("-", ""), (record["commit"] or "unknown")[:10]
    path = folder / f"{stamp}-{commit}{'-smoke' if smoke else ''}.json"
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="module or module.function; default: all")
    parser.add_argument(
        "--smoke", action="store_true", help="tiny problems that take seconds; bars are not enforced"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the benchmarks and exit")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON record")
    return parser


if __name__ == "__main__":
    sys.exit(main())

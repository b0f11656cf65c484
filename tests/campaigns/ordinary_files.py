"""Sixty-odd ordinary tables, as people's programs write them, and what each must be read as.

Most hold the same six candidates, so that their expected features are those of `PLAIN`. A case is either read
(`features`: the expected columns by name) or refused (`refused`: words of the reason).
"""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl

IDS = ["p1", "p2", "p3", "p4", "p5", "p6"]
A, B = [1.5, 2.25, -3.0, 4.0, 0.5, 6.0], [10, 20, 30, 40, 50, 60]
KIND = ["red", "blue", "red", "blue", "red", "blue"]
TABLE = {"name": IDS, "a": A, "b": B, "kind": KIND}
FRAME = pd.DataFrame(TABLE)
RED = [float(kind == "red") for kind in KIND]
PLAIN = {"a": A, "b": [*map(float, B)], "kind = blue": [1 - red for red in RED], "kind = red": RED}
TEXT = FRAME.to_csv(index=False)
GERMAN = FRAME.to_csv(index=False, sep=";", decimal=",")
DAYS = [float((datetime.date(2024, 1, 1) - datetime.date(1970, 1, 1)).days + 13 * i) for i in range(6)]
DATES = [datetime.date(2024, 1, 1) + datetime.timedelta(days=13 * i) for i in range(6)]


@dataclass(frozen=True)
class Case:
    """A file (text, bytes, or a function that writes it), the options of `new`, and the expected outcome."""

    name: str
    content: str | bytes | Callable[[Path], None]
    features: dict[str, list[float]] | None = None
    refused: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    id: str | None = "name"
    ids: list[str] = field(default_factory=lambda: list(IDS))
    file: str = "pool.csv"

    def write(self, folder: Path) -> Path:
        path = folder / self.file
        if callable(self.content):
            self.content(path)
        else:
            path.write_bytes(self.content.encode() if isinstance(self.content, str) else self.content)
        return path


def column(name: str, cells: list[str], delimiter: str = ",") -> str:
    """A table of ids, the numbers `a` and one more column."""
    rows = zip(IDS, A, cells, strict=True)
    lines = [delimiter.join(["name", "a", name]), *(delimiter.join([i, str(a), c]) for i, a, c in rows)]
    return "\n".join(lines) + "\n"


def excel(rows: list[list[Any]], sheets: tuple[str, ...] = ("Sheet1",)) -> Callable[[Path], None]:
    """Write the rows to every sheet of a workbook."""

    def write(path: Path) -> None:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for name in sheets:
            sheet = book.create_sheet(name)
            for row in rows:
                sheet.append(row)
        book.save(path)

    return write


ROWS = [[*TABLE], *(list(row) for row in zip(*TABLE.values(), strict=True))]
DATED = [
    ["name", "a", "day"],
    *([i, a, datetime.datetime(d.year, d.month, d.day)] for i, a, d in zip(IDS, A, DATES, strict=True)),
]


def pandas_excel(path: Path) -> None:
    FRAME.to_excel(path, index=False)


def german(text: str = GERMAN) -> str:
    return text.replace("name;a;b;kind", "name;Höhe;b;kind")


HEIGHT = {("Höhe" if name == "a" else name): values for name, values in PLAIN.items()}
FLAGS = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def flags(yes: str, no: str) -> list[str]:
    return [yes if flag else no for flag in FLAGS]


def stamps(form: str) -> list[str]:
    return [day.strftime(form) for day in DATES]


def with_a(name: str, values: list[float]) -> dict[str, list[float]]:
    return {"a": A, name: values}


def utf_16(text: str) -> bytes:
    return text.encode("utf-16")


def r_table(delimiter: str = " ") -> str:
    """As R's write.table writes it: quoted texts, and a header without a name for the row names."""
    lines = [delimiter.join(f'"{name}"' for name in ("a", "b", "kind"))]
    lines += [
        delimiter.join([f'"{i}"', str(a), str(b), f'"{k}"'])
        for i, a, b, k in zip(IDS, A, B, KIND, strict=True)
    ]
    return "\n".join(lines) + "\n"


HOLES = [1.5, np.nan, -3.0, 4.0, np.nan, 6.0]
FILLED = {"a": [1.5, 2.75, -3.0, 4.0, 2.75, 6.0], "a is missing": [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]}
HOLED = pd.DataFrame({"name": IDS, "a": HOLES, "b": B})
FILLED_B = {"a": FILLED["a"], "a is missing": FILLED["a is missing"], "b": [*map(float, B)]}

CASES = [
    # ---- written by pandas and polars
    Case("pandas", TEXT, PLAIN),
    Case("pandas with its index", FRAME.to_csv(), PLAIN),
    Case("pandas index as ids", FRAME.drop(columns="name").to_csv(), PLAIN, id=None, ids=list("012345")),
    Case("pandas, named index", FRAME.set_index("name").to_csv(), PLAIN),
    Case("pandas, tabs in .csv", FRAME.to_csv(index=False, sep="\t"), PLAIN),
    Case("pandas, tabs in .txt", FRAME.to_csv(index=False, sep="\t"), PLAIN, file="pool.txt"),
    Case("pandas, bars", FRAME.to_csv(index=False, sep="|"), PLAIN),
    Case("pandas, all quoted", FRAME.to_csv(index=False, quoting=1), PLAIN),
    Case("pandas, decimal comma in a comma file", FRAME.to_csv(index=False, decimal=","), PLAIN),
    Case("pandas, Windows lines", FRAME.to_csv(index=False, lineterminator="\r\n"), PLAIN),
    Case("pandas, old Mac lines", FRAME.to_csv(index=False, lineterminator="\r"), PLAIN),
    Case("pandas, NaN as empty", HOLED.to_csv(index=False), FILLED_B),
    Case("pandas, NaN as NA", HOLED.to_csv(index=False, na_rep="NA"), FILLED_B),
    Case("pandas, dates", column("day", [str(d) for d in DATES]), with_a("day", DAYS)),
    Case("pandas, Parquet", lambda path: FRAME.to_parquet(path, index=False), PLAIN, file="pool.parquet"),
    Case("pandas, Parquet with holes", lambda path: HOLED.to_parquet(path), FILLED_B, file="pool.parquet"),
    Case("pandas, gzip", gzip.compress(TEXT.encode()), PLAIN, file="pool.csv.gz"),
    Case("pandas, two columns of one name", TEXT.replace("a,b", "a,a"), refused="'a' appears more than once"),
    Case("polars", pl.DataFrame(TABLE).write_csv(), PLAIN),
    Case("polars, semicolons", pl.DataFrame(TABLE).write_csv(separator=";"), PLAIN),
    Case("polars, Parquet with categories and dates",
         lambda path: pl.DataFrame({"name": IDS, "kind": pl.Series(KIND, dtype=pl.Categorical), "day": DATES})
         .write_parquet(path), {"day": DAYS, **{k: PLAIN[k] for k in ("kind = blue", "kind = red")}},
         file="pool.parquet"),
    Case("polars, booleans", pl.DataFrame({"name": IDS, "a": A, "f": [f == 1 for f in FLAGS]}).write_csv(),
         with_a("f", FLAGS)),
    Case("polars, Parquet with booleans",
         lambda path: pl.DataFrame({"name": IDS, "a": A, "f": [f == 1 for f in FLAGS]}).write_parquet(path),
         with_a("f", FLAGS), file="pool.parquet"),
    Case("polars, time stamps with microseconds",
         column("t", [f"{d}T12:00:00.000000" for d in DATES]), with_a("t", [d + 0.5 for d in DAYS])),
    # ---- R
    Case("R, write.csv with row names", FRAME.set_index("name").to_csv(index_label="", quoting=2), PLAIN,
         id=None),
    Case("R, write.table", r_table(), PLAIN, id=None),
    Case("R, write.table with tabs", r_table("\t"), PLAIN, id=None, file="pool.tsv"),
    Case("R, write.csv2", GERMAN.replace(".", ","), PLAIN),
    Case("R, TRUE and FALSE", column("f", flags("TRUE", "FALSE")), with_a("f", FLAGS)),
    # ---- Excel
    Case("Excel by pandas", pandas_excel, PLAIN, file="pool.xlsx"),
    Case("Excel by openpyxl", excel(ROWS), PLAIN, file="pool.xlsx"),
    Case("Excel, dates", excel(DATED), with_a("day", DAYS), file="pool.xlsx"),
    Case("Excel, empty rows and columns", excel([[], *([*row, None, None] for row in ROWS), [], [None, ""]]),
         PLAIN, file="pool.xlsx"),
    Case("Excel, numbers stored as text", excel([[str(cell) for cell in row] for row in ROWS]), PLAIN,
         file="pool.xlsx"),
    Case("Excel, two filled sheets", excel(ROWS, ("old", "new")), refused="several sheets: state which",
         file="pool.xlsx"),
    Case("Excel, a named sheet", excel(ROWS, ("old", "new")), PLAIN, file="pool.xlsx",
         options={"sheet": "new"}),
    Case("Excel, a sheet that is not there", excel(ROWS), refused="no sheet 'x'", file="pool.xlsx",
         options={"sheet": "x"}),
    Case("Excel, a formula without a result", excel([["name", "a"], ["p1", 1], ["p2", "=1+1"]]),
         refused="'=1+1' has no stored result", file="pool.xlsx"),
    Case("Excel, US CSV", "\ufeff" + TEXT.replace("\n", "\r\n"), PLAIN),
    Case("Excel, German CSV", german().replace("\n", "\r\n").encode("cp1252"), HEIGHT),
    Case("Excel, German CSV in UTF-8", ("\ufeff" + german()).encode(), HEIGHT),
    Case("Excel, Unicode text", utf_16(german().replace(";", "\t")), HEIGHT, file="pool.txt"),
    Case("Excel, sep line", "sep=;\r\n" + GERMAN, PLAIN),
    Case("Excel, trailing delimiters", TEXT.replace("\n", ",,\n") + ",,,,,\n,,,,,\n", PLAIN),
    Case("an .xls file", TEXT, refused="known extensions", file="pool.xls"),
    Case("a text named .xlsx", TEXT, refused="not a readable Excel file", file="pool.xlsx"),
    # ---- locales and encodings
    Case("Latin-1", TEXT.replace("red", "grün").replace("blue", "blau").encode("latin-1"),
         {"a": A, "b": PLAIN["b"], "kind = blau": PLAIN["kind = blue"], "kind = grün": RED}),
    Case("UTF-16 without a mark", TEXT.encode("utf-16-le"), PLAIN),
    Case("UTF-16, big end first", b"\xfe\xff" + TEXT.encode("utf-16-be"), PLAIN),
    Case("Polish, not stated", TEXT.replace("red", "żółty").encode("cp1250"), refused="state its encoding"),
    Case("Polish, stated", TEXT.replace("red", "żółty").encode("cp1250"),
         {"a": A, "b": PLAIN["b"], "kind = blue": PLAIN["kind = blue"], "kind = żółty": RED},
         options={"encoding": "cp1250"}),
    Case("an unknown encoding", TEXT, refused="unknown encoding 'utf-99'", options={"encoding": "utf-99"}),
    Case("a picture named .csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1", refused="zero bytes"),
    Case("US thousands", column("n", ['"1,200"', '"3,400"', '"1,500"'] * 2).replace("a", "a"),
         refused="'1,200' is not a plain number"),
    Case("US thousands, ambiguous", "name,n\n" + "".join(f'{i},"1,{j}00"\n' for j, i in enumerate(IDS, 1)),
         refused="'1,100' is ambiguous, a decimal comma or thousands"),
    Case("German thousands", column("n", ["1.200,5"] * 6, ";").replace(";1.5;", ";1,5;"),
         refused="is not a number"),
    Case("Swiss thousands", column("n", ["1'200"] * 3 + ["3'400"] * 3), refused="is not a plain number"),
    Case("both decimal signs", column("n", ["1,5", "2,5", "0,25"] * 2, ";"), refused="is not a plain number"),
    Case("percent signs", column("n", ["10%", "20%", "10 %"] * 2), refused="is not a plain number"),
    Case("prices", column("n", ["$10", "$20.50", "$10"] * 2), refused="is not a plain number"),
    Case("a decimal comma, stated", "name;n\n" + "".join(f"{i};1,{j}00\n" for j, i in enumerate(IDS, 1)),
         {"n": [1.1, 1.2, 1.3, 1.4, 1.5, 1.6]}, options={"decimal": ","}),
    # ---- yes and no, dates
    Case("yes and no", column("f", flags("Yes", "no")), with_a("f", FLAGS)),
    Case("ja and nein", column("f", flags("ja", "nein")), with_a("f", FLAGS)),
    Case("y and n with a hole", column("f", ["y", "n", "y", "", "n", "n"]),
         {"a": A, "f": [1, 0, 1, 0, 0, 0], "f is missing": [0, 0, 0, 1, 0, 0]}),
    Case("German dates", column("day", stamps("%d.%m.%Y")), with_a("day", DAYS)),
    Case("US dates", column("day", stamps("%m/%d/%Y")), with_a("day", DAYS)),
    Case("British dates", column("day", stamps("%d/%m/%Y")), with_a("day", DAYS)),
    Case("dates with day or month first", column("day", ["01/02/2024", "03/04/2024"] * 3),
         refused="the day or the month may come first"),
    Case("dates with a time zone", column("t", [f"{d}T00:00:00+02:00" for d in DATES]),
         with_a("t", [d - 2 / 24 for d in DAYS])),
    Case("times of the day", column("t", ["08:30", "9:00", "12:15", "23:59", "00:00", "10:30"]),
         with_a("t", [8.5, 9.0, 12.25, 23 + 59 / 60, 0.0, 10.5])),
    # ---- untidy
    Case("comments before the header", "# made by hand\n# on Monday\n" + TEXT, PLAIN),
    Case("a header that begins with #", "#" + TEXT, PLAIN, id="#name"),
    Case("a title above the table", "My candidates\n" + TEXT, refused="the file has ['My candidates']"),
    Case("empty lines", "\n" + TEXT.replace("\n", "\n\n"), PLAIN),
    Case("spaces around names", TEXT.replace("name,a,b,kind", "name , a, b ,kind "), PLAIN),
    Case("names in quotes with the delimiter", TEXT.replace("a,b", '"a","b, in mm"'),
         {("b, in mm" if name == "b" else name): values for name, values in PLAIN.items()}),
    Case("a short row", TEXT + "p7,1\n", refused="row 6 (line 8) has 2 cells, the header has 4"),
    Case("a long row", TEXT + "p7,1,2,red,5\n", refused="row 6 (line 8) has 5 cells"),
    Case("an id twice", TEXT + "p1,1,2,red\n", refused="have the same id 'p1'"),
    Case("an id missing", TEXT + ",1,2,red\n", refused="column 'name': the id is empty"),
    Case("one text among numbers", TEXT.replace("p3,-3.0", "p3,low"), refused="'low' is not a number"),
    Case("an error value of Excel", TEXT.replace("p3,-3.0", "p3,#DIV/0!"),
         refused="'#DIV/0!' is not a number"),
    Case("a typographic minus", TEXT.replace("-3.0", "\N{MINUS SIGN}3.0"), PLAIN),
    Case("an infinite number", TEXT.replace("-3.0", "inf"), refused="'inf' is not a finite number"),
    Case("mostly missing", column("n", ["", "", "", "", "1", "2"]), {"a": A}),
    Case("mostly missing but wanted", column("n", ["", "", "", "", "1", "2"]), refused="more than half",
         options={"features": ("n",)}),
    Case("remarks that all differ", column("note", [f"batch {i} was fine" for i in IDS]), {"a": A}),
    Case("a category with a hole", column("k", ["u", "v", "u", "v", "", "u"]),
         {"a": A, "k = u": [1, 0, 1, 0, 0, 1], "k = v": [0, 1, 0, 1, 0, 0],
          "k = (missing)": [0, 0, 0, 0, 1, 0]}),
    Case("no column of numbers", "name,note\n" + "".join(f"{i},about {i}\n" for i in IDS),
         refused="no feature column is left"),
    Case("two possible delimiters", "name;x,y;z\n" + "".join(f"{i};1,2;3\n" for i in IDS),
         refused="commas or semicolons: state the delimiter"),
    Case("two possible delimiters, stated", "name;x,y;z\n" + "".join(f"{i};1,2;3\n" for i in IDS),
         {"x,y": [1.2] * 6, "z": [3.0] * 6}, options={"delimiter": ";"}),
    Case("one column", "a\n" + "".join(f"{a}\n" for a in A), {"a": A}, id=None, ids=[]),
    Case("a header alone", "name,a,b\n", refused="a header but no rows"),
    Case("nothing at all", "", refused="the file is empty"),
]  # fmt: skip

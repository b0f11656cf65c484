"""The candidates of a run, read from a table as a campaign reads its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyarms.campaigns.orders import Issued
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.store.ticket_codes import ticket_code
from manyarms.errors import ChangedPoolError, RunFileError
from manyarms.federation.description import RunDescription
from manyarms.federation.invitation import Invitation
from manyarms.pool.pool import Pool


class CandidateTable:
    """A table of candidates with its pool."""

    def __init__(self, source: Source, pool: Pool) -> None:
        self.source, self.pool = source, pool

    @classmethod
    def new(
        cls,
        path: Path,
        id: str | None,
        features: Sequence[str] | None,
        categories: Sequence[str] | None = None,
        smiles: str | None = None,
        bits: str | None = None,
    ) -> CandidateTable:
        """Read a table for a new run. Texts of few kinds become categories, as in a campaign."""
        numbers, kinds = tuple(features) if features else None, tuple(categories or ())
        source = Source(path.absolute(), id, numbers, kinds, smiles, bits)
        source, pool = source.understood({})
        return cls(source.described(pool), pool)

    @classmethod
    def of_run(cls, description: RunDescription, path: Path | None) -> CandidateTable:
        """The table of a run, at the place where it was or at another one; the content must be the same."""
        if description.table is None:
            raise RunFileError("the candidates of this run are not in a table")
        source = Source.from_plain(description.table)
        place = (path or source.path).absolute()
        if not place.is_file():
            raise RunFileError(f"{place}: the table of candidates is not there; say with --pool where it is")
        try:
            source = source.moved(place)
        except ChangedPoolError:
            raise RunFileError(
                f"{place}: not the table of candidates of the run. Every party needs the same file, byte for "
                "byte: ask the organiser for it"
            ) from None
        pool = source.read()
        description.check_domain(pool)
        return cls(source, pool)

    def plain(self) -> dict[str, Any]:
        """How to read the table, for the description of the run; of its path only the name."""
        return replace(self.source, path=Path(self.source.path.name)).plain()

    @property
    def id_column(self) -> str:
        """The name of the id column; `id` if candidates are numbered."""
        return self.source.id or "id"

    def issued(self, invitation: Invitation, steps: Sequence[int], arms: Sequence[int]) -> list[Issued]:
        """The trials of an agent as tickets of a campaign: what programs, functions and files are given."""
        identity = f"{invitation.description.run} {invitation.agent}"
        nan = float("nan")
        cells, ids = self.source.cells_of(arms), self.pool.ids_of(list(arms))
        return [
            Issued(step, 0, arm, str(id), columns, nan, nan, "", code=ticket_code(identity, identity, step))
            for step, arm, id, columns in zip(steps, arms, ids, cells, strict=True)
        ]

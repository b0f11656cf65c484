"""What every carrier must do: a run over it is the run in one program, to the last message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.federation.support import ALGORITHMS, Problem, make_problem


class CarrierContract:
    """Inherit this and define `carry`, which takes a run from its invitations to its end."""

    algorithms = ALGORITHMS

    def carry(self, problem: Problem) -> None:
        raise NotImplementedError

    def address(self) -> str:
        """The address for the invitations."""
        return ""

    @pytest.mark.parametrize("name", sorted(ALGORITHMS))
    def test_a_run_is_the_same_to_the_last_message(self, name: str, tmp_path: Path) -> None:
        problem = make_problem(tmp_path, name, url=self.address(), algorithm=self.algorithms[name])
        self.carry(problem)
        problem.check()
        assert problem.expected or name == "separate"

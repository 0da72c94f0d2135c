"""Candidates for a lead as real processes, and what must be true of all that they said."""

from __future__ import annotations

import sys
from itertools import pairwise

from tests.support.line_process import LineProcess
from tests.support.waiting import until


class Candidate(LineProcess):
    """A process that leads when it can: `candidate_process`, or another program that says the same words."""

    @classmethod
    async def of_kinformer(cls, name: str, server: str) -> Candidate:
        """Start `candidate_process` for a URL or the path of a kubeconfig."""
        return await cls.start(name, sys.executable, "-m", "tests.support.candidate_process", server, "lock", name)

    @property
    def acts(self) -> list[float]:
        """When it acted as the leader."""
        return [float(line[1]) for line in self.lines if line[0] == "act"]

    async def says(self, word: str, more: int = 1) -> None:
        """Wait until it has said a word some more times."""
        wanted = self.count(word) + more
        await until(lambda: self.count(word) >= wanted, 30, what=f"{self.name} says {word}")


def check_never_both(*candidates: Candidate) -> None:
    """Fail if a candidate acted between two acts of one lead of another."""
    acts = sorted((at, candidate.name) for candidate in candidates for at in candidate.acts)
    changes = [acts[0][1], *(name for (_, before), (_, name) in pairwise(acts) if before != name)]
    for candidate in candidates:  # one that acted again after another had lost the lead in between, and knew it
        assert changes.count(candidate.name) <= candidate.count("lost") + 1, changes

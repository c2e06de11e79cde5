"""What a service says of a question, and who asks it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["NOTHING", "Answer", "Client", "Question"]

Question: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """A JSON object as text, or nothing, or a failure: the rule that a dead letter names, and what was said.

    `passing` tells a failure that may be over soon from one that would come again.
    """

    text: str | None = None
    rule: str | None = None
    said: str | None = None
    passing: bool = False


NOTHING = Answer()


class Client(ABC):
    """Asks one service."""

    @abstractmethod
    def ask(self, questions: Sequence[Question]) -> Mapping[Question, Answer]:
        """The answer to each question; what goes wrong is an answer too."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connections."""

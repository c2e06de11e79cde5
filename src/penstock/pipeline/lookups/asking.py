"""The questions of a batch to one service: each once, none that is remembered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.pipeline.durations import seconds
from penstock.pipeline.lookups.answer import NOTHING, Answer
from penstock.pipeline.lookups.cache import Cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.pipeline.lookups.answer import Client, Question
    from penstock.pipeline.lookups.declared import Lookup
    from penstock.settings import Postgres

__all__ = ["Asking", "asking"]

# A Python worker of Spark serves many batches: connections and answers live as long as it does.
_OPEN: list[tuple[Lookup, Postgres, Asking]] = []


def asking(lookup: Lookup, postgres: Postgres) -> Asking:
    """What asks this service in this process."""
    for known, where, made in _OPEN:
        if (known, where) == (lookup, postgres):
            return made
    made = Asking(lookup, lookup.client(postgres))
    _OPEN.append((lookup, postgres, made))
    return made


class Asking:
    """A client with what it has heard so far."""

    def __init__(self, lookup: Lookup, client: Client) -> None:
        self._client = client
        self._cache = Cache(seconds(lookup.cache) or 0.0, lookup.cache_entries) if lookup.cache else None
        self._fallback = None if lookup.fallback is None else Answer(json.dumps(dict(lookup.fallback), default=str))
        self._missing = NOTHING
        if lookup.missing == "dead letter":
            self._missing = Answer(rule="missing", said=f"{lookup.target()} has nothing for this row")

    def answers(self, questions: Iterable[Question]) -> Mapping[Question, Answer]:
        """The answer to each question; nobody is asked one in which a value is null."""
        found: dict[Question, Answer] = {}
        new = []
        for question in dict.fromkeys(questions):
            known = self._missing if None in question else self._cache.get(question) if self._cache else None
            if known is None:
                new.append(question)
            else:
                found[question] = known
        for question, answer in (self._client.ask(new) if new else {}).items():
            found[question] = self._taken(question, answer)
        return found

    def _taken(self, question: Question, answer: Answer) -> Answer:
        if answer.passing and self._fallback is not None:
            return self._fallback
        taken = self._missing if answer == NOTHING else answer
        if self._cache and answer.rule is None:
            self._cache.put(question, taken)
        return taken

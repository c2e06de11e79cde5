"""The rules of a contract as columns of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.base import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.registry.contract import Contract, Rule

__all__ = ["contract_rules"]


def contract_rules(contract: Contract, rows: DataFrame) -> list[tuple[str, Column, Column]]:
    """Each rule's name, whether a row breaks it, what to say; a rule of a column that is not read is left out."""
    from pyspark.sql import functions as F  # noqa: N812

    found = []
    for rule in contract.rules:
        first = rule.field.partition(".")[0]
        if first in rows.columns and (broken := _broken(rule)) is not None:
            said = F.concat(F.lit(f"{rule.field} is "), F.coalesce(_column(rule).cast("string"), F.lit("empty")))
            found.append((f"contract: {rule.name}", broken, said))
    return found


def _broken(rule: Rule) -> Column | None:
    from pyspark.sql import functions as F  # noqa: N812

    value = _column(rule)
    if rule.kind == "required":
        return value.isNull()
    if rule.kind == "at_least":
        return F.coalesce(value < F.lit(rule.value), F.lit(False))
    if rule.kind == "at_most":
        return F.coalesce(value > F.lit(rule.value), F.lit(False))
    if rule.kind == "pattern":
        return F.coalesce(~value.cast("string").rlike(rule.value), F.lit(False))
    if rule.kind == "one_of":
        return F.coalesce(~value.isin(list(rule.value)), F.lit(False))
    return None


def _column(rule: Rule) -> Column:
    first, *rest = rule.field.split(".")
    (found,) = quoted([first])
    for part in rest:
        found = found.getField(part)
    return found

"""Spark's own plan of a DataFrame, looked into and mended: state, lateness, where a row came from."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from penstock.connectors.base import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

__all__ = [
    "DELAY",
    "OWN",
    "analysed",
    "carried",
    "children",
    "described",
    "elements",
    "first_states",
    "frame",
    "is_time",
    "keeps_state",
    "reads_once",
    "states",
    "walk",
    "with_own_names",
]

DELAY = "spark.watermarkDelayMs"  # Spark's mark on the column that is the event time
OWN = frozenset({"__micros", "__row"})  # columns that an operator of ours puts together for its state
_STATEFUL = re.compile(
    r"Aggregate|Distinct|Deduplicate\w*|TransformWithState\w*|FlatMapGroups\w*WithState|GlobalLimit|Window"
)
_WHOLE = frozenset({"Aggregate", "Filter", "Generate", "Project", "Sort", "SubqueryAlias", "Window"})
_PASSING = re.compile(r"^[~!']+|#\d+L?|-T\d+ms")
_HOPS = re.compile(r"Expand \[\[named_struct\(start, .*")  # a row of each window that it is in
_NAMED = re.compile(r"\b(session_)?window")
_STATES: WeakKeyDictionary[DataFrame, list[Any]] = WeakKeyDictionary()
_WINDOW = re.compile(r"named_struct\(start, .*? AS (?:session_)?window")


def analysed(rows: DataFrame) -> Any:
    """The plan that Spark's analyzer makes."""
    return rows._jdf.queryExecution().analyzed()


def children(node: Any) -> list[Any]:
    """The nodes or expressions right below."""
    return elements(node.children())


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it, inputs before what is made of them."""
    for child in children(node):
        yield from walk(child)
    yield node


def states(rows: DataFrame) -> list[Any]:
    """The operators of a stream that keep state, in the order of the rows; looked for once, as it is slow."""
    if rows not in _STATES:
        _STATES[rows] = [node for node in walk(analysed(rows)) if keeps_state(node)]
    return _STATES[rows]


def keeps_state(node: Any) -> bool:
    """Whether an operator of a stream keeps state."""
    return _keeps_state(node, lambda child: bool(child.isStreaming()))


def first_states(node: Any) -> list[Any]:
    """In a plan of replayed rows: the operators with state that a row meets first."""
    below = [found for child in children(node) for found in first_states(child)]
    if below:
        return below
    return [node] if _keeps_state(node, lambda child: bool(_origins(child))) else []


def described(state: Any) -> str:
    """What an operator keeps, without the numbers that differ from start to start."""
    text = _PASSING.sub("", str(state.simpleString(1000)))
    return text + _lengths(_windows(state)) if state.nodeName() == "Aggregate" else text


def _windows(state: Any) -> str:
    """The nodes that put rows into windows; the text of the whole plan would take a tenth of a second."""
    below = (one for one in walk(children(state)[0]) if _NAMED.search(str(one.output().toString())))
    return "\n".join(str(one.simpleString(25)) for one in below)


def _lengths(plan: str) -> str:
    """How long the windows are that a plan puts its rows into, and how far apart."""
    text = _PASSING.sub("", plan)
    found = "".join(_WINDOW.findall(text))
    micros = _numbers(found)
    for hops in _HOPS.findall(text):
        every = _numbers(hops)
        micros |= {min(every), max(every)}
    lengths = [f"{number / 1_000_000:g} seconds" for number in sorted(micros)] + re.findall(
        r"cast\((.+?) as interval\)", found
    )
    return f" over {', '.join(dict.fromkeys(lengths))}" if lengths else ""


def _numbers(text: str) -> set[int]:
    """Times of windows, in microseconds."""
    return {int(number) for number in re.findall(r"\b\d{4,}\b", text)}


def is_time(column: Any) -> bool:
    """Whether a column is the event time, or a window of it."""
    named = column.getClass().getSimpleName() in ("AttributeReference", "Alias")
    return named and bool(column.metadata().contains(DELAY))


def frame(rows: DataFrame, plan: Any) -> DataFrame:
    """A plan as a DataFrame of the same session."""
    from pyspark.sql import DataFrame

    session = rows.sparkSession
    jvm: Any = session._jvm
    dataset = getattr(getattr(jvm.org.apache.spark.sql.classic, "Dataset$"), "MODULE$")
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def reads_once(rows: DataFrame) -> bool:
    """Whether rows are made of those of one input, each of which is read once: no limit, no join, no subquery."""
    plan = analysed(rows)
    whole = all(node.nodeName() in _WHOLE for node in walk(plan) if node.children().size())
    return whole and not plan.subqueriesAll().size()


def with_own_names(rows: DataFrame) -> DataFrame:
    """The rows with a name of its own for each column: a join may leave two of one name."""
    seen: Counter[str] = Counter()
    names = []
    for name in rows.columns:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return rows.toDF(*names)


def carried(rows: DataFrame, given: Iterable[DataFrame]) -> DataFrame:
    """The rows with the origin of those that they were made of, also where a user's function has selected it away."""
    jvm: Any = rows.sparkSession._jvm
    plans = [analysed(each) for each in given]
    known = {one.exprId().id() for plan in plans for one in _origins(plan)}
    whole = {jvm.java.lang.System.identityHashCode(plan) for plan in plans}
    return frame(rows, _carry(analysed(rows), known, whole, jvm))


def _carry(node: Any, known: set[int], whole: set[int], jvm: Any) -> Any:
    """Put the known origins back into every projection above them; those of a table are none.

    What was given is `whole`: nothing is missing in it, and every question to the JVM costs.
    """
    if jvm.java.lang.System.identityHashCode(node) in whole:
        return node
    below = [_carry(child, known, whole, jvm) for child in children(node)]
    if not below or not any(one.exprId().id() in known for child in below for one in _origins(child)):
        return node.withNewChildren(jvm.PythonUtils.toSeq(below)) if below else node
    if node.nodeName() == "Union":
        carry = all(_origins(child) for child in below)
        below = [_project(jvm, _shown(child), child, carry=carry) for child in below]
        return node.withNewChildren(jvm.PythonUtils.toSeq(below))
    if node.nodeName() == "Project":
        return _project(jvm, elements(node.projectList()), below[0], carry=True)
    if node.nodeName() == "Expand":
        more = _origins(below[0])[:1] if not _origins(node) else []
        projections = jvm.PythonUtils.toSeq(
            [jvm.PythonUtils.toSeq([*elements(one), *more]) for one in elements(node.projections())]
        )
        output = jvm.PythonUtils.toSeq([*elements(node.output()), *more])
        return jvm.org.apache.spark.sql.catalyst.plans.logical.Expand(projections, output, below[0])
    return node.withNewChildren(jvm.PythonUtils.toSeq(below))


def _project(jvm: Any, columns: list[Any], child: Any, *, carry: bool) -> Any:
    has = any(one.name() == ORIGIN for one in columns)
    more = _origins(child)[:1] if carry and not has else []
    return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(jvm.PythonUtils.toSeq([*columns, *more]), child)


def _shown(node: Any) -> list[Any]:
    return [one for one in elements(node.output()) if one.name() != ORIGIN]


def _origins(node: Any) -> list[Any]:
    return [one for one in elements(node.output()) if one.name() == ORIGIN]


def _keeps_state(node: Any, moves: Callable[[Any], bool]) -> bool:
    """Whether a node keeps state of rows that move; `moves` says whether those of a child do."""
    kind = node.nodeName()
    if kind == "Join":
        return all(moves(child) for child in children(node))
    return bool(_STATEFUL.fullmatch(kind)) and any(moves(child) for child in children(node))


def elements(found: Any) -> list[Any]:
    """What a sequence of Scala holds."""
    return [found.apply(number) for number in range(found.size())]

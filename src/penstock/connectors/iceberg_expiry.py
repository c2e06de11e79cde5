"""Which snapshots of an Iceberg table are old, and which files nobody needs once they are gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["files_to_remove", "old_snapshots"]

_AT_ONCE = 0.1  # of those that are kept: to let them go one by one would be a commit each


def old_snapshots(table: Table, keep_days: float, keep: int) -> list[Snapshot]:
    """Those that are too old, or too many if a tenth is; what a branch or a tag names stays, and so does the newest."""
    limit = (datetime.now(UTC) - timedelta(days=keep_days)).timestamp() * 1000
    held = {one.snapshot_id for one in table.refs().values()}
    known = sorted((one for one in table.snapshots() if one.snapshot_id not in held), key=lambda one: one.timestamp_ms)
    too_many = len(known) - keep
    number = too_many if too_many > keep * _AT_ONCE else 0
    return known[: max(number, sum(one.timestamp_ms < limit for one in known))]


def files_to_remove(table: Table, old: list[Snapshot]) -> tuple[set[str], set[str]]:
    """Data files, then files of metadata, that only these snapshots need."""
    gone = {one.snapshot_id for one in old}
    kept = [one for one in table.snapshots() if one.snapshot_id not in gone]
    if _is_chain(table):  # what the first snapshot that stays does not have, none after it has
        kept = sorted(kept, key=lambda one: one.sequence_number or 0)[:1]
    lists: set[str] = {one.manifest_list for one in old}
    needed = _manifests(table, kept)
    manifests = {path: one for path, one in _manifests(table, old).items() if path not in needed}
    if not manifests:
        return set(), lists
    data = _live(table, manifests.values()) - _live(table, needed.values())
    return data, lists | set(manifests)


def _is_chain(table: Table) -> bool:
    """Whether each snapshot follows the one before it: nothing was rolled back, and there are no branches."""
    known = sorted(table.snapshots(), key=lambda one: one.sequence_number or 0)
    return len(table.refs()) == 1 and all(
        after.parent_snapshot_id == before.snapshot_id for before, after in pairwise(known)
    )


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    return {one.manifest_path: one for snapshot in snapshots for one in snapshot.manifests(table.io)}


def _live(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    entries = (entry for one in manifests for entry in one.fetch_manifest_entry(table.io))
    return {str(entry.data_file.file_path) for entry in entries}

from __future__ import annotations

from penstock.local.kafka import cluster_id


def test_a_cluster_id_never_looks_like_an_option() -> None:
    assert cluster_id(b"\xf8" + bytes(15)) == "_AAAAAAAAAAAAAAAAAAAAA"
    assert cluster_id(bytes(16)) == "A" * 22

"""Search the orders: `python search.py violin gold`."""

from __future__ import annotations

import sys

import httpx

from penstock.settings import load


def main() -> int:
    """The ten best of the index, by any of their words."""
    words = {"query": {"simple_query_string": {"query": " ".join(sys.argv[1:]) or "*", "default_operator": "and"}}}
    try:
        answer = httpx.post(f"{load().opensearch.url}/orders/_search", json=words, timeout=30)
        if answer.status_code == httpx.codes.NOT_FOUND:
            print("There are no orders yet: they come with the first batch of the pipeline.", file=sys.stderr)
            return 1
        answer.raise_for_status()
    except httpx.HTTPError as error:
        print(f"OpenSearch does not answer ({error}). Does it run? penstock status", file=sys.stderr)
        return 1
    found = answer.json()["hits"]
    print(f"{found['total']['value']} orders")
    for hit in found["hits"]:
        row = hit["_source"]
        who = f"{row.get('name')} ({row.get('tier')})"
        print(f"{row['order_id']:>8}  {who:<20}  {row.get('title')}  {row['amount']:.2f} {row['currency']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

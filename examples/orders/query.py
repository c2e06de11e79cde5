"""Ask the lake in SQL, Iceberg by DuckDB: `python query.py "SELECT count(*) FROM orders"`."""

from __future__ import annotations

import sys

import duckdb
from pyiceberg.exceptions import NoSuchNamespaceError

from penstock.connectors.iceberg_writer import open_catalog
from penstock.settings import load


def main() -> int:
    """Every table of the namespace `lake` under its own name."""
    asked = sys.argv[1] if len(sys.argv) > 1 else "SHOW TABLES"
    catalog, connection = open_catalog(load().lake), duckdb.connect()
    try:
        for _, name in catalog.list_tables("lake"):
            connection.register(name, catalog.load_table(f"lake.{name}").scan().to_arrow())
    except NoSuchNamespaceError:
        print("The lake is empty yet: its first rows come with the first batch of the pipeline.", file=sys.stderr)
        return 1
    try:
        connection.sql(asked).show()
    except duckdb.Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

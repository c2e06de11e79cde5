"""The same queries on other engines."""

"""Nexmark's queries, measured side by side."""

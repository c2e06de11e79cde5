"""Quix Streams."""

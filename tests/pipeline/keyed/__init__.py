"""Processes with state per key."""

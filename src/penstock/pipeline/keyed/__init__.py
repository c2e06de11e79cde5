"""Processes with state per key: what is remembered, woken by time, and given out."""

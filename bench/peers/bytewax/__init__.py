"""Bytewax."""

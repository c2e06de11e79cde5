"""Pathway."""

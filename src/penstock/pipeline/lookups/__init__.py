"""Columns that a service knows of a row: asked batch by batch, remembered for a while."""

"""Figures, as ratios in one run."""

"""Test a pipeline in your own pytest: the same plan, rows from memory, event time in your hand."""

from penstock.testing.marks import CRASH, END, PAUSE
from penstock.testing.process_trial import ProcessTrial
from penstock.testing.trial import Trial

__all__ = ["CRASH", "END", "PAUSE", "ProcessTrial", "Trial"]

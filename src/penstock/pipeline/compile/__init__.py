"""Compile: a Pipeline becomes a Plan through an ordered tuple of small steps."""

from penstock.pipeline.compile.steps import STEPS, compile_pipeline

__all__ = ["STEPS", "compile_pipeline"]

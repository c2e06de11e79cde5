"""How long an HTTP service asks us to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

__all__ = ["retry_after"]


def retry_after(answer: httpx.Response, most: float) -> float | None:
    """The seconds of `Retry-After`, None if it says none."""
    text = answer.headers.get("Retry-After", "")
    return min(float(text), most) or None if text.isdigit() else None

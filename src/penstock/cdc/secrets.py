"""The password of a capture: in a file that Connect's worker reads, never in the connector's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.cdc.capture import Capture
    from penstock.settings import Settings

__all__ = ["forget_password", "password_reference", "secrets_folder", "write_password"]


def secrets_folder(settings: Settings) -> Path:
    """The only folder from which a local worker takes secrets, for nobody else to read."""
    folder = settings.home / "secrets"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def password_reference(capture: Capture, settings: Settings) -> str | None:
    """What the configuration says in place of the password."""
    if capture.declared.password_on_worker:
        return capture.declared.password_on_worker
    if capture.database(settings).password is None:
        return None
    if "connect" in settings.external:
        raise DeclarationError(
            f"Capture {capture.name!r}: its password can't be handed to a Connect that runs elsewhere.",
            code="capture-wrong",
            remedy='Put it into a file there: password_on_worker = "${file:/etc/shop.properties:password}".',
        )
    return f"${{file:{_file(capture, settings)}:password}}"


def write_password(capture: Capture, settings: Settings) -> None:
    """Put the password where a local worker finds it, for nobody else to read."""
    password = capture.database(settings).password
    if password is None or capture.declared.password_on_worker:
        return
    path = _file(capture, settings)
    path.touch(mode=0o600)
    written = password.reveal().replace("\\", "\\\\").replace("\n", "\\n")
    path.write_text(f"password={written}\n", encoding="utf-8")


def forget_password(capture: Capture, settings: Settings) -> None:
    """Remove the file."""
    _file(capture, settings).unlink(missing_ok=True)


def _file(capture: Capture, settings: Settings) -> Path:
    return secrets_folder(settings) / f"{capture.name}.properties"

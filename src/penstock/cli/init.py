"""`penstock init`: a project to begin with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from penstock.cli.render import show, show_json
from penstock.errors import SetupError

_FILES = {
    "orders.py": "orders.py",
    "test_orders.py": "test_orders.py",
    "penstock.toml": "penstock.toml",
    ".gitignore": "gitignore",
}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def init(folder: Path, as_json: bool) -> None:
    """Write a project to begin with: a pipeline over generated orders, its test, the settings.

    Nothing that is there is overwritten.

    \b
    Example:
      penstock init shop
    """
    if there := sorted(name for name in _FILES if (folder / name).exists()):
        raise SetupError(
            f"{folder / there[0]} is there already.",
            code="project-there",
            remedy="Name another folder: penstock init shop.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in _FILES.items():
            text = (files("penstock.cli") / "starting" / f"{template}.template").read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SetupError(
            f"{error.filename} can't be written ({error.strerror}).",
            code="project-unwritable",
            remedy="Choose a folder that is yours.",
        ) from error
    if as_json:
        show_json({"folder": str(folder), "files": list(_FILES)})
        return
    show(f"Wrote {', '.join(_FILES)} to {folder.resolve()}. Then:\n")
    for line in (
        *([f"cd {folder}"] if folder != Path() else []),
        "penstock check orders.py         # mistakes with file and line",
        "penstock up kafka                # a real broker on this machine",
        "penstock run orders.py           # live view; Ctrl-C stops after the batch",
        "penstock topics tail spending    # in another terminal: what comes out",
        "python -m pytest                 # the test beside it",
    ):
        show(f"  {line}")

"""The cross compiler: where the ziglang package is."""

import importlib.util
import os
from pathlib import Path

from SCons.Errors import UserError


def find_zig() -> Path:
    """The folder with the program `zig` and its libraries. Raises UserError if there is none."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise UserError("ziglang: no cross compiler, got no such Python package; expected it installed\nhint: ./dev")
    folder = Path(spec.origin).parent
    if not os.access(folder / "zig", os.X_OK):
        raise UserError(
            f"{folder / 'zig'}: no cross compiler, got no executable; expected zig\nhint: reinstall ziglang: ./dev"
        )
    return folder

"""How this machine runs arm64 programs: by itself, by a registered qemu, or by qemu in a private namespace."""

import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolchainError

BINFMT = Path("/proc/sys/fs/binfmt_misc")
_QEMU_NAMES = ("qemu-aarch64-static", "qemu-aarch64")
_PRIVATE_BINFMT_SINCE = (6, 7)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """`interpreter` is the qemu to register in the guest's own namespace, None if arm64 programs start without.

    `user_namespace` is whether the guest gets a user namespace: for a binfmt_misc of its own, or because this user is
    not root and may make the other namespaces only inside one.
    """

    interpreter: Path | None
    user_namespace: bool


def find_runner() -> Runner:
    """Raises ToolchainError saying what to install when this machine has no way."""
    is_root = os.geteuid() == 0
    if platform.machine() == "aarch64":
        return Runner(interpreter=None, user_namespace=not is_root)
    qemu = _static_qemu()
    has_private_binfmt = _kernel_version() >= _PRIVATE_BINFMT_SINCE
    if qemu is not None and has_private_binfmt:
        return Runner(interpreter=qemu, user_namespace=True)
    if is_registered(BINFMT):
        return Runner(interpreter=None, user_namespace=not is_root)
    if qemu is None:
        raise ToolchainError(
            "qemu-aarch64-static: program not found on PATH; expected it to run arm64 programs",
            hint="apt install qemu-user-static",
        )
    raise ToolchainError(
        f"emulator: kernel too old for a private binfmt_misc, got {platform.release()}; expected 6.7 or newer, "
        "or qemu-aarch64 registered on this machine with flag F",
        hint="apt install qemu-user-static binfmt-support",
    )


def is_registered(binfmt: Path) -> bool:
    """Whether `binfmt` starts arm64 programs in any root: a rule for aarch64, enabled, its interpreter kept open."""
    for rule in sorted(binfmt.glob("*aarch64*")):
        lines = rule.read_text().splitlines()
        flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
        if lines[:1] == ["enabled"] and "F" in flags:
            return True
    return False


def _static_qemu() -> Path | None:
    """A qemu without a loader: in the guest's root, the host's loader and libraries are not there."""
    for name in _QEMU_NAMES:
        found = shutil.which(name)
        if found is not None:
            path = Path(found).resolve()
            with path.open("rb") as f:
                if b"/ld-linux" not in f.read(4096):
                    return path
    return None


def _kernel_version() -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)

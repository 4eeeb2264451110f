"""An arm64 userland on this machine: unpacked Debian packages, run by qemu in private namespaces."""

from .. import log
from .emulator_root import DEFECTS, find_recipe
from .guest import GuestDevice
from .qemu import Runner, find_runner

# The RK3399's big core: programs that use instructions newer than ARMv8.0 die here as they would on the board.
_ENV = {"QEMU_CPU": "cortex-a72"}


class EmulatorDevice(GuestDevice):
    """`suite` is the Debian release of the userland, None for the default one."""

    def __init__(self, suite: str | None = None) -> None:
        super().__init__("emulator" if suite is None else f"emulator:{suite}", find_recipe(suite), _ENV)

    def open(self) -> None:
        super().open()
        if defect := DEFECTS.get(self._recipe.suite):
            log.warning(f"{self.name}: {defect}")

    def _find_runner(self) -> Runner:
        return find_runner()

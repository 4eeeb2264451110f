"""What the pipeline compiles for: one entry a platform, and what its GPU asks of a kernel."""

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import ConfigError

if TYPE_CHECKING:
    import tvm

DTYPES = ("float32", "float16")
OURS, STOCK = "mali", "plain"
# Whose kernels: this project's, or TVM's default schedules in TVM's own OpenCL, for comparison.
SCHEDULES = (OURS, STOCK)


@dataclass(frozen=True, kw_only=True)
class TargetSpec:
    """A platform. `zig_triple` is what native code is built for; kernels are the same OpenCL C everywhere."""

    name: str
    title: str
    zig_triple: str
    machine: str  # as readelf -h names it
    default_device: str
    max_work_group: int = 64  # work-items; above it Midgard's compilers leave 8 instead of 16 registers to a thread
    vector_lanes: int = 4  # 128-bit vectors of float32

    def tvm_target(self) -> "tvm.target.Target":
        import tvm

        return tvm.target.Target(
            {
                "kind": "opencl",
                "device": "mali",
                "keys": ["mali", "opencl", "gpu"],
                "max_num_threads": self.max_work_group,
            },
            host={"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"},
        )


TARGETS = {
    t.name: t
    for t in (
        TargetSpec(
            name="rk3399",
            title="Rockchip RK3399 under Linux (Mali-T860MP4)",
            zig_triple="aarch64-linux-gnu.2.27",
            machine="AArch64",
            default_device="emulator",
        ),
        TargetSpec(
            name="host",
            title="this x86-64 machine's OpenCL, for trying and testing",
            zig_triple="x86_64-linux-gnu.2.27",
            machine="X86-64",
            default_device="host",
        ),
    )
}


def find_target(name: str) -> TargetSpec:
    return TARGETS[check_choice("target", name, tuple(TARGETS))]


def check_choice(what: str, value: str, choices: tuple[str, ...]) -> str:
    """`value` if it is one of `choices`; else ConfigError with the nearest of them."""
    if value in choices:
        return value
    near = difflib.get_close_matches(value, choices, 1)
    raise ConfigError(
        f"{what}: unknown value, got {value}; expected {' or '.join(choices)}",
        hint=f"did you mean {near[0]}?" if near else None,
    )

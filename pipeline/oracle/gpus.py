"""The Mali GPUs that Mesa's Panfrost driver compiles for."""

import difflib
from dataclasses import dataclass

from ..errors import ConfigError

DEFAULT_GPU = "T860"

# A Midgard core has registers for 64 threads of 16 vec4 registers, or twice and four times as many smaller ones.
MIDGARD_THREADS = 64


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """`product_id` is what the hardware's identity register says, in hexadecimal."""

    name: str
    product_id: str
    is_midgard: bool


GPUS = {
    gpu.name: gpu
    for gpu in (
        *(
            Gpu(name=name, product_id=product_id, is_midgard=True)
            for name, product_id in (
                *(("T720", "720"), ("T760", "750"), ("T820", "820")),
                *(("T830", "830"), ("T860", "860"), ("T880", "880")),
            )
        ),
        *(
            Gpu(name=name, product_id=product_id, is_midgard=False)
            for name, product_id in (("G31", "7093"), ("G52", "7212"), ("G57", "9093"), ("G72", "6221"))
        ),
    )
}


def find_gpu(name: str) -> Gpu:
    """The GPU of a name such as T860, Mali-T860 or t860. Raises ConfigError with the nearest known one."""
    short = name.upper().removeprefix("MALI-")
    if short in GPUS:
        return GPUS[short]
    near = difflib.get_close_matches(short, GPUS, 1)
    raise ConfigError(
        f"gpu: unknown GPU, got {name}; expected one of {', '.join(GPUS)}",
        hint=f"did you mean {near[0]}?" if near else None,
    )

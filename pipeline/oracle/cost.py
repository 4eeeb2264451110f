"""What a kernel costs inside the GPU, as Mesa's compiler counts it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Bundles:
    """Instruction bundles by the pipe that takes them; a T860 core has two arithmetic pipes and one of the others.

    `vec4_mads` is the work in them: vector multiplications that end in an addition, counted in vectors of four lanes.
    """

    alu: int
    load_store: int
    texture: int
    vec4_mads: float

    @property
    def all(self) -> int:
        return self.alu + self.load_store + self.texture


@dataclass(frozen=True, kw_only=True)
class Loop:
    """`depth` is 1 for a loop inside no other, `innermost` whether no loop is inside it."""

    depth: int
    innermost: bool
    bundles: Bundles


@dataclass(frozen=True, kw_only=True)
class KernelCost:
    """One kernel on one GPU.

    registers: vec4 work registers of a thread; threads: how many threads a core holds with that many, None where the
    driver does not say. spills, fills: instructions that store registers to memory and load them back. bundles, loops:
    only for Midgard; `statistics` has every number of the driver's summary under the driver's name for it.
    work_group: the most work-items that the driver accepts in a work-group; required: the work-group that the source
    demands, (0, 0, 0) if none. warnings: why the counts may be wrong.
    """

    name: str
    registers: int | None
    threads: int | None
    spills: int
    fills: int
    bundles: Bundles | None
    loops: tuple[Loop, ...]
    statistics: Mapping[str, float]
    arguments: int
    work_group: int
    required: tuple[int, int, int]
    warnings: tuple[str, ...]

    @property
    def core(self) -> Bundles | None:
        """Where the time goes: the innermost loop with most multiply-adds; all of a kernel without loops."""
        inner = [loop.bundles for loop in self.loops if loop.innermost]
        return max(inner, key=lambda b: (b.vec4_mads, b.all)) if inner else self.bundles

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "KernelCost":
        """Raises KeyError, TypeError or ValueError for something that to_json did not make."""
        loops = tuple(
            Loop(depth=loop["depth"], innermost=loop["innermost"], bundles=Bundles(**loop["bundles"]))
            for loop in data["loops"]
        )
        x, y, z = data["required"]
        return KernelCost(
            **{
                **data,
                "bundles": None if data["bundles"] is None else Bundles(**data["bundles"]),
                "loops": loops,
                "required": (x, y, z),
                "warnings": tuple(data["warnings"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class NoData:
    """A kernel that the compiler refused or died of; `reason` is for people. `final`: it would do so again."""

    name: str
    reason: str
    final: bool = True


Outcome = KernelCost | NoData

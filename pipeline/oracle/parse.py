"""Reads what Mesa's compilers print of a kernel: the summary line, and Midgard's blocks of scheduled bundles.

Mesa prints every kernel several times on its way; the last print before the machine code has the bundles after register
allocation, with an empty line after each.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .cost import Bundles, KernelCost, Loop
from .gpus import MIDGARD_THREADS

_SUMMARY = re.compile(r"shader: (\d+ inst, .*)$", re.MULTILINE)
_NUMBER = re.compile(r"([\d.]+) (\w+)")
_SPILLS = re.compile(r"(\d+):(\d+) spills:fills")
_FUNCTION = re.compile(r"decl_function (?:__wrapped_)?(\w+) .*\(entrypoint\)")
_BLOCK = re.compile(r"block(\d+): \{")
_SUCCESSORS = re.compile(r"\} -> ((?: *block\d+)+)")
_LOAD_STORE = re.compile(r"(?:LD|ST|ATOMIC)")
_TEXTURE = re.compile(r"(?:TEX|BARRIER)")
_FLOAT = re.compile(r"[vs]?(?:mul|add|lut)\.(FMUL|FADD)\S* \w+\.f\d+\.([a-z]+),")
_NOT_ENCODED = "Unhandled ALU op"


@dataclass(kw_only=True)
class _Block:
    number: int
    bundles: list[list[str]] = field(default_factory=lambda: [[]])
    successors: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Described:
    """A kernel as the driver's own interface describes it; the fields are KernelCost's."""

    name: str
    arguments: int
    work_group: int
    required: tuple[int, int, int]


def parse(stdout: str, stderr: str, kernels: Sequence[Described], *, midgard: bool) -> list[KernelCost] | None:
    """The cost of each kernel of a program, in the order of `kernels`; None if Mesa did not print all of them."""
    summaries = [_numbers(line) for line in _SUMMARY.findall(stderr)]
    if len(summaries) != len(kernels):
        return None
    printed = _listings(stdout) if midgard else {}
    names = list(printed) if midgard else [k.name for k in kernels]
    if sorted(names) != sorted(k.name for k in kernels):
        return None
    warnings = (
        ("Mesa met operations that it cannot encode: the counts are not valid",) if _NOT_ENCODED in stderr else ()
    )
    costs = {
        name: _cost(numbers, printed.get(name, []), described, warnings, midgard=midgard)
        for name, numbers, described in zip(names, summaries, _in_order(kernels, names), strict=True)
    }
    return [costs[k.name] for k in kernels]


def _in_order(kernels: Sequence[Described], names: Sequence[str]) -> list[Described]:
    by_name = {k.name: k for k in kernels}
    return [by_name[name] for name in names]


def _numbers(summary: str) -> dict[str, float]:
    numbers = {name: float(number) for number, name in _NUMBER.findall(summary) if name not in ("spills", "fills")}
    spilled = _SPILLS.search(summary)
    if spilled:
        numbers |= {"spills": float(spilled[1]), "fills": float(spilled[2])}
    return numbers


def _cost(
    numbers: dict[str, float],
    blocks: list[_Block],
    described: Described,
    warnings: tuple[str, ...],
    *,
    midgard: bool,
) -> KernelCost:
    return KernelCost(
        name=described.name,
        registers=int(numbers["registers"]) if "registers" in numbers else None,
        threads=int(numbers["threads"]) * MIDGARD_THREADS if midgard else None,
        spills=int(numbers.get("spills", 0)),
        fills=int(numbers.get("fills", 0)),
        bundles=_count(blocks) if midgard else None,
        loops=_loops(blocks),
        statistics=numbers,
        arguments=described.arguments,
        work_group=described.work_group,
        required=described.required,
        warnings=warnings,
    )


def _listings(stdout: str) -> dict[str, list[_Block]]:
    """Kernel name -> its blocks, in the order of compilation."""
    listings: dict[str, list[_Block]] = {}
    blocks: list[_Block] | None = None
    is_open = False
    for line in stdout.splitlines():
        if function := _FUNCTION.match(line):
            blocks = listings[function[1]] = []
        elif blocks is None:
            continue
        elif start := _BLOCK.match(line):
            if start[1] == "0":
                blocks.clear()
            blocks.append(_Block(number=int(start[1])))
            is_open = True
        elif is_open and line.startswith("}"):
            if found := _SUCCESSORS.match(line):
                blocks[-1].successors = tuple(int(n) for n in re.findall(r"\d+", found[1]))
            is_open = False
        elif is_open and line.strip():
            blocks[-1].bundles[-1].append(line.strip())
        elif is_open:
            blocks[-1].bundles.append([])
    return listings


def _count(blocks: Sequence[_Block]) -> Bundles:
    load_store = texture = alu = 0
    lanes = {"FMUL": 0, "FADD": 0}
    for bundle in (b for block in blocks for b in block.bundles if b):
        if any(_LOAD_STORE.match(word) for word in bundle):
            load_store += 1
        elif any(_TEXTURE.match(word) for word in bundle):
            texture += 1
        else:
            alu += 1
            for operation in filter(None, map(_FLOAT.match, bundle)):
                lanes[operation[1]] += len(operation[2])
    return Bundles(alu=alu, load_store=load_store, texture=texture, vec4_mads=min(lanes.values()) / 4)


def _loops(blocks: Sequence[_Block]) -> tuple[Loop, ...]:
    """The loops in the order of their first blocks. A loop is all blocks from the target of a jump back to the jump."""
    last: dict[int, int] = {}
    for block in blocks:
        for successor in block.successors:
            if successor <= block.number:
                last[successor] = max(block.number, last.get(successor, 0))
    spans = sorted(last.items())
    return tuple(
        Loop(
            depth=sum(a <= begin and end <= b for a, b in spans),
            innermost=not any((begin, end) != (a, b) and begin <= a and b <= end for a, b in spans),
            bundles=_count([block for block in blocks if begin <= block.number <= end]),
        )
        for begin, end in spans
    )

"""Cache lines that a kernel's work-groups touch, level of loop by level of loop, and what that moves between caches.

A round of a loop whose lines fit a cache, for all work-groups that run at once, fetches each line once; a round that
does not fit fetches what its inner loops fetch, each time they run. So a tile that stays in the cache is paid once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .walk import Access, Region

LINE_BYTES = 64
# Addresses looked at for one loop: enough for every line of small tiles; of larger ones the rest is extrapolated.
_MOST_ADDRESSES = 60_000
_MOST_ROUNDS = 16


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Of one loop, or of the kernel: `lines` touched by a work-group in one round, with all inner loops run.

    rounds: how often a work-item comes here in all; own_lines: those touched outside inner loops; split: accesses of
    a round, per work-item, that need more than one line.
    """

    lines: float
    own_lines: float
    rounds: float
    inner: tuple["Footprint", ...]


def footprint(root: Region, group: int, *, stores: bool | None = None) -> Footprint:
    """The footprints of a walk whose first `group` sampled work-items are one work-group, of all accesses, or only of
    stores (True) or loads (False)."""
    return _footprint(root, group, root.trips, stores, depth=0)


def fetched_lines(f: Footprint, *, fits: float) -> float:
    """Lines that a work-group brings into a cache with room for `fits` lines of it, over its whole life."""
    return f.rounds * _fetched_a_round(f, fits)


def _fetched_a_round(f: Footprint, fits: float) -> float:
    if f.lines <= fits or not f.inner:
        return f.lines
    inner = sum(loop.rounds / max(f.rounds, 1e-9) * _fetched_a_round(loop, fits) for loop in f.inner)
    return max(f.lines, f.own_lines + inner)


def _footprint(region: Region, group: int, rounds: float, stores: bool | None, *, depth: int) -> Footprint:
    everything = [found for found in _below(region, depth, ()) if stores in (None, found[0].is_store)]
    return Footprint(
        lines=_lines(everything, group),
        own_lines=_lines([found for found in everything if not found[1]], group),
        rounds=rounds,
        inner=tuple(_footprint(loop, group, rounds * loop.trips, stores, depth=depth + 1) for loop in region.loops),
    )


_Loops = tuple[tuple[int, int, float], ...]  # identity, depth, trips of the loops between a region and an access


def _below(region: Region, depth: int, loops: _Loops) -> list[tuple[Access, _Loops]]:
    found = [(access, loops) for access in region.accesses]
    for loop in region.loops:
        found += _below(loop, depth + 1, (*loops, (id(loop), depth, loop.trips)))
    return found


def _lines(accesses: Sequence[tuple[Access, _Loops]], group: int) -> float:
    by_place: dict[tuple[str, _Loops], list[Access]] = {}
    for access, loops in accesses:
        by_place.setdefault((access.buffer, loops), []).append(access)
    return sum(_lines_of(same, loops, group) for (_, loops), same in by_place.items())


def _lines_of(accesses: Sequence[Access], loops: _Loops, group: int) -> float:
    """Lines of one buffer that the rounds of `loops` touch; what is not enumerated is extrapolated in proportion."""
    budget = max(1.0, _MOST_ADDRESSES / (group * len(accesses)))
    rounds, factor = _enumerated([trips for _, _, trips in loops], budget)
    touched = []
    for access in accesses:
        address = access.address[:group, None].astype(np.int64)
        for (_, depth, _), count in zip(loops, rounds, strict=True):
            step = access.strides[depth][:group, None] * np.arange(count)[None, :]
            address = (address[:, :, None] + step[:, None, :]).reshape(len(address), -1)
        first, last = address // LINE_BYTES, (address + access.size_bytes - 1) // LINE_BYTES
        touched.append(first.ravel())
        if np.any(first != last):
            touched.append(last[first != last])
    share = min(1.0, max(a.weight for a in accesses))
    return float(len(np.unique(np.concatenate(touched)))) * factor * share


def _enumerated(trips: Sequence[float], budget: float) -> tuple[list[int], float]:
    """How many rounds of each loop to look at, the inner loops first, and what the lines are to be multiplied by."""
    counts: list[int] = []
    factor = 1.0
    for trip in reversed(trips):
        whole = max(1, math.ceil(trip))
        count = max(1, min(whole, _MOST_ROUNDS, int(budget)))
        budget /= count
        factor *= max(trip, 1e-9) / count if trip >= 1 else 1.0
        counts.append(count)
    return counts[::-1], factor

"""Which loops of a kernel's text Mesa has kept, and so how many bundles a work-item executes.

Mesa unrolls a loop of few rounds once all loops inside it are unrolled. So what it keeps is the loops of the text with
some subtrees cut off, in the same order; which ones is told by the multiply-adds that Mesa counts in each.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .cost import Bundles, KernelCost
from .walk import Region

# Kernels with more sibling loops than this allows are beyond what printers of loop nests write.
_MOST_WAYS = 5000


@dataclass(kw_only=True)
class _Kept:
    """A loop that Mesa kept, with the loops in it."""

    bundles: Bundles
    inner: list["_Kept"] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Executed:
    """Bundles that one work-item executes. `is_sure` is False if a loop's number of rounds had to be guessed as 1.

    core_share: the part of them in innermost loops.
    """

    alu: float
    load_store: float
    texture: float
    vec4_mads: float
    core_share: float
    is_sure: bool

    @property
    def all(self) -> float:
        return self.alu + self.load_store + self.texture


def executed(cost: KernelCost, root: Region) -> Executed:
    """What a work-item executes; `cost` must have bundles (Midgard), `root` is the walk of the same kernel."""
    assert cost.bundles is not None
    kept = _forest(cost)
    match = _best(kept, _useful(root.loops))
    trips = match.trips if match is not None else [1.0] * len(cost.loops)
    flat = list(_flatten(kept))
    sums = [0.0, 0.0, 0.0, 0.0]
    core = 0.0
    place = {id(loop): trip for loop, trip in zip(flat, trips, strict=True)}

    def add(bundles: Bundles, inner: Sequence[_Kept], rounds: float) -> float:
        own = [_of(bundles)[i] - sum(_of(loop.bundles)[i] for loop in inner) for i in range(4)]
        for i in range(4):
            sums[i] += rounds * own[i]
        for loop in inner:
            add(loop.bundles, loop.inner, rounds * place[id(loop)])
        return rounds * sum(own[:3])

    add(cost.bundles, kept, 1.0)
    for loop, rounds in _rounds(kept, place, 1.0):
        if not loop.inner:
            core += rounds * loop.bundles.all
    total = sum(sums[:3])
    return Executed(
        alu=sums[0],
        load_store=sums[1],
        texture=sums[2],
        vec4_mads=sums[3],
        core_share=core / total if total else 0.0,
        is_sure=match is not None and _all_counted(root.loops),
    )


def _of(b: Bundles) -> tuple[float, float, float, float]:
    return (b.alu, b.load_store, b.texture, b.vec4_mads)


def _rounds(loops: Sequence[_Kept], place: dict[int, float], outer: float) -> list[tuple[_Kept, float]]:
    found = []
    for loop in loops:
        rounds = outer * place[id(loop)]
        found += [(loop, rounds), *_rounds(loop.inner, place, rounds)]
    return found


def _forest(cost: KernelCost) -> list[_Kept]:
    """The kept loops as a forest; KernelCost lists them in the order of their first blocks, with depths."""
    roots: list[_Kept] = []
    path: list[_Kept] = []
    for loop in cost.loops:
        kept = _Kept(bundles=loop.bundles)
        del path[loop.depth - 1 :]
        (path[-1].inner if path else roots).append(kept)
        path.append(kept)
    return roots


def _flatten(loops: Sequence[_Kept]) -> list[_Kept]:
    return [found for loop in loops for found in (loop, *_flatten(loop.inner))]


def _useful(loops: Sequence[Region]) -> list[Region]:
    """Loops of one round are none: the loops inside them take their place."""
    found: list[Region] = []
    for loop in loops:
        found += _useful(loop.loops) if loop.is_counted and loop.trips == 1.0 and loop.loops else [loop]
    return found


def _all_counted(loops: Sequence[Region]) -> bool:
    return all(loop.is_counted and _all_counted(loop.loops) for loop in loops)


@dataclass(frozen=True, kw_only=True)
class _Match:
    """`miss` sums how far Mesa's multiply-adds are from the text's, as logarithms; trips are in Mesa's order.

    code: multiply-adds that the loops' code holds in all, in vectors of four: a kept loop's once, an unrolled one's
    each round.
    """

    miss: float
    trips: list[float]
    code: float


def _best(kept: Sequence[_Kept], text: Sequence[Region]) -> _Match | None:
    """The best way to name the loops of `text` that were kept; None if there are fewer than Mesa has."""
    best: _Match | None = None
    unrolled = [max(1.0, loop.trips) * _work(loop) for loop in text]
    for chosen in itertools.islice(itertools.combinations(range(len(text)), len(kept)), _MOST_WAYS):
        miss, trips = 0.0, list[float]()
        code = sum(unrolled) - sum(unrolled[i] for i in chosen)
        for loop, i in zip(kept, chosen, strict=True):
            inner = _best(loop.inner, _useful(text[i].loops))
            if inner is None:
                break
            own = _own_work(text[i]) + inner.code
            miss += abs(math.log((loop.bundles.vec4_mads + 0.25) / (own + 0.25))) + inner.miss
            trips += [text[i].trips, *inner.trips]
            code += own
        else:
            # Of ways that explain the counts alike, the one that keeps the loops with more rounds.
            miss -= 1e-3 * sum(math.log(max(t, 1.0)) for t in trips)
            if best is None or miss < best.miss:
                best = _Match(miss=miss, trips=trips, code=code)
    return best


def _own_work(region: Region) -> float:
    return sum(count * lanes / 4 for (_, lanes), count in region.mads.items())


def _work(region: Region) -> float:
    """Multiply-adds of a round, those of inner loops with it, in vectors of four."""
    return _own_work(region) + sum(max(1.0, loop.trips) * _work(loop) for loop in region.loops)

"""What a fit is worth: figures of merit for each operator and dtype, on held-out networks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from .metrics import CLOSE, median_error, ranked_pairs, spearman
from .report import table
from .samples import Sample


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one operator and dtype: `records` judged, median absolute error of the time, Spearman's correlation of the
    achieved GFLOPS, pairs of records whose GFLOPS differ by more than 5 % that are ranked rightly, and all of them;
    same_right, same_all: of those, pairs of two configurations of one workload.
    """

    operator: str
    dtype: str
    records: int
    error: float
    correlation: float
    right: int
    pairs: int
    same_right: int
    same_pairs: int


def judge(samples: Sequence[Sample], predicted_us: Sequence[float], older: Sequence[bool]) -> list[Verdict]:
    """Verdicts in the order of operators' names; samples predicted as nan are left out.

    `older` marks records of earlier configurations: they count in pairs of one workload only.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, sample in enumerate(samples):
        if not math.isnan(predicted_us[i]):
            groups[sample.operator, sample.dtype].append(i)
    return [
        _verdict(operator, dtype, samples, predicted_us, members, [i for i in members if not older[i]])
        for (operator, dtype), members in sorted(groups.items())
        if not all(older[i] for i in members)
    ]


def _verdict(
    operator: str,
    dtype: str,
    samples: Sequence[Sample],
    predicted_us: Sequence[float],
    everything: Sequence[int],
    judged: Sequence[int],
) -> Verdict:
    rates = {i: (samples[i].flops / predicted_us[i], samples[i].flops / samples[i].measured_us) for i in everything}
    predicted, measured = [rates[i][0] for i in judged], [rates[i][1] for i in judged]
    right, pairs = ranked_pairs(predicted, measured)
    workloads: dict[str, list[int]] = defaultdict(list)
    for i in everything:
        workloads[samples[i].workload].append(i)
    same = [ranked_pairs([rates[i][0] for i in w], [rates[i][1] for i in w]) for w in workloads.values()]
    return Verdict(
        operator=operator,
        dtype=dtype,
        records=len(judged),
        error=median_error([predicted_us[i] for i in judged], [samples[i].measured_us for i in judged]),
        correlation=spearman(predicted, measured),
        right=right,
        pairs=pairs,
        same_right=sum(r for r, _ in same),
        same_pairs=sum(n for _, n in same),
    )


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    rows: list[tuple[str, ...]] = [
        ("operator", "dtype", "records", "median error", "Spearman", "pairs right", "same workload")
    ]
    for v in verdicts:
        rows.append(
            (
                *(v.operator, v.dtype, str(v.records), _percent(v.error), f"{v.correlation:.2f}"),
                f"{_percent(v.right / v.pairs)} of {v.pairs}" if v.pairs else "-",
                f"{v.same_right} of {v.same_pairs}" if v.same_pairs else "-",
            )
        )
    return "\n".join(
        [
            table(rows),
            "",
            "on networks held out of the fit; time against the board's, Spearman's correlation of the achieved GFLOPS,",
            "pairs of records, and of two configurations of one workload, whose GFLOPS differ by more than "
            f"{100 * CLOSE:.0f} %",
        ]
    )


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")

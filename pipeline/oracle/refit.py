"""A new version of the model: constants fitted to all samples, with figures of merit from fits that held some out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import NothingToDo
from .fit import fit_constants, held_out
from .judge import judge
from .metrics import median_error
from .model import Model, load_model, ranges_of
from .samples import Sample

_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Refit:
    """held_out_us: what fits without a sample's networks predict of it; nan for one of no network."""

    model: Model
    held_out_us: tuple[float, ...]


def refit(samples: Sequence[Sample], older: Sequence[bool], *, fitted_on: str) -> Refit:
    """The version is the present one's where the constants are, else the next.

    Raises NothingToDo where no sample can be held out: all are of one network, or of none.
    """
    predicted = held_out(samples)
    judged = [i for i in range(len(samples)) if not (older[i] or math.isnan(predicted[i]))]
    if not judged:
        raise NothingToDo(
            f"{fitted_on}: nothing to judge a fit on, got {len(samples)} records; expected some of two networks or more"
        )
    present = load_model()
    constants = fit_constants(samples).rounded(_DIGITS)
    return Refit(
        model=Model(
            version=present.version + (constants != present.constants),
            fitted_on=fitted_on,
            constants=constants,
            error=round(
                median_error([predicted[i] for i in judged], [samples[i].measured_us for i in judged]), _DIGITS
            ),
            errors={f"{v.operator} {v.dtype}": round(v.error, _DIGITS) for v in judge(samples, predicted, older)},
            ranges=ranges_of([launch for s in samples for launch in s.launches]),
        ),
        held_out_us=tuple(predicted),
    )

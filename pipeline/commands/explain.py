"""Show what each layer of a model is compiled to, and why: rule, knobs, kernel, and with --oracle what it costs."""

import argparse
import json
from pathlib import Path

from ..shapes import OPTION_HELP, parse_shapes
from ..targets import DTYPES, TARGETS

SUMMARY = "show which rule and knobs each layer gets, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="ONNX file, folder of `models build`, or a name out of `models list`")
    parser.add_argument("--target", choices=tuple(TARGETS), default="rk3399", help="platform (rk3399)")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="what tensors are stored in")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:DIMS", help=OPTION_HELP)
    parser.add_argument("--cut", action="append", metavar="TENSOR", help="make this tensor an output (repeatable)")
    parser.add_argument(
        "--tuning-log", type=Path, action="append", default=[], metavar="FILE.jsonl", help="decisions of `tune`"
    )
    parser.add_argument("--oracle", action="store_true", help="registers, bundles and predicted time of every kernel")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    from ..bench.explain import rows, text
    from ..bench.models import find_model
    from ..compile import compile_with_notes
    from ..oracle import find_gpu
    from ..oracle.plan_times import launch_times, plan_costs

    model = find_model(args.model)
    compiled = compile_with_notes(
        model.onnx,
        target=args.target,
        dtype=args.dtype,
        shapes=parse_shapes(args.shape),
        outputs=args.cut,
        name=model.name,
        tuning=args.tuning_log,
    )
    times = launch_times(compiled.plan, plan_costs(compiled.plan, find_gpu("T860"))) if args.oracle else None
    found = rows(compiled, times)
    if args.json:
        print(json.dumps({"model": model.name, "dtype": args.dtype, "launches": found}, indent=2))
    else:
        print(f"{model.name}, {args.dtype}, {len(found)} launches")
        print(text(found, with_costs=times is not None))
    return 0

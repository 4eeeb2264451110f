"""Compile a model for a target and write a .mali file."""

import argparse
from pathlib import Path

from ..shapes import OPTION_HELP, parse_shapes
from ..targets import DTYPES, OURS, SCHEDULES, TARGETS

SUMMARY = "compile a model to a .mali file"


def add_model_arguments(parser: argparse.ArgumentParser, *, default_target: str | None) -> None:
    """The options that say how a model is compiled."""
    parser.add_argument("model", type=Path, help="an ONNX file, or an MXNet symbol, its parameters or their prefix")
    parser.add_argument(
        "--target", choices=tuple(TARGETS), required=default_target is None, default=default_target, help="platform"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="what tensors are stored in")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:DIMS", help=OPTION_HELP)
    parser.add_argument("--cut", action="append", metavar="TENSOR", help="make this tensor an output (repeatable)")
    parser.add_argument(
        "--tuning-log",
        type=Path,
        action="append",
        default=[],
        metavar="FILE.jsonl",
        help="decisions of `tune`, beside those that come with this package (repeatable)",
    )
    parser.add_argument("--dump-ir", type=Path, metavar="DIR", help="write the IR after each phase into DIR")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser, default_target=None)
    parser.add_argument(
        "--schedules", choices=SCHEDULES, default=OURS, help="whose kernels: ours, or plain TVM's to compare with"
    )
    parser.add_argument(
        "--autotvm-log", type=Path, metavar="FILE", help="convolutions with a record in it get its knobs (TVM of 2018)"
    )
    parser.add_argument("--name", help="what the model is called; the file's stem by default")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.mali")


def main(args: argparse.Namespace) -> int:
    from ..compile import build_model

    shapes = parse_shapes(args.shape)
    path = build_model(
        args.model,
        args.target,
        args.dtype,
        shapes,
        args.out,
        outputs=args.cut,
        name=args.name,
        dump_ir=args.dump_ir,
        schedules=args.schedules,
        tuning=args.tuning_log,
        autotvm_log=args.autotvm_log,
    )
    print(f"{path} {path.stat().st_size}")
    return 0

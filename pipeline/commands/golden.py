"""Make the smoke cases of a model: inputs (golden images, or seeded random numbers) and onnxruntime's answers."""

import argparse
from pathlib import Path

from ..shapes import OPTION_HELP
from ..targets import DTYPES

SUMMARY = "make smoke cases with onnxruntime's answers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--recipe", type=Path, metavar="DIR", help="folder of `models build`: use its golden images")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:DIMS", help=OPTION_HELP)
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="what the model is compiled to: how close")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs (0)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of cases to make")


def main(args: argparse.Namespace) -> int:
    from ..errors import ConfigError
    from ..golden import Reference, make_cases, write_cases
    from ..model_folder import read_folder
    from ..shapes import parse_shapes

    if args.seed < 0:
        raise ConfigError(f"--seed, got {args.seed}; expected 0 or more")
    folder = None if args.recipe is None else read_folder(args.recipe)
    reference = Reference(args.model, given_shapes=parse_shapes(args.shape))
    cases = make_cases(reference, folder=folder, seed=args.seed)
    write_cases(cases, args.out, dtype=args.dtype)
    for case in cases:
        print(args.out / case.name)
    return 0

"""List the ONNX operators, or those of MXNet, that models may hold.

Beside the former, every operator whose ONNX definition is a function of them is taken.
"""

import argparse

SUMMARY = "list the operators that models may hold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mxnet", action="store_true", help="those of MXNet symbols instead of ONNX's")


def main(args: argparse.Namespace) -> int:
    from ..importers import registry
    from ..importers.mxnet import registry as mxnet_registry

    print("\n".join((mxnet_registry if args.mxnet else registry).supported()))
    return 0

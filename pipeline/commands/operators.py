"""List the ONNX operators that models may hold.

Beside these, every operator whose ONNX definition is a function of them is taken.
"""

import argparse

SUMMARY = "list the ONNX operators that models may hold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def main(args: argparse.Namespace) -> int:
    from ..importers.registry import supported

    print("\n".join(supported()))
    return 0

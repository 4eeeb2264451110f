"""Files of the target system that the build machine does not have."""

import argparse
from pathlib import Path

SUMMARY = "fetch the target's Python headers"

_VERSIONS = ("3.9", "3.11", "3.13")
_MACHINES = ("aarch64", "x86_64")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["python-headers"], help="headers of a CPython, from Debian's packages")
    parser.add_argument("--python", required=True, choices=_VERSIONS, help="version of the target's Python")
    parser.add_argument("--machine", default="aarch64", choices=_MACHINES, help="its machine (default: aarch64)")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to write, replaced as a whole")


def main(args: argparse.Namespace) -> int:
    from ..debian import AMD64, ARM64
    from ..sysroot import PYTHONS, python_headers

    architecture = next(a for a in (ARM64, AMD64) if a.machine == args.machine)
    python_headers(next(p for p in PYTHONS if p.version == args.python), args.out, architecture)
    return 0

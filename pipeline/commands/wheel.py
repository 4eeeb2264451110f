"""Make the Python wheel of the runtime from a built extension and library."""

import argparse
from pathlib import Path

SUMMARY = "make the Python wheel of the runtime"
_ROOT = Path(__file__).resolve().parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python-tag", required=True, metavar="TAG", help="Python on the device, such as cp311")
    parser.add_argument(
        "--platform", required=True, metavar="TAG", help="linux_aarch64, linux_x86_64 or manylinux_2_27_aarch64"
    )
    parser.add_argument("--extension", required=True, type=Path, metavar="FILE", help="_core.so built for that Python")
    parser.add_argument("--library", required=True, type=Path, metavar="FILE", help="libmalisdk.so of that machine")
    parser.add_argument(
        "--licence",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a licence text to put in beside the project's own; repeat it for more",
    )
    parser.add_argument(
        "--sources",
        type=Path,
        default=_ROOT / "bindings" / "python",
        metavar="DIR",
        help="folder of the malisdk package (default: %(default)s)",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="PATH", help="the .whl file, or a folder for it")


def main(args: argparse.Namespace) -> int:
    from ..bundle.wheel import WheelTag, make_wheel

    path = make_wheel(
        args.out,
        tag=WheelTag(python=args.python_tag, platform=args.platform),
        extension=args.extension,
        library=args.library,
        sources=args.sources,
        licences=_licences(args.licence),
    )
    print(path)
    return 0


def _licences(given: list[str]) -> dict[str, Path]:
    from ..errors import ConfigError

    found = {"LICENSE": _ROOT / "LICENSE"}
    for word in given:
        name, separator, file = word.partition("=")
        path = Path(file if separator else word)
        name = name if separator else path.name
        if name in found:
            raise ConfigError(f"--licence {word}: name taken twice, got {name}; expected one of its own, as NAME=FILE")
        found[name] = path
    for path in found.values():
        if not path.is_file():
            raise ConfigError(f"{path}: no such file; expected a licence text")
    return found

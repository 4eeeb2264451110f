"""Pack a compiled model, the runtime, wheels, examples and smoke cases as one SDK archive."""

import argparse
from pathlib import Path

SUMMARY = "pack a model and the runtime as an SDK"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    def file(name: str, help: str, *, many: bool = False, required: bool = True) -> None:
        if many:
            parser.add_argument(name, action="append", default=[], type=Path, metavar="FILE", help=help)
        else:
            parser.add_argument(name, required=required, type=Path, metavar="PATH", help=help)

    parser.add_argument("--target", required=True, help="what the binaries and the model are for: rk3399 or host")
    parser.add_argument("--model", required=True, metavar="NAME", help="the model's name in file names")
    file("--mali", "the compiled model")
    file("--library", "libmalisdk.so")
    file("--tool", "the malisdk command")
    file("--wheel", "a Python wheel of the runtime; repeat it for more", many=True)
    file("--header", "a C header; repeat it for more", many=True)
    file("--smoke", "a program for the smoke folder; repeat it for more", many=True)
    file("--cases", "folder of smoke cases, as `golden` makes it")
    file("--recipe", "the model's folder, as `models build` makes it", required=False)
    for name, what in (("--example", "an example, as LANGUAGE=FILE"), ("--licence", "a licence text, as NAME=FILE")):
        parser.add_argument(name, action="append", default=[], metavar="KEY=FILE", help=f"{what}; repeat it for more")
    file("--out", "the .tar.gz to write")


def main(args: argparse.Namespace) -> int:
    from ..bundle.sdk import Contents, make_bundle

    contents = Contents(
        target=args.target,
        machine=_machine(args.target),
        model=args.model,
        mali=_existing("--mali", args.mali),
        library=_existing("--library", args.library),
        tool=_existing("--tool", args.tool),
        wheels=tuple(_existing("--wheel", p) for p in args.wheel),
        headers=tuple(_existing("--header", p) for p in args.header),
        smoke=tuple(_existing("--smoke", p) for p in args.smoke),
        examples=tuple(_pair("--example", word) for word in args.example),
        licences=dict(_pair("--licence", word) for word in args.licence),
        cases=_existing("--cases", args.cases),
        recipe=args.recipe and _existing("--recipe", args.recipe),
    )
    make_bundle(args.out, contents)
    print(args.out)
    return 0


def _machine(target: str) -> str:
    import platform

    from ..errors import ConfigError

    names = {"aarch64": "AArch64", "x86_64": "x64"}
    machines = {"rk3399": "AArch64", "host": names.get(platform.machine(), platform.machine())}
    if target not in machines:
        raise ConfigError(f"--target: unknown target, got {target}; expected one of {', '.join(machines)}")
    return machines[target]


def _existing(option: str, path: Path) -> Path:
    from ..errors import ConfigError

    if not path.exists():
        raise ConfigError(f"{option} {path}: no such file; expected one made before")
    return path


def _pair(option: str, word: str) -> tuple[str, Path]:
    from ..errors import ConfigError

    key, separator, file = word.partition("=")
    if not key or not separator:
        raise ConfigError(f"{option}: got {word}; expected NAME=FILE")
    return key, _existing(option, Path(file))

"""Command line: `python -m malisdk_pipeline COMMAND ...`."""

import argparse
import difflib
import importlib
import pkgutil
import sys
from typing import NoReturn

from . import __version__, commands, log
from .errors import ConfigError, MaliSdkError


class _Parser(argparse.ArgumentParser):
    """argparse that raises ConfigError instead of leaving the process, and suggests the nearest name."""

    def error(self, message: str) -> NoReturn:
        hint = f"{self.prog} --help"
        if "invalid choice" in message or "unrecognized" in message:
            wrong = message.partition("invalid choice: ")[2].split(" ")[0].strip("'\"") or message.rsplit(" ", 1)[-1]
            names = [o for a in self._actions for o in a.option_strings]
            names += [str(c) for a in self._actions if a.choices for c in a.choices]
            near = difflib.get_close_matches(wrong, names, 1)
            if near:
                hint = f"did you mean {near[0]}?"
        raise ConfigError(message, hint=hint)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="malisdk_pipeline", description="Compile networks for Mali boards and pack them.")
    parser.add_argument("--version", action="version", version=f"malisdk-pipeline {__version__}")
    sub = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module_info in sorted(pkgutil.iter_modules(commands.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{commands.__name__}.{module_info.name}")
        name = module_info.name.replace("_", "-")
        command = sub.add_parser(name, help=module.SUMMARY, description=module.__doc__, allow_abbrev=False)
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    return parser


def main_inner(argv: list[str]) -> int:
    args = build_parser().parse_args(argv)
    return int(args.main(args))


def main(argv: list[str] | None = None) -> int:
    try:
        return main_inner(sys.argv[1:] if argv is None else argv)
    except MaliSdkError as e:
        log.error(str(e))
        return e.exit_code
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())

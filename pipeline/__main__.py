"""Command line: `python -m malisdk_pipeline COMMAND ...`."""

import argparse
import difflib
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import __version__, commands, log
from .errors import ConfigError, MaliSdkError


class _Parser(argparse.ArgumentParser):
    """argparse that raises ConfigError instead of leaving the process, and suggests the nearest name."""

    _words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """A misspelt option is the likelier mistake where a required one is missing."""
        known = [o for a in self._actions for o in a.option_strings]
        for word in self._words:
            if "required" in message and word.startswith("--") and word.partition("=")[0] not in (*known, "--"):
                raise self._unknown("unknown argument", word, known)
        raise ConfigError(f"{self.prog}: {message}", hint=f"{self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        self._words = args or ()
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            raise self._unknown("unknown argument", rest[0], [o for a in self._actions for o in a.option_strings])
        return known, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = "/".join(action.option_strings) or action.metavar or action.dest
            raise self._unknown(f"{name}: unknown value", str(value), [str(c) for c in action.choices])

    def _unknown(self, what: str, got: str, expected: list[str]) -> ConfigError:
        near = difflib.get_close_matches(got.partition("=")[0], expected, 1)
        return ConfigError(
            f"{self.prog}: {what}, got {got}; expected {', '.join(expected)}",
            hint=f"did you mean {near[0]}?" if near else f"{self.prog} --help",
        )


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m malisdk_pipeline", description="Compile networks for Mali boards and pack them.")
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
    except BrokenPipeError:
        # Whoever read the output has enough, as in `inspect net.onnx | head`; the exit must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())

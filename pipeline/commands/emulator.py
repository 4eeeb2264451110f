"""The emulated arm64 system that SDKs are tried on: prepare it, or run a command in it."""

import argparse

SUMMARY = "prepare the emulated arm64 system, or run a command in it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    setup = actions.add_parser(
        "setup", help="unpack the system if it is not there yet, and check it", allow_abbrev=False
    )
    run = actions.add_parser("run", help="run a command in it, as root, in an empty folder", allow_abbrev=False)
    run.add_argument("argv", nargs="+", metavar="COMMAND", help="after --: the command and its arguments")
    for action in (setup, run):
        action.add_argument("--suite", help="Debian release: bookworm (default), bullseye or trixie")
        action.add_argument(
            "--timeout", type=float, default=600.0, metavar="S", help="seconds a command may take (600)"
        )


def main(args: argparse.Namespace) -> int:
    from ..devices.base import check
    from ..devices.emulator import EmulatorDevice
    from ..errors import ConfigError

    if not args.timeout > 0:
        raise ConfigError(f"--timeout: not a time limit, got {args.timeout:g}; expected seconds above 0")
    with EmulatorDevice(args.suite) as device:
        if args.action == "run":
            return device.run_attached(args.argv, timeout_s=args.timeout)
        numpy = "import sys, numpy; print('Python', sys.version.split()[0], 'with numpy', numpy.__version__)"
        for argv in (["python3", "-c", numpy], ["clinfo", "-l"]):
            result = device.run(argv, timeout_s=args.timeout)
            check(device, result, f"{argv[0]} does not work")
            print(result.output.rstrip())
    return 0

"""Predict the benchmark networks on the RK3399, layer by layer, beside what others have published."""

import argparse
from pathlib import Path

from ..targets import DTYPES

SUMMARY = "predict the benchmark networks' times on the board, beside published ones"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="ONNX file, model folder or name (six networks)")
    parser.add_argument("--target", choices=("rk3399",), default="rk3399", help="platform (rk3399)")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="repeatable (both)")
    parser.add_argument(
        "--tuning-log", type=Path, action="append", default=[], metavar="FILE.jsonl", help="decisions of `tune`"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write bench.json, bench.txt and plots into DIR")
    parser.add_argument("--no-plots", action="store_true", help="tables only (plots need matplotlib)")
    parser.add_argument("--layers", action="store_true", help="also print the tables of all layers")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="compilers at once (2)")


def main(args: argparse.Namespace) -> int:
    import importlib.util
    import io
    import json

    from rich.console import Console

    from .. import files, log
    from ..bench.models import find_model
    from ..bench.network import NETWORKS, predict_network
    from ..bench.plots import write_plots
    from ..bench.report import doubts, layers_table, published_table, summary_table, to_json
    from ..errors import ConfigError

    if args.processes < 1:
        raise ConfigError(f"--processes: not a number of compilers, got {args.processes}; expected 1 or more")
    plots = args.out is not None and not args.no_plots
    if plots and importlib.util.find_spec("matplotlib") is None:
        log.warning("matplotlib: not installed, so there will be no plots; pip install 'malisdk-pipeline[bench]'")
        plots = False
    networks = []
    for text in args.models or NETWORKS:
        for dtype in args.dtype or DTYPES:
            network = predict_network(
                find_model(text), target=args.target, dtype=dtype, tuning=args.tuning_log, processes=args.processes
            )
            log.info(f"{network.name}, {dtype}: {network.predicted_ms:.1f} ms predicted ({network.model})")
            networks.append(network)
    tables = [summary_table(networks), published_table(networks)]
    details = [layers_table(n) for n in networks]
    console = Console(width=None if Console().is_terminal else 180)
    for table in [*(details if args.layers else []), *tables]:
        console.print(table)
    for line in doubts(networks):
        print(line)
    if args.out is None:
        return 0
    with files.atomic_folder(args.out, marker="bench.json") as folder:
        (folder / "bench.json").write_text(json.dumps(to_json(networks), indent=1) + "\n")
        text = Console(file=io.StringIO(), width=240, record=True)
        for table in [*details, *tables]:
            text.print(table)
        (folder / "bench.txt").write_text(text.export_text() + "".join(f"{line}\n" for line in doubts(networks)))
        if plots:
            write_plots(networks, folder)
    print(args.out)
    return 0

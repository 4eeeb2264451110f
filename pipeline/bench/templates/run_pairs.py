#!/usr/bin/env python3
"""Runs pairs of compiled models, ours and plain TVM's kernels, on this machine's OpenCL and prints a table.

usage: run_pairs.py [--malisdk PATH] [--runs N] [--device NAME] [--json FILE]

It needs `malisdk` and libmalisdk.so (of an SDK for this machine) and nothing else. Times are measured here.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KINDS = ("mali", "plain")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--malisdk", default="malisdk", help="the program (default: malisdk of the PATH)")
    parser.add_argument("--runs", type=int, default=100, help="timed runs a model (100)")
    parser.add_argument("--device", default="gpu", help="auto, gpu, or a part of the device's name (gpu)")
    parser.add_argument("--only", action="append", help="this model only (repeatable)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(HERE / "pairs.tar.xz") as archive:
            archive.extractall(scratch)
        folder = Path(scratch, "pairs")
        facts = json.loads((folder / "pairs.json").read_text())
        names = [n for n in facts["models"] if not args.only or n in args.only]
        rows = [measure(args, folder, name) for name in names]
    print(table(rows, facts))
    if args.json:
        args.json.write_text(json.dumps({**facts, "results": rows}, indent=2) + "\n")
    return 0 if all(row[kind]["right"] for row in rows for kind in KINDS) else 1


def measure(args: argparse.Namespace, folder: Path, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"model": name}
    for kind in KINDS:
        mali = folder / f"{name}.{kind}.mali"
        common = ["--device", args.device]
        smoke = call([args.malisdk, "smoke", str(mali), str(folder / f"{name}.cases"), *common])
        bench = call([args.malisdk, "bench", str(mali), "--runs", str(args.runs), "--warmup", "5", *common])
        found = re.search(r"latency +min ([\d.]+) +median ([\d.]+)", bench.stdout)
        errors = [float(e) for e in re.findall(r"relative error ([\d.e+-]+)", smoke.stdout)]
        row[kind] = {
            "right": smoke.returncode == 0,
            "relative_error": max(errors) if errors else None,
            "min_ms": float(found[1]) if found else None,
            "median_ms": float(found[2]) if found else None,
            "launches": first(r"(\d+) launches", bench.stdout),
        }
        row["device"] = first(r"device +(.*)", bench.stdout) or row.get("device")
        for done in (smoke, bench):
            if done.returncode:
                print(f"{name} {kind}: {' '.join(done.args[:2])} ended with {done.returncode}", file=sys.stderr)
                print((done.stdout + done.stderr).strip()[-2000:], file=sys.stderr)
    ours, plain = row["mali"]["median_ms"], row["plain"]["median_ms"]
    row["ratio"] = plain / ours if ours and plain else None
    return row


def call(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None


def table(rows: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    head = ("model", "ours", "ours ms", "launches", "plain TVM", "plain ms", "launches", "plain : ours")
    cells: list[tuple[str, ...]] = [head]
    for row in rows:
        line = [row["model"]]
        for kind in KINDS:
            r = row[kind]
            error = "" if r["relative_error"] is None else f" ({r['relative_error']:.1e})"
            ms = "-" if r["median_ms"] is None else f"{r['median_ms']:.3f}"
            line += [("right" if r["right"] else "WRONG") + error, ms, str(r["launches"])]
        cells.append((*line, "-" if row["ratio"] is None else f"{row['ratio']:.2f}"))
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    device = rows[0]["device"] if rows else "-"
    lines = [f"{facts['dtype']}, medians, measured on {device}"]
    lines += ["  ".join(row[i].ljust(widths[i]) for i in range(len(head))).rstrip() for row in cells]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

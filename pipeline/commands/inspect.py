"""Show what a .mali file holds: inputs, outputs, kernels, launches, arena, weights."""

import argparse
import json
import math
from pathlib import Path

from ..errors import ConfigError
from ..plan import Place, Plan

SUMMARY = "show what a .mali file holds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help=".mali file")
    parser.add_argument("--kernels", action="store_true", help="print the OpenCL source of every kernel")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    from .. import container

    if not args.file.is_file():
        raise ConfigError(f"{args.file}: no such file")
    plan = container.read(args.file)
    if args.json:
        print(json.dumps(summary(plan), indent=2))
    elif args.kernels:
        print("\n".join(k.source for k in plan.kernels), end="")
    else:
        print(text(plan))
    return 0


def summary(plan: Plan) -> dict[str, object]:
    return {
        "model": plan.model_name,
        "target": plan.target,
        "dtype": plan.dtype,
        "inputs": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape)} for t in plan.inputs],
        "outputs": [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape)} for t in plan.outputs],
        "kernels": len(plan.kernels),
        "launches": [
            {
                "kernel": plan.kernels[launch.kernel].name,
                "layer": launch.layer,
                "rule": launch.rule,
                "global_size": list(launch.global_size),
                "local_size": list(plan.kernels[launch.kernel].local_size),
                "flops": launch.flops,
                "bytes": launch.bytes,
            }
            for launch in plan.launches
        ],
        "arena_bytes": plan.arena_bytes,
        "weights_bytes": len(plan.weights),
        "needs_fp16": plan.needs_fp16,
        "needs_fp64": plan.needs_fp64,
        "metadata": plan.metadata,
    }


def text(plan: Plan) -> str:
    tensors = [("input ", t) for t in plan.inputs] + [("output", t) for t in plan.outputs]
    lines = [f"model   {plan.model_name} for {plan.target}, {plan.dtype}"]
    lines += [f"{kind}  {t.name} {t.dtype} {list(t.shape)}" for kind, t in tensors]
    arena = sum(b.size_bytes for b in plan.buffers if b.place is Place.ARENA)
    lines += [
        f"arena   {plan.arena_bytes:,} bytes for {arena:,} bytes of tensors",
        f"weights {len(plan.weights):,} bytes",
        f"kernels {len(plan.kernels)}, launches {len(plan.launches)}, "
        f"multiply-adds {sum(launch.flops for launch in plan.launches) // 2:,}",
        "",
        f"{'#':>4} {'kernel':<44} {'rule':<20} {'work-items':>16} {'group':>10} {'MFLOP':>9} {'kB':>8}",
    ]
    for i, launch in enumerate(plan.launches):
        kernel = plan.kernels[launch.kernel]
        items = "x".join(map(str, launch.global_size))
        group = "x".join(map(str, kernel.local_size))
        lines.append(
            f"{i:>4} {kernel.name[:44]:<44} {launch.rule:<20} {items:>16} {group:>10} "
            f"{launch.flops / 1e6:>9.2f} {math.ceil(launch.bytes / 1e3):>8,}"
        )
    lines += [""] + [f"{key}: {value}" for key, value in sorted(plan.metadata.items())]
    return "\n".join(lines)

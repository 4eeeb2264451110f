"""Show what a model file or a compiled .mali file holds, and what of a model this pipeline takes."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..plan import Place, Plan
from ..shapes import OPTION_HELP, parse_shapes

if TYPE_CHECKING:
    from ..importers.survey import Port, Survey

SUMMARY = "show what a model or a .mali file holds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="an ONNX file, an MXNet symbol or prefix, or a .mali file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--kernels", action="store_true", help="of a .mali file: print every kernel's OpenCL source")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:DIMS", help=f"of a model: {OPTION_HELP}")
    parser.add_argument(
        "--cut", action="append", metavar="TENSOR", help="of a model: make this tensor an output (repeatable)"
    )


def main(args: argparse.Namespace) -> int:
    """0 for a file that is sound and a model that would compile; a model's problems end in ImportFailed."""
    if args.file.suffix == ".mali":
        _show_plan(args)
    else:
        _show_model(args)
    return 0


def _show_plan(args: argparse.Namespace) -> None:
    from .. import container

    if args.shape or args.cut:
        raise ConfigError(f"{args.file}: --shape and --cut are for models, got a compiled file")
    if not args.file.is_file():
        raise ConfigError(f"{args.file}: no such file")
    plan = container.read(args.file)
    if args.json:
        print(json.dumps(_plan_summary(plan), indent=2))
    elif args.kernels:
        print("\n".join(k.source for k in plan.kernels), end="")
    else:
        print(_plan_text(plan))


def _show_model(args: argparse.Namespace) -> None:
    from ..importers.findings import raise_findings
    from ..importers.survey import survey_file

    if args.kernels:
        raise ConfigError(f"{args.file}: only a .mali file has kernels", hint="python -m malisdk_pipeline compile")
    found = survey_file(args.file, shapes=parse_shapes(args.shape), outputs=args.cut)
    print(json.dumps(_model_summary(found), indent=2) if args.json else _model_text(args.file.name, found))
    raise_findings(args.file, list(found.findings))


def _model_summary(found: "Survey") -> dict[str, object]:
    return {
        "opset": found.opset,
        "domains": dict(found.domains),
        "producer": found.producer,
        "layers": dict(found.layers),
        "inputs": [{"name": p.name, "dtype": p.dtype, "shape": p.shape} for p in found.inputs],
        "outputs": [{"name": p.name, "dtype": p.dtype, "shape": p.shape} for p in found.outputs],
        "parameters": found.parameters,
        "parameter_bytes": found.parameter_bytes,
        "multiply_adds": found.multiply_adds,
        "operators": [
            {"operator": o.operator, "nodes": o.nodes, **o.states, "multiply_adds": o.multiply_adds}
            for o in found.operators
        ],
        "findings": [{"where": f.where, "text": f.text, "hint": f.hint} for f in found.findings],
    }


def _model_text(name: str, found: "Survey") -> str:
    lines = [f"model   {name}, opset {found.opset}{f', by {found.producer}' if found.producer else ''}"]
    lines += [f"domain  {domain}, opset {version}" for domain, version in sorted(found.domains.items())]
    lines += [f"input   {_port(p)}" for p in found.inputs]
    lines += [f"output  {_port(p)}" for p in found.outputs]
    if found.layers:
        lines.append("layers  " + ", ".join(f"{n} {layer}" for layer, n in found.layers.items()))
    nodes = {state: sum(o.states.get(state, 0) for o in found.operators) for state in _STATES}
    lines += [
        f"weights {found.parameters:,} numbers, {found.parameter_bytes:,} bytes",
        f"work    {found.multiply_adds:,} multiply-adds",
        "nodes   " + (", ".join(f"{n} {_STATES[state]}" for state, n in nodes.items() if n) or "none"),
        "",
        f"{'operator':<28} {'nodes':>6} {'multiply-adds':>15}  where",
    ]
    for o in found.operators:
        where = ", ".join(
            f"{n} {_STATES[state]}" if len(o.states) > 1 else _STATES[state] for state, n in o.states.items()
        )
        lines.append(f"{o.operator:<28} {o.nodes:>6} {o.multiply_adds:>15,}  {where}")
    return "\n".join(lines)


def _port(port: "Port") -> str:
    extents = "[any rank]" if port.shape is None else f"[{', '.join(str(e) if e else '?' for e in port.shape)}]"
    return f"{port.name} {port.dtype} {extents}"


# The words of importers.tally for where a node ends.
_STATES = {
    "gpu": "on the GPU",
    "build": "computed while compiling",
    "refused": "not supported",
    "unreached": "behind those or behind an open shape",
}


def _plan_summary(plan: Plan) -> dict[str, object]:
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


def _plan_text(plan: Plan) -> str:
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

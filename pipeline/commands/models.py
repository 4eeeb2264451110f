"""The models that this repository knows: list them, or build one as ONNX from its published weights."""

import argparse
import json
import sys
from pathlib import Path

SUMMARY = "list the known models, or build one as ONNX"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="print the known models", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="as JSON")
    build = actions.add_parser("build", help="make a model's folder: model.onnx, labels, images", allow_abbrev=False)
    build.add_argument("name", metavar="NAME", help="a name out of `models list`")
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to make")


def main(args: argparse.Namespace) -> int:
    from .. import recipes

    if args.action == "build":
        from ..model_folder import build_folder

        build_folder(recipes.load(args.name), args.out)
        print(args.out)
        return 0
    known = [recipes.load(name) for name in recipes.names()]
    if args.json:
        facts = [
            {
                "name": r.name,
                "default": r.name == recipes.DEFAULT,
                "summary": r.summary,
                "input": {"name": r.input_name, "shape": list(r.input_shape)},
                "sources": [s.source for s in r.sources],
            }
            for r in known
        ]
        json.dump(facts, sys.stdout, indent=2)
        print()
        return 0
    width = max(len(r.name) for r in known)
    for r in known:
        default = " (default)" if r.name == recipes.DEFAULT else ""
        print(f"{r.name:<{width}}  {r.summary}{default}")
    return 0

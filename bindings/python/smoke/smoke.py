#!/usr/bin/env python3
"""Runs the SDK's smoke cases through `import malisdk` and compares with the expected outputs.

    python3 smoke/smoke.py [MODEL.mali] [--cases DIR] [--device auto|gpu|cpu|NAME]

Exit code 0: every case passed; 1: one did not, or the model could not be run.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SDK = HERE.parent


def main():
    parser = argparse.ArgumentParser(description="Run the smoke cases of this SDK.")
    parser.add_argument("model", nargs="?", type=Path, help="default: the one in models/")
    parser.add_argument("--cases", type=Path, default=HERE / "cases")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    try:
        import malisdk
        from malisdk import cases
    except ImportError as e:
        print("error: cannot import malisdk: {}".format(e), file=sys.stderr)
        print("hint: {}".format(install_hint()), file=sys.stderr)
        return 1
    models = [args.model] if args.model else sorted((SDK / "models").glob("*.mali"))
    if len(models) != 1:
        text = "error: {}: {} models; expected one, or its path as argument"
        print(text.format(SDK / "models", len(models)), file=sys.stderr)
        return 1
    try:
        with malisdk.load(models[0], device=args.device) as model:
            return 0 if cases.smoke(model, args.cases) else 1
    except malisdk.Error as e:
        print("error: {} ({})".format(e, e.status), file=sys.stderr)
        return 1


def install_hint():
    wheels = sorted((SDK / "python").glob("malisdk-*-cp{}{}-*.whl".format(*sys.version_info[:2])))
    if wheels:
        return "{} -m pip install {}".format(sys.executable, wheels[0])
    return "this SDK has no wheel for Python {}.{}; see {}".format(*sys.version_info[:2], SDK / "python")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Classifies a picture and prints the five best classes.

    python3 examples/python/classify.py models/NAME.mali models/labels.txt smoke/cases/NAME/image.ppm

The picture is a binary PPM of the model's input size; how it becomes numbers is read from the case.json beside it, or
from --case. With numpy alone; a real application takes its frames from a camera instead.
"""

import argparse
import sys
from pathlib import Path

import malisdk
import numpy as np
from malisdk import cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("labels", type=Path, help="one label a line")
    parser.add_argument("image", type=Path, help="binary PPM (P6)")
    parser.add_argument("--case", type=Path, help="case.json with the preprocessing")
    args = parser.parse_args()
    labels = args.labels.read_text(encoding="utf-8").splitlines()
    try:
        x = cases.load_image(args.image, args.case or args.image.parent / "case.json")
        with malisdk.load(args.model) as model:
            scores = model.run(x).reshape(-1)
            print("{} on {}".format(model.name, model.device))
    except (malisdk.Error, OSError) as e:
        print("error: {}".format(e), file=sys.stderr)
        return 1
    for index in np.argsort(scores)[::-1][:5]:
        print("{:8.4f}  {}".format(scores[index], labels[index]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

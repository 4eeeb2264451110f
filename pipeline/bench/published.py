"""What others reached on an RK3399, by their own publications: milliseconds, batch 1, 224 x 224, measured by them.

Sources: TVM's blog of January 2018 (with its figures for Arm Compute Library 17.12 and MXNet); TVM's benchmark wiki of
October 2018 (AutoTVM); Paddle-Lite's benchmark page for 2.11; ncnn's benchmark page (Vulkan; CPU on the two A72).
"""

from dataclasses import dataclass

GPU, CPU = "gpu", "cpu"


@dataclass(frozen=True, kw_only=True)
class Published:
    """`ms` by the benchmark's network name."""

    who: str
    on: str
    dtype: str
    ms: dict[str, float]


PUBLISHED = (
    Published(
        who="TVM 2018",
        on=GPU,
        dtype="float32",
        ms={"mobilenet_v1": 76.7, "resnet18": 204.0, "vgg16": 1293.0},
    ),
    Published(
        who="TVM 2018",
        on=GPU,
        dtype="float16",
        ms={"mobilenet_v1": 47.9, "resnet18": 118.0, "vgg16": 690.0},
    ),
    Published(who="Arm Compute Library 17.12", on=GPU, dtype="float32", ms={"mobilenet_v1": 170.9, "vgg16": 1645.0}),
    Published(who="Arm Compute Library 17.12", on=GPU, dtype="float16", ms={"vgg16": 969.0}),
    Published(
        who="AutoTVM 2018-10",
        on=GPU,
        dtype="float32",
        ms={
            "squeezenet1_1": 58.0,
            "mobilenet_v1": 75.4,
            "mobilenet_v2": 70.8,
            "resnet18": 128.6,
            "resnet50": 352.9,
            "vgg16": 679.5,
        },
    ),
    Published(
        who="AutoTVM 2018-10",
        on=GPU,
        dtype="float16",
        ms={
            "squeezenet1_1": 42.1,
            "mobilenet_v1": 49.3,
            "mobilenet_v2": 53.3,
            "resnet18": 84.0,
            "resnet50": 215.5,
            "vgg16": 410.2,
        },
    ),
    Published(
        who="Paddle-Lite 2.11, Android",
        on=GPU,
        dtype="float16",
        ms={"mobilenet_v1": 45.9, "mobilenet_v2": 37.7, "resnet50": 237.4},
    ),
    Published(
        who="ncnn Vulkan, Android",
        on=GPU,
        dtype="float16",
        ms={
            "squeezenet1_1": 24.6,
            "mobilenet_v1": 36.0,
            "mobilenet_v2": 30.2,
            "resnet18": 74.2,
            "resnet50": 176.2,
            "vgg16": 300.8,
        },
    ),
    Published(
        who="MXNet 1.0.1, OpenBLAS",
        on=CPU,
        dtype="float32",
        ms={"mobilenet_v1": 291.0, "resnet18": 398.0, "vgg16": 3025.0},
    ),
    Published(
        who="AutoTVM, 2 x A72",
        on=CPU,
        dtype="float32",
        ms={
            "squeezenet1_1": 48.2,
            "mobilenet_v1": 77.9,
            "mobilenet_v2": 64.8,
            "resnet18": 158.6,
            "resnet50": 403.2,
            "vgg16": 903.5,
        },
    ),
    Published(
        who="ncnn, 2 x A72",
        on=CPU,
        dtype="float32",
        ms={
            "squeezenet1_1": 44.0,
            "mobilenet_v1": 65.1,
            "mobilenet_v2": 51.8,
            "resnet18": 112.4,
            "resnet50": 293.1,
            "vgg16": 629.2,
        },
    ),
)


def best_on_gpu(network: str, dtype: str) -> tuple[str, float] | None:
    """Who was fastest on the GPU, and with how many ms; None where nobody published one."""
    found = [(p.ms[network], p.who) for p in PUBLISHED if p.on == GPU and p.dtype == dtype and network in p.ms]
    return (min(found)[1], min(found)[0]) if found else None

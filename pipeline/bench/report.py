"""Tables of benchmark networks: layer by layer, in all, and beside what others have published."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table

from .network import BANDWIDTH_GB_S, PEAK_GFLOPS, Layer, Network
from .published import CPU, PUBLISHED, best_on_gpu


def to_json(networks: Sequence[Network]) -> list[dict[str, Any]]:
    """Predicted times; units are in the names."""
    return [
        {
            "network": n.name,
            "dtype": n.dtype,
            "how": "predicted",
            "model": n.model,
            "predicted_ms": round(n.predicted_ms, 3),
            "roofline_ms": round(n.roofline_ms, 3),
            "gflop": round(n.flops / 1e9, 3),
            "layers": [
                {
                    **asdict(layer),
                    "gflops": layer.gflops,
                    "gb_s": layer.gb_s,
                    "roofline_us": layer.roofline_us,
                    "limit": layer.limit,
                }
                for layer in n.layers
            ],
        }
        for n in networks
    ]


def layers_table(network: Network) -> Table:
    peak = PEAK_GFLOPS[network.dtype]
    table = Table(
        title=f"{network.name}, {network.dtype}: predicted ({network.model})",
        caption=f"peak {peak:g} GFLOPS and {BANDWIDTH_GB_S:g} GB/s, measured on a T860MP4 by clpeak; least: what these "
        "allow the plain algorithm",
        box=box.SIMPLE,
    )
    for name in ("layer", "rule", "knobs", "registers", "spills:fills"):
        table.add_column(name, overflow="fold")
    for name in ("us", "GFLOPS", "of peak", "GB/s", "of bandwidth", "least us", "times least", "limit"):
        table.add_column(name, justify="right")
    for layer in network.layers:
        table.add_row(*_layer_cells(layer, peak))
    return table


def _layer_cells(layer: Layer, peak: float) -> list[str]:
    us = layer.predicted_us
    return [
        layer.workload or layer.name[:48],
        layer.rule,
        " ".join(f"{k}={v}" for k, v in layer.knobs.items()) or "-",
        ",".join(map(str, layer.registers)) or "-",
        f"{layer.spills}:{layer.fills}",
        _n(us, 0),
        _n(layer.gflops if layer.flops else None, 1),
        _share(layer.gflops if layer.flops else None, peak),
        _n(layer.gb_s, 2),
        _share(layer.gb_s, BANDWIDTH_GB_S),
        _n(layer.roofline_us, 0),
        _n(us / layer.roofline_us if us and layer.roofline_us else None, 2),
        layer.limit,
    ]


def summary_table(networks: Sequence[Network]) -> Table:
    table = Table(title="networks, predicted on the RK3399's Mali-T860MP4", box=box.SIMPLE)
    for name in ("network", "dtype"):
        table.add_column(name)
    numbers = ("ms predicted", "GFLOPS", "of peak", "least ms", "times least", "compute-bound", "launches", "spills")
    for name in numbers:
        table.add_column(name, justify="right")
    table.add_column("best published on this GPU, ms (measured)")
    table.add_column("published : ours", justify="right")
    for n in networks:
        best = best_on_gpu(n.name, n.dtype)
        gflops = n.flops / n.predicted_ms / 1e6 if n.predicted_ms else None
        compute = sum(layer.roofline_us for layer in n.layers if layer.limit == "compute")
        table.add_row(
            n.name,
            n.dtype,
            f"{n.predicted_ms:.1f}" + (f" without {n.without_prediction} layers" if n.without_prediction else ""),
            _n(gflops, 1),
            _share(gflops, PEAK_GFLOPS[n.dtype]),
            f"{n.roofline_ms:.1f}",
            _n(n.predicted_ms / n.roofline_ms if n.roofline_ms else None, 2),
            _share(compute / 1e3, n.roofline_ms),
            str(sum(layer.launches for layer in n.layers)),
            str(sum(layer.spills > 0 for layer in n.layers)),
            f"{best[1]:g} ({best[0]})" if best else "-",
            f"{best[1] / n.predicted_ms:.2f}" if best and n.predicted_ms else "-",
        )
    return table


def doubts(networks: Sequence[Network]) -> list[str]:
    """A line for each network with layers that are predicted faster than the measured peak or bandwidth allows."""
    lines = []
    for n in networks:
        fast = [
            layer
            for layer in n.layers
            if layer.predicted_us and layer.predicted_us < layer.roofline_us and layer.rule != "conv2d_winograd"
        ]
        if fast:
            ms = sum(layer.roofline_us - (layer.predicted_us or 0.0) for layer in fast) / 1e3
            lines.append(
                f"{n.name}, {n.dtype}: {len(fast)} layers are predicted {ms:.1f} ms faster in all than the roofline"
            )
    return lines


def published_table(networks: Sequence[Network]) -> Table:
    """Ours, predicted, above what others measured."""
    names = list(dict.fromkeys(n.name for n in networks))
    table = Table(title="ms an inference on the RK3399, batch 1", box=box.SIMPLE)
    for name in ("who", "on", "dtype", "how"):
        table.add_column(name)
    for name in names:
        table.add_column(name, justify="right")
    for dtype in dict.fromkeys(n.dtype for n in networks):
        ms = {n.name: n.predicted_ms for n in networks if n.dtype == dtype}
        cells = [f"{ms[name]:.1f}" if name in ms else "" for name in names]
        table.add_row("malisdk", "gpu", dtype, "predicted", *cells, style="bold")
    for p in sorted(PUBLISHED, key=lambda p: (p.on == CPU, p.dtype, p.who)):
        table.add_row(p.who, p.on, p.dtype, "measured", *(f"{p.ms[name]:g}" if name in p.ms else "" for name in names))
    return table


def _n(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None, whole: float) -> str:
    return "-" if value is None or not whole else f"{100 * value / whole:.0f} %"

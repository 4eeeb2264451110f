"""Plots of benchmark networks: a roofline a dtype, and ours beside what others have published."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ToolchainError
from .network import BANDWIDTH_GB_S, PEAK_GFLOPS, Network
from .published import GPU, PUBLISHED


def write_plots(networks: Sequence[Network], out: Path) -> list[Path]:
    """SVG files in the folder `out`. Raises ToolchainError if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError as e:
        raise ToolchainError(
            "matplotlib: not installed; expected it for the plots", hint="pip install 'malisdk-pipeline[bench]'"
        ) from e
    mpl.use("svg")
    # the same plot gives the same bytes
    mpl.rcParams["svg.hashsalt"] = "malisdk"
    made = []
    for dtype in dict.fromkeys(n.dtype for n in networks):
        some = [n for n in networks if n.dtype == dtype]
        made.append(_save(_roofline(some, dtype), out / f"roofline-{dtype}.svg"))
        made.append(_save(_published(some, dtype), out / f"published-{dtype}.svg"))
    return made


def _save(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _roofline(networks: Sequence[Network], dtype: str) -> Any:
    """Every layer with multiply-adds: operations a byte against predicted GFLOPS, as large as its share of the time."""
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    intensity = np.geomspace(0.2, 400, 200)
    roof = np.minimum(PEAK_GFLOPS[dtype], intensity * BANDWIDTH_GB_S)
    axes.plot(intensity, roof, color="black", label="roofline (clpeak, measured)")
    for n in networks:
        layers = [layer for layer in n.layers if layer.flops and layer.predicted_us]
        axes.scatter(
            [layer.flops / layer.bytes for layer in layers],
            [layer.gflops or 0.0 for layer in layers],
            s=[4 + 400 * (layer.predicted_us or 0.0) / 1e3 / n.predicted_ms for layer in layers],
            alpha=0.6,
            label=f"{n.name}, {n.predicted_ms:.1f} ms predicted",
        )
    axes.set(xscale="log", yscale="log", xlabel="floating-point operations a byte", ylabel="GFLOPS (predicted)")
    axes.set_title(f"layers on the Mali-T860MP4, {dtype}; area: share of the network's time")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize="small")
    return figure


def _published(networks: Sequence[Network], dtype: str) -> Any:
    """Bars side by side for each network."""
    import matplotlib.pyplot as plt
    import numpy as np

    series = [("malisdk (predicted)", {n.name: n.predicted_ms for n in networks})]
    series += [(f"{p.who} (measured)", p.ms) for p in PUBLISHED if p.on == GPU and p.dtype == dtype]
    names = [n.name for n in networks]
    figure, axes = plt.subplots(figsize=(11, 5), layout="constrained")
    width = 0.8 / len(series)
    for i, (label, ms) in enumerate(series):
        places = np.array([k for k, name in enumerate(names) if name in ms]) + (i - (len(series) - 1) / 2) * width
        values = [ms[name] for name in names if name in ms]
        bars = axes.bar(places, values, width, label=label)
        axes.bar_label(bars, fmt="%.3g", fontsize=6)
    axes.set_xticks(range(len(names)), names)
    axes.set(yscale="log", ylabel="ms an inference")
    axes.set_title(f"RK3399 GPU, {dtype}, batch 1, 224 x 224: ours predicted, others measured by their authors")
    axes.legend(fontsize="small")
    return figure

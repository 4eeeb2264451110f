"""Models: load, run, map, profile."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingType
from types import TracebackType
from typing import Any, Iterable, Union
from typing import Mapping as NamedArrays

import numpy as np

from . import _core
from ._errors import Error, Status, WrongTensor
from ._types import Device, KernelTime, ModelInfo, Profile, TensorSpec

Array = np.ndarray
PathLike = Union[str, bytes, "os.PathLike[Any]"]


class Mapping:
    """Context manager over the memory of one input or output: `with model.map_input("data") as frame: frame[...] = x`.

    The view is the tensor's own memory, nothing is copied. For an input it is writeable and shows what was last put in,
    zeros at first. For an output it is read-only and shows what the last run left. When the block ends the memory goes
    back to the device and the view becomes an empty array (every extent 0), so that using it late is an error and not a
    wrong number; copy what you want to keep. Slices made of the view inside the block keep the memory from being freed,
    even if the model is closed, so a late access cannot crash the process; what they show then is undefined.

    While a tensor is mapped, `run` and a second map of it raise `Error` with `Status.BUSY`.
    """

    def __init__(self, core: _core.Mapping) -> None:
        self._core = core

    def __enter__(self) -> Array:
        return self._core.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._core.__exit__(kind, error, trace)


class Model:
    """A loaded model with the memory to run it in; made by `malisdk.load`.

    One thread at a time: a second one that enters a running model gets `Error` with `Status.BUSY`. Load the file once
    per thread to run in parallel. The interpreter lock is free while a model loads and runs. After `close()`, or the
    end of `with`, only `inputs`, `outputs`, `name`, `device`, `platform` and `closed` may be used.
    """

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self.inputs: tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in core.inputs())
        self.outputs: tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in core.outputs())
        info = self.info
        self.name: str = info.name
        self.device: str = info.device
        self.platform: str = info.platform

    def run(
        self,
        x: Array | NamedArrays[str, Array] | None = None,
        outputs: Iterable[str] | NamedArrays[str, Array] | None = None,
    ) -> Array | dict[str, Array]:
        """Runs the model once and waits for it.

        x: the array of a model with one input, or a mapping from input names to arrays. Inputs left out keep what was
            last put into them, by `map_input` or an earlier run.
        outputs: names of the outputs to return (default: all), or a mapping from names to arrays to write into.

        Returns one array if the model has one output, else a dict from names to arrays.
        Raises WrongTensor for arrays that are not exactly of the model's dtype and shape, in C order; nothing is
        converted. Raises Error otherwise.
        """
        results = self._results(outputs)
        self._core.run(self._named(x), results)
        return next(iter(results.values())) if len(self.outputs) == 1 and results else results

    def map_input(self, which: str | int = 0) -> Mapping:
        """The memory of the input of that name or index, to write into; see `Mapping`."""
        return Mapping(self._core.map_input(which))

    def map_output(self, which: str | int = 0) -> Mapping:
        """The memory of the output of that name or index, to read what the last run left; see `Mapping`."""
        return Mapping(self._core.map_output(which))

    def profile(self, x: Array | NamedArrays[str, Array] | None = None) -> Profile:
        """Times one run launch by launch.

        x: as for `run`; without it, the inputs already there, for which the model must have been loaded with
            profile=True. A model loaded without it gets the memory for a second, timed run while this call lasts.
        """
        launches, total_ns = self._core.profile(self._named(x))
        return Profile(
            (
                KernelTime(kernel, layer, rule, ns / 1e3, flops, size)
                for kernel, layer, rule, ns, flops, size in launches
            ),
            total_ns / 1e3,
        )

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(**self._core.info())

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Gives the device's memory back, once running calls and open maps have ended. Closing twice does nothing."""
        self._core.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"on {self.device}"
        return f"<malisdk.Model {self.name!r} {where}: {_names(self.inputs)} -> {_names(self.outputs)}>"

    def _named(self, x: Array | NamedArrays[str, Array] | None) -> dict[str, Array]:
        if x is None:
            return {}
        if isinstance(x, MappingType):
            return dict(x)
        if len(self.inputs) != 1:
            raise WrongTensor(
                f"model '{self.name}': one input without its name, got {type(x).__name__}; "
                f"expected a dict with {_names(self.inputs)}",
                Status.WRONG_TENSOR,
            )
        return {self.inputs[0].name: x}

    def _results(self, outputs: Iterable[str] | NamedArrays[str, Array] | None) -> dict[str, Array]:
        if isinstance(outputs, MappingType):
            return dict(outputs)
        specs = {spec.name: spec for spec in self.outputs}
        names = list(specs if outputs is None else [outputs] if isinstance(outputs, str) else outputs)
        for name in names:
            if name not in specs:
                raise Error(
                    f"model '{self.name}': no such output, got {name!r}; expected {_names(self.outputs)}",
                    Status.INVALID_ARGUMENT,
                )
        return {name: np.empty(specs[name].shape, specs[name].dtype) for name in names}


def load(
    path: PathLike,
    device: str = "auto",
    cache_dir: PathLike | None = None,
    opencl_library: PathLike | None = None,
    profile: bool = False,
) -> Model:
    """Verifies the .mali file, opens the device, uploads the weights and builds the kernels.

    device: "auto" is the first GPU, else any OpenCL device; "gpu"; "cpu"; or a part of a device's or platform's name.
    cache_dir: where built kernels are kept; None is $MALISDK_CACHE_DIR, else the user's cache folder; "" keeps none.
    opencl_library: path of the OpenCL library; None is $MALISDK_OPENCL_LIBRARY, else the usual names.
    profile: ask the driver for a queue that times kernels, see `Model.profile`.
    Raises Error; its `code` says which kind, see `Status`.
    """
    return Model(_core.Model(os.fsencode(path), device, _encoded(cache_dir), _encoded(opencl_library), profile))


def devices(opencl_library: PathLike | None = None) -> list[Device]:
    """What OpenCL offers on this machine. Raises Error with `Status.NO_OPENCL` where there is no OpenCL library."""
    return [Device(**device) for device in _core.devices(_encoded(opencl_library))]


def _encoded(path: PathLike | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def _names(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(f"'{spec.name}'" for spec in specs)

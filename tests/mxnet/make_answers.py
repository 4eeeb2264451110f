"""Run by the Python that has MXNet: `make_answers.py FOLDER` writes models, inputs and MXNet's answers.

A folder for each case: net-symbol.json, net-0000.params, inputs.npz, answers.npz (out0, out1, ...). A case that fails
leaves error.txt instead.
"""

import sys
import traceback
from pathlib import Path
from typing import Any
from zlib import crc32

import mxnet as mx
import numpy as np

from old_formats import OLD_CASES, write_old_case
from operator_cases import CASES, Case
from zoo_cases import ZOO


def _values(name: str, shape: tuple[int, ...], rng: np.random.RandomState) -> np.ndarray:
    """Parameters: factors and variances are positive, weights have He's scale."""
    if name.endswith(("gamma", "var")):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    scale = 0.1 if len(shape) < 2 else np.sqrt(2.0 / np.prod(shape[1:]))
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _inputs(case: Case, rng: np.random.RandomState) -> dict[str, np.ndarray]:
    inputs = {}
    for name, shape in case.shapes.items():
        if name in case.indices:
            inputs[name] = rng.randint(-2, 10, shape).astype(np.float32)
            continue
        values = rng.standard_normal(shape).astype(np.float32)
        inputs[name] = np.abs(values) + 0.1 if case.positive else values
    return inputs


def _run(symbol: Any, params: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    arguments = {**inputs, **params}
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", **{n: a.shape for n, a in inputs.items()})
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        if name in arguments:
            array[:] = mx.nd.array(arguments[name], dtype=array.dtype)
    return [out.asnumpy() for out in executor.forward(is_train=False)]


def _save(folder: Path, inputs: dict[str, np.ndarray], answers: list[np.ndarray]) -> None:
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "answers.npz", **{f"out{i}": a for i, a in enumerate(answers)})


def _operator(folder: Path, name: str, case: Case) -> None:
    rng = np.random.RandomState(crc32(name.encode()))
    symbol = case.build(mx.sym, mx.sym.var("data"))
    inputs = _inputs(case, rng)
    argument_shapes, _, state_shapes = symbol.infer_shape(**{n: a.shape for n, a in inputs.items()})
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    shapes = dict(zip(names, [*argument_shapes, *state_shapes], strict=True))
    params = {n: _values(n, shape, rng) for n, shape in shapes.items() if n not in inputs and not n.endswith("label")}
    states = set(symbol.list_auxiliary_states())
    symbol.save(str(folder / "net-symbol.json"))
    arrays = {("aux:" if n in states else "arg:") + n: mx.nd.array(a) for n, a in params.items()}
    mx.nd.save(str(folder / "net-0000.params"), arrays)
    _save(folder, inputs, _run(symbol, params, inputs))


def _network(folder: Path, name: str) -> None:
    mx.random.seed(7)
    rng = np.random.RandomState(crc32(name.encode()))
    net, shape = ZOO[name](mx)
    net.initialize(mx.init.MSRAPrelu())
    net.hybridize()
    image = rng.standard_normal(shape).astype(np.float32)
    net(mx.nd.array(image))
    for parameter_name, parameter in net.collect_params().items():
        if parameter_name.endswith(("gamma", "beta", "running_mean", "running_var")):
            parameter.set_data(mx.nd.array(_values(parameter_name, parameter.shape, rng)))
    answer = net(mx.nd.array(image)).asnumpy()
    net.export(str(folder / "net"), epoch=0)
    _save(folder, {"data": image}, [answer])


def _old(folder: Path, name: str) -> None:
    inputs = write_old_case(folder, name)
    symbol, arguments, states = mx.model.load_checkpoint(str(folder / "net"), 0)
    params = {n: a.asnumpy() for n, a in {**arguments, **states}.items()}
    _save(folder, inputs, _run(symbol, params, inputs))


def main(folder: Path) -> None:
    jobs = [(n, lambda f, n=n, c=c: _operator(f, n, c)) for n, c in CASES.items()]
    jobs += [(f"zoo_{n}", lambda f, n=n: _network(f, n)) for n in ZOO]
    jobs += [(f"old_{n}", lambda f, n=n: _old(f, n)) for n in OLD_CASES]
    for name, job in jobs:
        place = folder / name
        place.mkdir(parents=True)
        try:
            job(place)
        except Exception:
            (place / "error.txt").write_text(traceback.format_exc())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

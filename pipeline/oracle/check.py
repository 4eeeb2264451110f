"""A dry run of a compiled model on the Mesa driver that mainline boards use: does everything build and fit?"""

import math
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .. import container
from ..errors import BundleError
from ..plan import Kernel, Launch, Plan
from .batch import measure
from .compiler import Driver, prepare
from .cost import NoData, Outcome
from .gpus import Gpu

# What Mesa prints before it dies of a kernel with constant tables (such as pow's): the kernel is compiled, and its
# tables want a buffer, which the stubbed kernel side does not have. A board has it, so this is no verdict.
_NO_BUFFERS_HERE = "MESA: error: export failed"


@dataclass(frozen=True, kw_only=True)
class KernelCheck:
    """`problems` says what the driver would refuse; none if the kernel would run, or could not be tried here."""

    name: str
    problems: tuple[str, ...]
    untried: bool = False


@dataclass(frozen=True, kw_only=True)
class DriverCheck:
    """The driver that was asked, and what it said of each kernel of a plan."""

    driver: Driver
    kernels: tuple[KernelCheck, ...]

    @property
    def passed(self) -> bool:
        return not any(k.problems for k in self.kernels)

    def __str__(self) -> str:
        wrong = [k for k in self.kernels if k.problems]
        untried = [k.name for k in self.kernels if k.untried]
        who = f"{self.driver.name}, {self.driver.version}"
        if wrong:
            lines = [f"{who}: {len(wrong)} of {len(self.kernels)} kernels would not run"]
            lines += [f"  {k.name}: {problem}" for k in wrong for problem in k.problems]
        else:
            lines = [f"{who}: {len(self.kernels) - len(untried)} kernels build and their work-groups fit"]
        if untried:
            lines.append(f"  compiled, but not to be tried without the board's kernel driver: {', '.join(untried)}")
        return "\n".join(lines)


def check_plan(plan: Plan, gpu: Gpu) -> DriverCheck:
    """Build every kernel with Mesa's driver for a GPU and hold its launches against the driver's limits.

    Raises ToolchainError if this machine cannot have the driver.
    """
    driver = prepare(gpu)
    outcomes = measure([k.source for k in plan.kernels], gpu, title=f"build for {driver.name}")
    launches: list[list[Launch]] = [[] for _ in plan.kernels]
    for launch in plan.launches:
        launches[launch.kernel].append(launch)
    checks = [
        KernelCheck(name=kernel.name, problems=(), untried=True)
        if _is_untried(kernel, found)
        else KernelCheck(name=kernel.name, problems=tuple(_problems(kernel, used, found, driver)))
        for kernel, used, found in zip(plan.kernels, launches, outcomes, strict=True)
    ]
    return DriverCheck(driver=driver, kernels=tuple(checks))


def check_archive(archive: Path, model: str, gpu: Gpu) -> DriverCheck:
    """check_plan of the compiled model that is the member `model` of an SDK archive."""
    with tempfile.TemporaryDirectory(prefix="malisdk-check-") as name:
        file = Path(name) / PurePosixPath(model).name
        with tarfile.open(archive, "r:gz") as tar:
            content = tar.extractfile(model)
            if content is None:
                raise BundleError(f"{archive}: {model} is no file in it; expected a compiled model")
            with file.open("wb") as f:
                shutil.copyfileobj(content, f)
        return check_plan(container.read(file), gpu)


def _is_untried(kernel: Kernel, outcomes: list[Outcome]) -> bool:
    return any(isinstance(o, NoData) and o.name == kernel.name and _NO_BUFFERS_HERE in o.reason for o in outcomes)


def _problems(kernel: Kernel, launches: list[Launch], outcomes: list[Outcome], driver: Driver) -> list[str]:
    found = [o for o in outcomes if o.name == kernel.name]
    if not found:
        names = ", ".join(o.name for o in outcomes) or "none"
        return [f"not in its own source, got kernels {names}; expected {kernel.name}"]
    outcome = found[0]
    if isinstance(outcome, NoData):
        return [outcome.reason]
    problems = []
    size = math.prod(kernel.local_size)
    limit = min(outcome.work_group, driver.work_group)
    if size > limit:
        problems.append(f"work-group too large, got {_size(kernel.local_size)} = {size}; expected at most {limit}")
    if any(outcome.required) and outcome.required != kernel.local_size:
        problems.append(
            f"launched with another work-group than its source demands, got {_size(kernel.local_size)}; "
            f"expected {_size(outcome.required)}"
        )
    for launch in launches:
        if len(launch.buffers) != outcome.arguments:
            problems.append(f"wrong number of arguments, got {len(launch.buffers)}; expected {outcome.arguments}")
        if any(g % s for g, s in zip(launch.global_size, kernel.local_size, strict=True)):
            problems.append(
                f"work-items are no whole work-groups, got {_size(launch.global_size)}; "
                f"expected multiples of {_size(kernel.local_size)}"
            )
    return list(dict.fromkeys(problems))


def _size(size: tuple[int, int, int]) -> str:
    return "x".join(map(str, size))

"""The .mali file: header, plan as a FlatBuffer, weights, kernel sources (layout: native/schema/plan.fbs)."""

import struct
from pathlib import Path

import flatbuffers
import xxhash

from .errors import BundleError
from .files import write_bytes
from .plan import (
    ARENA_ALIGNMENT_BYTES,
    DTYPES,
    SCHEMA_VERSION,
    WEIGHT_ALIGNMENT_BYTES,
    Buffer,
    Kernel,
    Launch,
    Place,
    Plan,
    TensorSpec,
    align,
)
from .planfb import plan_generated as fb

MAGIC = b"\x89MALI\r\n\x1a"
CONTAINER_VERSION = 1
HEADER_BYTES = 64
_HEADER = struct.Struct("<8sIIQQQQ")
# What reading a FlatBuffer that no writer of ours made can raise: Python has no verifier for them.
_NO_PLAN = (struct.error, AttributeError, IndexError, OverflowError, TypeError, ValueError)


def write(path: Path, plan: Plan) -> None:
    """Write the file whole or not at all. The same plan always gives the same bytes."""
    write_bytes(path, pack(plan))


def pack(plan: Plan) -> bytes:
    sources = bytearray()
    kernels = []
    for k in plan.kernels:
        text = k.source.encode()
        kernel = fb.KernelT()
        kernel.name, kernel.sourceOffset, kernel.sourceBytes = k.name, len(sources), len(text)
        kernel.localSize = list(k.local_size)
        kernels.append(kernel)
        sources += text
    root = fb.PlanT()
    root.schemaVersion = SCHEMA_VERSION
    root.modelName, root.target, root.dtype = plan.model_name, plan.target, DTYPES.index(plan.dtype)
    root.inputs = [_tensor(t) for t in plan.inputs]
    root.outputs = [_tensor(t) for t in plan.outputs]
    root.buffers = [_buffer(b) for b in plan.buffers]
    root.kernels = kernels
    root.launches = [_launch(launch) for launch in plan.launches]
    root.arenaBytes, root.arenaAlignment = plan.arena_bytes, ARENA_ALIGNMENT_BYTES
    root.needsFp16, root.needsFp64 = plan.needs_fp16, plan.needs_fp64
    root.metadata = []
    for key, value in sorted(plan.metadata.items()):
        pair = fb.KeyValueT()
        pair.key, pair.value = key, value
        root.metadata.append(pair)
    weights = plan.weights + b"\0" * (align(len(plan.weights), WEIGHT_ALIGNMENT_BYTES) - len(plan.weights))
    root.weights = _segment(0, weights)
    root.sources = _segment(len(weights), bytes(sources))
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(root.Pack(builder), file_identifier=b"MPLN")
    body = bytes(builder.Output())
    data_offset = align(HEADER_BYTES + len(body), WEIGHT_ALIGNMENT_BYTES)
    size = data_offset + len(weights) + len(sources)
    head = _HEADER.pack(MAGIC, CONTAINER_VERSION, HEADER_BYTES, size, HEADER_BYTES, len(body), _hash(body))
    header = (head + struct.pack("<Q", _hash(head))).ljust(HEADER_BYTES, b"\0")
    return (header + body).ljust(data_offset, b"\0") + weights + sources


def read(path: Path) -> Plan:
    """Read a file back for inspection. Raises BundleError for anything that is not a sound .mali file."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise BundleError(f"{path}: cannot be read ({e.strerror})") from e
    if data[:8] != MAGIC:
        raise BundleError(f"{path}: not a .mali file, got first bytes {data[:8].hex(' ')}; expected {MAGIC.hex(' ')}")
    if len(data) < HEADER_BYTES:
        raise BundleError(f"{path}: damaged, got {len(data)} bytes; expected at least {HEADER_BYTES}")
    _, version, _, size, plan_offset, plan_bytes, plan_hash = _HEADER.unpack_from(data)
    (header_hash,) = struct.unpack_from("<Q", data, _HEADER.size)
    if version != CONTAINER_VERSION:
        raise BundleError(
            f"{path}: made for another version, got container version {version}; expected {CONTAINER_VERSION}",
            hint="compile the model again with this version of the pipeline",
        )
    if _hash(data[: _HEADER.size]) != header_hash:
        raise BundleError(f"{path}: damaged, the header does not match its hash")
    if size != len(data) or plan_offset + plan_bytes > size:
        raise BundleError(f"{path}: damaged, got {len(data)} bytes; expected {size}")
    body = data[plan_offset : plan_offset + plan_bytes]
    if _hash(body) != plan_hash:
        raise BundleError(f"{path}: damaged, the plan does not match its hash")
    try:
        root = fb.PlanT.InitFromObj(fb.Plan.GetRootAs(body, 0))
    except _NO_PLAN as e:
        raise BundleError(f"{path}: damaged, the plan cannot be read ({e})") from e
    if root.schemaVersion != SCHEMA_VERSION:
        raise BundleError(
            f"{path}: made for another version, got plan schema {root.schemaVersion}; expected {SCHEMA_VERSION}",
            hint="compile the model again with this version of the pipeline",
        )
    base = align(plan_offset + plan_bytes, WEIGHT_ALIGNMENT_BYTES)
    segments = []
    for name, s in (("weights", root.weights), ("sources", root.sources)):
        segment = data[base + s.offset : base + s.offset + s.sizeBytes]
        if len(segment) != s.sizeBytes or _hash(segment) != s.hash:
            raise BundleError(f"{path}: damaged, the {name} do not match their hash")
        segments.append(segment)
    try:
        return _plan(root, *segments)
    except _NO_PLAN as e:
        raise BundleError(f"{path}: damaged, the plan cannot be read ({e})") from e


def _plan(root: fb.PlanT, weights: bytes, sources: bytes) -> Plan:
    return Plan(
        model_name=root.modelName.decode(),
        target=root.target.decode(),
        dtype=DTYPES[root.dtype],
        inputs=tuple(_read_tensor(t) for t in root.inputs),
        outputs=tuple(_read_tensor(t) for t in root.outputs),
        buffers=tuple(
            Buffer(place=Place(b.place), index=b.index, offset=b.offset, size_bytes=b.sizeBytes) for b in root.buffers
        ),
        kernels=tuple(
            Kernel(
                name=k.name.decode(),
                source=sources[k.sourceOffset : k.sourceOffset + k.sourceBytes].decode(),
                local_size=(int(k.localSize[0]), int(k.localSize[1]), int(k.localSize[2])),
            )
            for k in root.kernels
        ),
        launches=tuple(
            Launch(
                kernel=launch.kernel,
                buffers=tuple(int(b) for b in launch.buffers),
                global_size=(int(launch.globalSize[0]), int(launch.globalSize[1]), int(launch.globalSize[2])),
                layer=(launch.layer or b"").decode(),
                rule=(launch.rule or b"").decode(),
                flops=launch.flops,
                bytes=launch.bytes,
            )
            for launch in root.launches
        ),
        weights=weights,
        arena_bytes=root.arenaBytes,
        metadata={m.key.decode(): m.value.decode() for m in root.metadata or ()},
    )


def _read_tensor(t: fb.TensorSpecT) -> TensorSpec:
    shape = tuple(int(d) for d in t.shape) if t.shape is not None else ()
    return TensorSpec(name=t.name.decode(), dtype=DTYPES[t.dtype], shape=shape, buffer=t.buffer)


def _tensor(t: TensorSpec) -> fb.TensorSpecT:
    out = fb.TensorSpecT()
    out.name, out.dtype, out.shape, out.buffer = t.name, DTYPES.index(t.dtype), list(t.shape), t.buffer
    return out


def _buffer(b: Buffer) -> fb.BufferT:
    out = fb.BufferT()
    out.place, out.index, out.offset, out.sizeBytes = b.place.value, b.index, b.offset, b.size_bytes
    return out


def _launch(launch: Launch) -> fb.LaunchT:
    out = fb.LaunchT()
    out.kernel, out.buffers, out.globalSize = launch.kernel, list(launch.buffers), list(launch.global_size)
    out.layer, out.rule, out.flops, out.bytes = launch.layer, launch.rule, launch.flops, launch.bytes
    return out


def _segment(offset: int, data: bytes) -> fb.SegmentT:
    out = fb.SegmentT()
    out.offset, out.sizeBytes, out.hash = offset, len(data), _hash(data)
    return out


def _hash(data: bytes) -> int:
    return xxhash.xxh64_intdigest(data, seed=0)

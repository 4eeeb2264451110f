"""How long each command took, and the table of what was made."""

import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Spawn = Callable[[str, Any, str, Sequence[str], Mapping[str, str]], int]


class Seconds:
    """Seconds per output file of the command that wrote it last, kept in a file from one build to the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            self._known: dict[str, float] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._known = {}

    def record(self, output: str, seconds: float) -> None:
        with self._lock:
            self._known[output] = round(seconds, 2)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(".tmp")
            temporary.write_text(json.dumps(self._known, indent=1, sort_keys=True))
            temporary.replace(self._path)

    def of(self, outputs: Iterable[str]) -> float:
        return sum(self._known.get(o, 0.0) for o in outputs)

    def timed(self, spawn: Spawn) -> Spawn:
        """SCons' way to run a command, with the clock on it. The output is the word after -o or --out."""

        def run(shell: str, escape: Any, command: str, words: Sequence[str], env: Mapping[str, str]) -> int:
            start = time.perf_counter()
            status = spawn(shell, escape, command, words, env)
            plain = [w.strip("'\"") for w in words]
            outputs = [after for word, after in itertools.pairwise(plain) if word in ("-o", "--out")]
            if status == 0 and outputs:
                self.record(outputs[-1], time.perf_counter() - start)
            return status

        return run


def own_outputs(node: Any) -> list[str]:
    """The node's path and those of the object files that only it is made of."""
    objects = [s for s in node.sources if str(s).endswith(".o")]
    return [str(node), *map(str, objects)]


def artefact_table(nodes: Sequence[Any], seconds: Seconds) -> str:
    """One line a file: path, bytes, sha256, seconds."""
    rows = [("artefact", "bytes", "sha256", "seconds")]
    for node in nodes:
        path = Path(str(node))
        with path.open("rb") as f:
            digest = hashlib.file_digest(f, "sha256").hexdigest()
        rows.append((str(path), f"{path.stat().st_size:,}", digest, f"{seconds.of(own_outputs(node)):.1f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]:>{widths[3]}}" for row in rows
    )

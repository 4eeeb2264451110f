"""Everything that is wrong with one model, collected so that a user sees it all at once."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import ImportFailed

CUT_HINT = "end the model before such nodes with --cut TENSOR, or with onnx.utils.extract_model"


class Unsupported(Exception):  # noqa: N818 (says what is the matter with the node)
    """Raised while one node is converted: why it cannot be right. It becomes a `Finding` with the node's name."""

    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One reason why a model is refused. `where` is `node 'conv1' (Conv)`, `input 'data'` and the like."""

    where: str
    text: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


def raise_findings(path: Path, findings: list[Finding]) -> None:
    """Raises ImportFailed with every finding, if there is one."""
    if not findings:
        return
    hints = list(dict.fromkeys(f.hint for f in findings if f.hint))
    hint = "; ".join(hints) or None
    if len(findings) == 1:
        raise ImportFailed(f"{path}: {findings[0]}", hint=hint)
    shown = findings[:_MAX_SHOWN]
    lines = [f"{path}: {len(findings)} problems", *(f"  {finding}" for finding in shown)]
    if len(findings) > len(shown):
        lines.append(f"  and {len(findings) - len(shown)} more")
    raise ImportFailed("\n".join(lines), hint=hint)


_MAX_SHOWN = 100

"""What `mneme.generate`, `mneme.plan`, `mneme.validate` and `mneme.verify` return."""

from __future__ import annotations

from html import escape
from typing import Any

from .tables import html_table, table_of_rows


class Generated:
    """Texts that a run generated."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info  #: all of `mneme generate --json`

    @property
    def texts(self) -> list[str]:
        """One text a sample; of ids their numbers."""
        return [str(sample["text"]) for sample in self.info["samples"]]

    @property
    def ids(self) -> list[list[int]]:
        """The same as ids."""
        return [list(sample["ids"]) for sample in self.info["samples"]]

    def __str__(self) -> str:
        return "\n\n".join(self.texts)

    def __repr__(self) -> str:
        return f"<{len(self.texts)} generated>"

    def _repr_html_(self) -> str:
        return "".join(f"<pre style='white-space: pre-wrap'>{escape(text)}</pre>" for text in self.texts)


class Validation:
    """Results of the checks of a plugin."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info  #: all of `mneme plugins validate --json`

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return int(self.info["failed"]) == 0

    @property
    def failures(self) -> dict[str, str]:
        """The text of each check that failed."""
        return {str(check["name"]): str(check["text"]) for check in self.info["checks"] if check["result"] == "fail"}

    def checks(self) -> Any:
        """`name`, `question`, `result` ("pass", "warn", "skip", "fail"), `text`, `seconds` of every check, as a table."""
        return table_of_rows(self.info["checks"])

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<{len(self.info['checks'])} checks, {self.info['failed']} failed>"

    def _repr_html_(self) -> str:
        names = ("name", "result", "text")
        return html_table(names, [[check[name] for name in names] for check in self.info["checks"]], rows_shown=200)


class Plan:
    """What a pilot says of the comparison that is planned (docs/compare.md, "Planning")."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info  #: all of `mneme plan --json`

    @property
    def noise_floor(self) -> float:
        """How far the losses of two trainings of one arm differ whose seeds alone differ, nats a token."""
        value = self.info["noise_floor"]["two_trainings"]
        return float("nan") if value is None else float(value)

    @property
    def next_seed(self) -> int:
        """The first `train.seed` that the pilot does not have."""
        return int(self.info["next_seed"])

    def detectable(self) -> Any:
        """The smallest `difference` that 80 % of experiments show, by `arm`, `seeds` and `units`, with `seconds` and `bytes`."""
        return self._table("detectable")

    def needed(self) -> Any:
        """The `seeds` that the wished difference needs, by `arm` and `units`, with `seconds` and `bytes`; none: over 1,000."""
        return self._table("needed")

    def _table(self, name: str) -> Any:
        return table_of_rows({"arm": arm["name"], **row} for arm in self.info["arms"] for row in arm[name])

    def __repr__(self) -> str:
        pilot = self.info["pilot"]
        return f"<plan from {pilot['seeds']} seeds and {pilot['units']} {pilot['unit']}s>"


class Verification:
    """What the verification of a bundle found."""

    def __init__(self, info: dict[str, Any]) -> None:
        self.info = info  #: all of `mneme-report verify --json`

    @property
    def findings(self) -> list[str]:
        """What does not agree, with its place; none where the bundle verifies."""
        return [str(one) for one in self.info["findings"]]

    @property
    def unchecked(self) -> list[str]:
        """What no reader of a bundle can check."""
        return [str(one) for one in self.info["unchecked"]]

    @property
    def sha256(self) -> str:
        """Of the archive."""
        return str(self.info["sha256"])

    def __repr__(self) -> str:
        return f"<{self.info['numbers']} numbers and {self.info['losses']} losses, {len(self.findings)} findings>"

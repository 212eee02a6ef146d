"""A comparison's folder, or a report (docs/compare.md, docs/report.md)."""

from __future__ import annotations

import json
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Optional

from .errors import FormatError
from .files import PathLike, no_folder, read_json, read_text
from .run import Run
from .tables import html_table, read_csv, table_of_rows

_SIGNIFICANCE = ("arm", "baseline", "split", "measure")
_HEAD = (*_SIGNIFICANCE, "difference", "low", "high", "p_holm", "verdict")


class Comparison:
    """Arms that were compared: tables, differences with their statistics, a verdict, figures. Only reads."""

    def __init__(self, path: PathLike) -> None:
        """`path`: the folder of `mneme compare`, or a folder that `mneme report --out` wrote.

        Errors: FormatError where it holds neither, VersionError where it is newer.
        """
        self.path = Path(path)
        self._folder: Optional[dict[str, Any]] = None
        self.report_folder = self.path / "report"
        if (self.path / "comparison.json").is_file():
            self._folder = read_json(self.path / "comparison.json", "mneme-comparison", 1)
        elif (self.path / "report.json").is_file():
            self.report_folder = self.path
        elif not self.path.is_dir():
            raise FormatError(f"{self.path}: no comparison of mneme: {no_folder(self.path)}")
        else:
            what = (
                "a run: mneme.Run reads it"
                if (self.path / "experiment.toml").is_file()
                else "expected comparison.json or report.json; name a folder that mneme.compare or `mneme compare --run` wrote"
            )
            raise FormatError(f"{self.path}: no comparison of mneme: {what}")

    @cached_property
    def report(self) -> dict[str, Any]:
        """All of report.json (docs/report.md, "What it writes")."""
        path = self.report_folder / "report.json"
        if not path.is_file():
            raise FormatError(
                f"{path}: there is no report; the program writes it when all runs are done, and `mneme report {self.path}` "
                "makes one of those that are done"
            )
        return read_json(path, "mneme-report", 1)

    @property
    def arms(self) -> list[str]:
        """Names of the arms, the baseline first."""
        return [str(arm["name"]) for arm in (self._folder or self.report)["arms"]]

    @property
    def seeds(self) -> list[int]:
        return [int(seed) for seed in (self._folder or self.report)["seeds"]]

    @property
    def is_complete(self) -> bool:
        """Whether every run is done."""
        if self._folder is None:
            return all(run["done"] for arm in self.report["arms"] for run in arm["runs"])
        return all(run["state"] == "done" for arm in self._folder["arms"] for run in arm["runs"])

    @property
    def verdict(self) -> list[str]:
        """What may be said, in sentences."""
        return [str(sentence) for sentence in self.report["verdict"]]

    def run(self, arm: str, seed: Optional[int] = None) -> Run:
        """The run of an arm and a seed, by default the first. Errors: FormatError where there is none, or not yet."""
        if self._folder is None:
            raise FormatError(f"{self.path}: a report does not hold the runs; open the comparison's folder")
        for entry in self._folder["arms"]:
            for run in entry["runs"]:
                if entry["name"] == arm and seed in (None, run["seed"]):
                    if run["state"] != "done" and not (self.path / run["folder"] / "run.json").is_file():
                        raise FormatError(f"{self.path}: the run of arm '{arm}' and seed {run['seed']} has not begun")
                    return Run(self.path / run["folder"])
        raise FormatError(
            f"{self.path}: no run of arm '{arm}'{'' if seed is None else f' and seed {seed}'}; arms: "
            f"{', '.join(self.arms)}; seeds: {', '.join(map(str, self.seeds))}"
        )

    def table(self, name: str) -> Any:
        """A table of the report by the name of its CSV file: "results", "runs", "perplexity", "settings", ..."""
        path = self.report_folder / f"{name}.csv"
        if not path.is_file():
            self.report  # says where the whole report is missing
            has = ", ".join(sorted(file.stem for file in self.report_folder.glob("*.csv")))
            raise FormatError(f"{self.report_folder}: no table '{name}'; there are: {has}")
        return read_csv(path)

    def results(self) -> Any:
        """Every number of every arm: mean and standard deviation over seeds, and what it is against the baseline."""
        return self.table("results")

    def runs(self) -> Any:
        """Every number of every run: `split`, `measure`, `arm`, `seed`, `value`."""
        return self.table("runs")

    def differences(self) -> Any:
        """Every difference to the baseline with its statistics: losses in nats a target, accuracies as shares."""
        return self.table("differences")

    def pairs(self) -> Any:
        """Differences of every arm to every other; of a comparison with `pairs=True`."""
        return self.table("pairs")

    def trials(self) -> Any:
        """What every arm of a tuned comparison tried: values, `loss` on valid, `is_chosen`, `error`."""
        return self.table("trials")

    def intervals(self) -> Any:
        """`difference` and its 95 % interval from `low` to `high`, by arm, split and measure."""
        return table_of_rows(
            {name: one[name] for name in (*_SIGNIFICANCE, "difference", "low", "high")} for one in self.report["differences"]
        )

    def verdicts(self) -> Any:
        """What may be said of each difference: `verdict`, `reason` and `p_holm`, by arm, split and measure."""
        return table_of_rows(
            {name: one[name] for name in (*_SIGNIFICANCE, "verdict", "reason", "p_holm")} for one in self.report["differences"]
        )

    def samples(self) -> Any:
        """Texts that the arms generated, or what they predicted, beside what is right."""
        return self.table("samples")

    @property
    def figures(self) -> list[str]:
        """Names of the figures."""
        return sorted(path.name[: -len(".vl.json")] for path in (self.report_folder / "figures").glob("*.vl.json"))

    def specification(self, figure: str) -> dict[str, Any]:
        """A figure's Vega-Lite specification, its data inside."""
        if figure not in self.figures:
            raise FormatError(f"{self.report_folder}: no figure '{figure}'; there are: {', '.join(self.figures) or 'none'}")
        value = json.loads(read_text(self.report_folder / "figures" / f"{figure}.vl.json"))
        assert isinstance(value, dict)
        return value

    def figure(self, figure: str) -> Any:
        """A figure as an Altair chart; where Altair is missing, or refuses it, an object that notebooks draw themselves."""
        specification = self.specification(figure)
        try:
            import altair
            import jsonschema  # Altair's
        except ImportError:
            return Figure(specification)
        try:
            return altair.Chart.from_dict(specification)
        except jsonschema.ValidationError:  # Altair knows another Vega-Lite than the program that wrote the figure
            return Figure(specification)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"mneme.Comparison({str(self.path)!r})"

    def _repr_html_(self) -> str:
        if not (self.report_folder / "report.json").is_file():
            return f"<p>comparison {escape(str(self.path))} of {escape(', '.join(self.arms))}: no report yet</p>"
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.verdict)
        rows = [[one[name] for name in _HEAD] for one in self.report["differences"]]
        return sentences + html_table(_HEAD, rows)


class Figure:
    """A Vega-Lite figure for notebooks without Altair: JupyterLab and VS Code draw its MIME type."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self.specification = specification

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"application/vnd.vegalite.v5+json": self.specification, "text/plain": repr(self)}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a figure that Altair did not draw has no {name}, but its `specification`: `pip install altair` makes it a chart"
        )

    def __repr__(self) -> str:
        return f"<figure: {self.specification.get('title', '')}>"

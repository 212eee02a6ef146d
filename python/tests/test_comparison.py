from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import mneme


def test_reads_tables(comparison_folder: Path) -> None:
    pytest.importorskip("pandas")
    comparison = mneme.Comparison(comparison_folder)
    assert comparison.results()["mean"].tolist() == [2.5, 2.25]
    assert comparison.results()["arm"].tolist() == ["none", "cache"]
    assert comparison.intervals()[["difference", "low", "high"]].values.tolist() == [[-0.25, -0.5, -0.125]]
    assert comparison.verdicts()["verdict"].tolist() == ["better"]
    assert comparison.samples()["text"].tolist() == ["1 2"]


def test_has_plain_columns_without_pandas(comparison_folder: Path, without_pandas: None) -> None:
    results = mneme.Comparison(comparison_folder).results()
    assert results["mean"] == [2.5, 2.25] and results["difference"] == [None, -0.25] and results["seeds"] == [1, 1]
    with pytest.raises(AttributeError, match="a table without pandas has no head, .*: `pip install pandas` makes it a DataFrame"):
        results.head()


def test_knows_arms_and_runs(comparison_folder: Path) -> None:
    comparison = mneme.Comparison(comparison_folder)
    assert comparison.arms == ["none", "cache"] and comparison.seeds == [1] and comparison.is_complete
    assert comparison.run("cache", seed=1).losses().mean() == 1.5
    with pytest.raises(mneme.FormatError, match="no run of arm 'cash'; arms: none, cache; seeds: 1"):
        comparison.run("cash")


def test_gives_figures_as_vega_lite(comparison_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = mneme.Comparison(comparison_folder)
    assert comparison.figures == ["place-valid"]
    assert comparison.specification("place-valid")["mark"] == "line"
    monkeypatch.setitem(sys.modules, "altair", None)
    figure = comparison.figure("place-valid")
    with pytest.raises(AttributeError, match="has no save, but its `specification`: `pip install altair` makes it a chart"):
        figure.save("figure.html")
    bundle = figure._repr_mimebundle_()
    assert bundle["application/vnd.vegalite.v5+json"]["title"] == "Loss by place"
    with pytest.raises(mneme.FormatError, match="no figure 'place'; there are: place-valid"):
        comparison.figure("place")


def test_gives_figures_that_altair_refuses_as_they_are(comparison_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(Exception):
        pass

    def from_dict(specification: dict[str, object]) -> object:
        if "mark" in specification:
            raise Refused
        return "a chart"

    monkeypatch.setitem(sys.modules, "altair", SimpleNamespace(Chart=SimpleNamespace(from_dict=from_dict)))
    monkeypatch.setitem(sys.modules, "jsonschema", SimpleNamespace(ValidationError=Refused))
    comparison = mneme.Comparison(comparison_folder)
    assert repr(comparison.figure("place-valid")) == "<figure: Loss by place>"
    (comparison_folder / "report" / "figures" / "place-valid.vl.json").write_text('{"layer": []}')
    assert comparison.figure("place-valid") == "a chart"


def test_shows_the_verdict_in_a_notebook(comparison_folder: Path) -> None:
    html = mneme.Comparison(comparison_folder)._repr_html_()
    assert "a lower loss &lt;than&gt; none" in html and "<td>-0.2500</td>" in html


def test_opens_a_report_alone(comparison_folder: Path) -> None:
    report = mneme.Comparison(comparison_folder / "report")
    assert report.verdict == ["cache has a lower loss <than> none."]
    with pytest.raises(mneme.FormatError, match="a report does not hold the runs"):
        report.run("none")


def test_refuses_what_it_cannot_read(comparison_folder: Path, run_folder: Path) -> None:
    with pytest.raises(mneme.FormatError, match="a run: mneme.Run reads it"):
        mneme.Comparison(run_folder)
    with pytest.raises(mneme.FormatError, match="there is no such folder"):
        mneme.Comparison(run_folder / "nothing")
    comparison = mneme.Comparison(comparison_folder)
    with pytest.raises(mneme.FormatError, match="no table 'pairs'; there are: results, samples"):
        comparison.pairs()
    (comparison_folder / "report" / "report.json").unlink()
    with pytest.raises(mneme.FormatError, match="`mneme report .*` makes one of those that are done"):
        mneme.Comparison(comparison_folder).verdict
    assert "no report yet" in mneme.Comparison(comparison_folder)._repr_html_()
    (comparison_folder / "comparison.json").write_text(json.dumps({"format": "mneme-comparison", "version": 2}))
    with pytest.raises(mneme.VersionError, match="expected version 1, got 2"):
        mneme.Comparison(comparison_folder)

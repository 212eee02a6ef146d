from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import mneme
from conftest import EXPERIMENT, NLL, write_evaluation


def test_imports_neither_numpy_nor_torch_before_use() -> None:
    code = (
        "import sys, mneme; mneme.Run; mneme.Comparison; mneme.train; "
        "print(*sorted({'numpy', 'torch', 'pandas'} & set(sys.modules)))"
    )
    path = str(Path(mneme.__file__).parents[1])
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path})
    assert out.stdout.strip() == ""


def test_has_the_version_of_the_project() -> None:
    lists = Path(__file__).parents[2] / "CMakeLists.txt"
    if not lists.is_file():
        pytest.skip("needs a checkout")
    assert f"project(mneme VERSION {mneme.__version__} " in lists.read_text()


def test_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        getattr(mneme, "no_such_name")
    assert {"Run", "Memory", "train"} <= set(dir(mneme))


def test_reads_the_experiment(run_folder: Path) -> None:
    run = mneme.Run(run_folder)
    assert run.experiment["train"]["segment"] == 16
    assert run.info["backbone_parameters"] == 1000


def test_reads_curves_and_leaves_out_an_incomplete_line(run_folder: Path) -> None:
    pytest.importorskip("pandas")
    metrics = mneme.Run(run_folder).metrics()
    assert metrics["loss"].tolist() == [2.0, 1.0]
    assert metrics["metrics.0.gate"].isna().tolist() == [False, True]
    assert mneme.Run(run_folder).metrics("eval")["result.accuracy"].tolist() == [0.5]
    assert mneme.Run(run_folder).metrics("curve")["loss"].tolist() == [1.8]


def test_has_plain_columns_without_pandas(run_folder: Path, without_pandas: None) -> None:
    metrics = mneme.Run(run_folder).metrics()
    assert metrics["metrics.0.gate"] == [0.5, None]
    assert "<td>2.0000</td>" in metrics._repr_html_()
    assert repr(metrics).startswith("<2 rows of step")
    assert mneme.Run(run_folder).losses().table()["nll"] == NLL


def test_maps_the_losses_of_the_evaluation_of_the_most_steps(run_folder: Path) -> None:
    losses = mneme.Run(run_folder).losses("valid")
    assert losses.nll.tolist() == NLL and losses.nll.dtype == numpy.float32
    assert losses.position.tolist() == [0, 1, 2] and losses["lane"].dtype == numpy.int32
    assert isinstance(losses.nll, numpy.memmap) and not losses.nll.flags.writeable
    assert losses.mean() == 1.5 and len(losses) == 3
    assert "3 targets" in losses._repr_html_()
    assert repr(losses).startswith("<losses of 3 targets: correct, nll, target, ")


def test_shows_losses_of_any_size_without_reading_them(run_folder: Path) -> None:
    columns = run_folder / "evaluations" / "valid-step00000020-aaaaaaaa" / "nll.safetensors"
    targets = 1 << 33  # 32 GiB of f32 that the file system keeps as a hole
    names = ("target", "document", "position", "lane", "place", "segment", "correct")
    entries = {name: {"dtype": "U8", "shape": [targets], "data_offsets": [0, targets]} for name in names}
    entries["nll"] = {"dtype": "F32", "shape": [targets], "data_offsets": [0, 4 * targets]}
    header = json.dumps(entries).encode()
    with columns.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * targets)
    losses = mneme.Run(run_folder).losses()
    assert len(losses) == targets and losses.nll[-1] == 0.0
    assert f"{targets:,} targets" in losses._repr_html_() and f"{targets:,} targets" in repr(losses)


def test_names_numpy_where_it_is_missing(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    run = mneme.Run(run_folder)
    assert run.evaluation().loss == 1.5
    with pytest.raises(mneme.MissingPackageError, match="-m pip install numpy"):
        run.losses()


def test_lists_evaluations(run_folder: Path) -> None:
    pytest.importorskip("pandas")
    evaluations = mneme.Run(run_folder).evaluations()
    assert [one.step for one in evaluations] == [10, 20]
    assert evaluations[-1].loss == 1.5 and evaluations[-1].result["tokens"] == 3
    assert evaluations[-1].samples()["id"].tolist() == ["valid/0"]


def test_takes_the_evaluation_that_a_report_takes(run_folder: Path) -> None:
    def add(name: str, loss: float, step: int = 20, **more: Any) -> None:
        write_evaluation(run_folder / "evaluations" / f"valid-step{step:08}-{name}", "valid", step, [loss], **more)

    later = {"written": "2025-01-02T00:00:00Z"}
    add("a0000000", 9.0, 30, experiment=EXPERIMENT + "[[memory.tier]]\n", **later)
    add("b0000000", 9.0, 30, experiment=EXPERIMENT.replace("clamp_distance = 0", "clamp_distance = 1"), **later)
    add("c0000000", 9.0, 30, data={"task": "questions"}, **later)
    run = mneme.Run(run_folder)
    assert run.losses("valid").nll.tolist() == NLL
    add("00000000", 9.0, experiment=EXPERIMENT + "[eval]\nsegment = 8\n", **later)
    add("00000001", 9.0, plugins=[{"sha256": "another"}], **later)
    assert run.losses("valid").nll.tolist() == NLL
    kernel = EXPERIMENT.replace('attention_kernel = "on"', 'attention_kernel = "off"\nlater_key = 1')
    same = {"data": {"task": "motif", "path": "elsewhere"}, "experiment": kernel}
    add("d0000000", 1.0, 30, **same)
    assert run.evaluation("valid").loss == 1.0


def test_names_evaluations_that_are_not_the_runs_own(run_folder: Path) -> None:
    folder = run_folder / "evaluations" / "test-step00000020-aaaaaaaa"
    write_evaluation(folder, "test", 20, [9.0], data={"task": "questions"})
    found = r"'test' of its own memory, model and data \(there are: test, valid\); mneme.eval"
    with pytest.raises(mneme.FormatError, match=found):
        mneme.Run(run_folder).losses("test")
    shutil.rmtree(folder)
    write_evaluation(folder, "test", 20, [9.0], experiment="[model")
    with pytest.raises(mneme.FormatError, match="aaaaaaaa/evaluation.json: experiment: no TOML: "):
        mneme.Run(run_folder).losses("test")


def test_shows_itself_in_a_notebook(run_folder: Path) -> None:
    html = mneme.Run(run_folder)._repr_html_()
    assert "20 of 20" in html and "valid loss after 20 steps" in html


def test_refuses_what_is_no_run(tmp_path: Path, run_folder: Path, comparison_folder: Path) -> None:
    with pytest.raises(mneme.FormatError, match="there is no such folder"):
        mneme.Run(tmp_path / "nothing")
    with pytest.raises(mneme.FormatError, match="run.json: no run of mneme: it is a file: expected the folder"):
        mneme.Run(run_folder / "run.json")
    with pytest.raises(ValueError, match="expected 'step', 'eval', 'curve', got 'train'"):
        mneme.Run(run_folder).metrics("train")  # type: ignore[arg-type]
    with pytest.raises(mneme.FormatError, match="expected experiment.toml and run.json"):
        mneme.Run(tmp_path)
    with pytest.raises(mneme.FormatError, match="a comparison: mneme.Comparison reads it"):
        mneme.Run(comparison_folder)


def test_refuses_a_run_of_a_newer_version(run_folder: Path) -> None:
    (run_folder / "run.json").write_text(json.dumps({"format": "mneme.run", "revision": 2, "mneme": "9.0.0"}))
    with pytest.raises(mneme.VersionError, match=r"run.json: expected revision 1, got 2, written by mneme 9\.0\.0"):
        mneme.Run(run_folder)


def test_names_missing_and_damaged_files(run_folder: Path) -> None:
    run = mneme.Run(run_folder)
    columns = run.evaluation().path / "nll.safetensors"
    columns.write_bytes(columns.read_bytes()[:-10])
    with pytest.raises(mneme.FormatError, match="nll.safetensors: .* damaged one: the tensor .* ends behind the file's end"):
        run.losses()
    columns.unlink()
    with pytest.raises(mneme.FormatError, match="nll.safetensors: there is no such file"):
        run.losses()
    with pytest.raises(mneme.FormatError, match=r"split 'test' \(there are: valid\); mneme.evaluate\(run, split='test'\) makes one"):
        run.losses("test")
    with pytest.raises(mneme.FormatError, match=r"split 'tset' \(there are: valid\); a split is valid or test$"):
        run.losses("tset")
    (run_folder / "metrics.jsonl").write_text('{"kind"\n')
    with pytest.raises(mneme.FormatError, match="metrics.jsonl:1: no JSON"):
        run.metrics()
    (run_folder / "run.json").unlink()
    with pytest.raises(mneme.FormatError, match="run.json: there is no such file"):
        mneme.Run(run_folder)

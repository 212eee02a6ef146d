"""The program's commands. They need the program: MNEME_PROGRAM, or the one on PATH."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mneme
from mneme.commands import _settings, _tunes, _words
from mneme.comparison import Figure
from mneme.launch import Finished, check_version, environment, report_program
from mneme.progress import Display

SMALL = {"train.steps": 12, "train.warmup": 2, "train.lanes": 4, "eval.steps": 4, "train.log_every": 4}
MEMORY = "memory/xl_cache.toml"


@pytest.fixture(scope="session")
def trained(program: Path, tmp_path_factory: pytest.TempPathFactory) -> mneme.Run:
    folder = tmp_path_factory.mktemp("runs") / "first"
    return mneme.train(
        mneme.configs() / "quickstart.toml", memory=mneme.configs() / MEMORY, run=folder, settings=SMALL, threads=1
    )


def test_trains(trained: mneme.Run) -> None:
    assert trained.experiment["train"]["steps"] == 12
    assert [row["step"] for row in trained.metric_rows()] == [4, 8, 12]


def test_evaluates(trained: mneme.Run) -> None:
    evaluation = mneme.evaluate(trained, threads=1, progress=False)
    assert evaluation.step == 12 and evaluation.losses.mean() == pytest.approx(evaluation.loss)
    assert trained.losses("valid").mean() == evaluation.losses.mean()
    short = mneme.evaluate(trained, settings={"eval.steps": 2}, threads=1, progress=False)
    assert short.path != evaluation.path and len(short.losses) == len(evaluation.losses) // 2
    assert mneme.evaluate(trained, threads=1, progress=False).path == evaluation.path


def test_generates(trained: mneme.Run) -> None:
    generated = mneme.generate(trained, prompt_ids=[1, 2, 3], tokens=4, samples=2, threads=1)
    assert [len(ids) for ids in generated.ids] == [4, 4]
    assert "<pre" in generated._repr_html_()


def test_validates(program: Path) -> None:
    assert mneme.validate("xl_cache", settings={"rows": 8}, only="causality")
    failed = mneme.validate("xl_cache", settings={"rows": 0}, only="causality.tokens")
    assert not failed.passed and "expected an integer" in failed.failures["causality.tokens"]


def test_compares(program: Path, tmp_path: Path) -> None:
    memories = [mneme.configs() / "memory/none.toml", mneme.configs() / MEMORY]
    given: dict[str, Any] = {"seeds": 2, "jobs": 2, "settings": SMALL, "threads": 1, "diagnostics": 0}
    comparison = mneme.compare(mneme.configs() / "quickstart.toml", memories, run=tmp_path / "compared", **given)
    assert comparison.arms == ["none", "xl_cache"] and comparison.is_complete and comparison.verdict and comparison.figures
    assert comparison.run("xl_cache").losses().mean() > 0
    plan = mneme.plan(comparison, difference=0.5)
    assert plan.noise_floor > 0 and plan.next_seed == 3 and "2 seeds" in repr(plan)
    assert set(plan.detectable()["arm"]) == {"xl_cache"} and 2 in list(plan.detectable()["seeds"])
    assert len(plan.needed()["units"]) == 3 and len(mneme.plan(comparison, split="valid").needed()) == 0
    if importlib.util.find_spec("altair"):  # else they are drawn unseen
        assert not [name for name in comparison.figures if isinstance(comparison.figure(name), Figure)]


def test_compares_tuned_arms(program: Path, tmp_path: Path) -> None:
    comparison = mneme.compare(
        mneme.configs() / "quickstart.toml",
        mneme.configs() / MEMORY,
        run=tmp_path / "tuned",
        settings=SMALL,
        tune={"train.lr": [1e-3, 3e-3]},
        threads=1,
        progress=False,
    )
    assert comparison.arms == ["xl_cache", "xl_cache,tuned"]
    trials = list(comparison.trials()["trial"])
    assert trials == ["xl_cache,lr=0.001", "xl_cache,lr=0.003"]
    taken = list(comparison.trials()["is_chosen"]).index("yes")
    assert comparison.run("xl_cache,tuned").experiment["train"]["lr"] == [1e-3, 3e-3][taken]


def test_compares_a_single_memory_and_names_the_run_that_failed(program: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"settings": SMALL, "threads": 1, "progress": False}
    alone = mneme.compare(mneme.configs() / "quickstart.toml", str(mneme.configs() / MEMORY), run=tmp_path / "alone", **given)
    assert alone.arms == ["xl_cache"]
    settings = {**SMALL, "train.lr": 1e30, "train.clip": None}
    with pytest.raises(mneme.RunError, match=r"^xl_cache \(seed 1\): ") as failed:
        mneme.compare(
            mneme.configs() / "quickstart.toml",
            mneme.configs() / MEMORY,
            run=tmp_path / "failed",
            settings=settings,
            threads=1,
        )
    assert "not finite" in str(failed.value)


def test_raises_the_programs_own_text(program: Path, tmp_path: Path, trained: mneme.Run) -> None:
    with pytest.raises(mneme.UsageError, match="nothing.toml: cannot open") as wrong:
        mneme.train(tmp_path / "nothing.toml")
    assert wrong.value.status == 2 and not str(wrong.value).startswith("mneme: error")
    (tmp_path / "broken.so").write_bytes(b"no plugin")
    (tmp_path / "broken.toml").write_text(f'[memory]\nplugins = ["{tmp_path}"]\n[[memory.tier]]\nplugin = "broken"\n')
    with pytest.raises(mneme.PluginError, match="broken"):
        mneme.train(mneme.configs() / "quickstart.toml", memory=tmp_path / "broken.toml", run=tmp_path / "run", settings=SMALL)
    with pytest.raises(mneme.DeviceError):
        if shutil.which("nvidia-smi"):
            pytest.skip("needs a machine without a GPU")
        mneme.evaluate(trained, device="cuda")


def test_keyboard_interrupt_reaches_the_program(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "long"
    settings = {**SMALL, "train.steps": 1_000_000, "train.log_every": 1}

    def interrupt() -> None:
        while not (folder / "metrics.jsonl").is_file():
            if stop.wait(0.1):
                return
        os.kill(os.getpid(), signal.SIGINT)

    stop = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            mneme.train(mneme.configs() / "quickstart.toml", run=folder, settings=settings, threads=1)
    finally:
        stop.set()
        thread.join()
    assert list((folder / "checkpoints").glob("step_*.safetensors"))  # it has saved
    assert mneme.Run(folder).metric_rows()


def test_is_a_console_script(program: Path) -> None:
    command = [sys.executable, "-m", "mneme", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(Path(mneme.__file__).parents[1])}
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert out.stdout.startswith(f"mneme {mneme.__version__}")


def test_the_program_ends_by_a_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    cat = shutil.which("cat")
    assert cat
    monkeypatch.setenv("MNEME_PROGRAM", cat)
    done = subprocess.run([sys.executable, "-m", "mneme", "/proc/self/status"], capture_output=True, text=True, check=True)
    ignored = next(line for line in done.stdout.splitlines() if line.startswith("SigIgn:"))
    assert not int(ignored.split()[1], 16) >> (signal.SIGPIPE - 1) & 1


def test_takes_no_script_for_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "mneme"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("MNEME_PROGRAM", str(script))
    with pytest.raises(mneme.ProgramNotFoundError, match="no program is there"):
        mneme.program()
    monkeypatch.delenv("MNEME_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mneme.launch._PACKAGE", tmp_path)
    with pytest.raises(mneme.ProgramNotFoundError, match="install the wheel, or set MNEME_PROGRAM"):
        mneme.program()


def test_finds_what_comes_with_the_program(program: Path) -> None:
    assert (mneme.configs() / "quickstart.toml").is_file()
    assert (mneme.manual() / "docs/python-memories.md").is_file() and (mneme.manual() / "examples/python").is_dir()


def test_refuses_a_program_of_another_version(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_version.cache_clear()
    monkeypatch.setattr("mneme.launch.__version__", "9.9.0")
    with pytest.raises(mneme.VersionError, match=r"is mneme 0\..*, the Python package is mneme 9\.9\.0"):
        mneme.train("experiment.toml")
    check_version.cache_clear()


def test_a_wheels_program_needs_torch_of_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "mneme" / "program" / "bin" / "mneme"
    binary.parent.mkdir(parents=True)
    shutil.copy("/bin/true", binary)
    monkeypatch.delenv("MNEME_PROGRAM", raising=False)
    monkeypatch.setattr("mneme.launch._PACKAGE", tmp_path / "mneme")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(mneme.MissingPackageError, match=r"has no torch.*pip install 'torch==2\.11\.\*'"):
        environment()
    torch = tmp_path / "torch"
    (torch / "lib").mkdir(parents=True)
    for version in ("2.10.0+cpu", "2.1.1"):
        (torch / "version.py").write_text(f"__version__ = '{version}'\n")
        with pytest.raises(mneme.MissingPackageError, match=rf"is {re.escape(version)}, and the program computes with torch 2\.11"):
            environment()
    (torch / "version.py").write_text("debug = False\n__version__ = '2.11.1+cu130'\n")
    assert environment().get("LD_LIBRARY_PATH") == os.environ.get("LD_LIBRARY_PATH")


def test_writes_values_to_be_tried_as_words() -> None:
    tunes = {"train.lr": [1e-3, 3e-3], "memory.tier.0.rows": "log:8:64", "train.schedule": ("cosine", "a,b")}
    assert _tunes("--tune", tunes) == [
        "--tune=train.lr=0.001,0.003",
        "--tune=memory.tier.0.rows=log:8:64",
        '--tune=train.schedule="cosine","a,b"',
    ]
    assert _tunes("--tune", None) == []


def test_writes_options_as_words() -> None:
    given: dict[str, Any] = {"memory": ["a.toml", Path("b.toml")], "no_store": True, "locked": False, "jobs": 2, "run": None}
    assert _words(given) == ["--memory=a.toml", "--memory=b.toml", "--no-store", "--jobs=2"]
    assert _words({"until_decided": True, "max_seeds": 12}) == ["--until-decided", "--max-seeds=12"]
    settings = {"train.lr": 1e-3, "model.norm": "pre", "data.split": [0.5, 0.5], "model.final_norm": True, "train.epochs": None}
    assert _settings(settings) == [
        "--set=train.lr=0.001",
        "--set=model.norm=pre",
        "--set=data.split=[0.5, 0.5]",
        "--set=model.final_norm=true",
        "--unset=train.epochs",
    ]


def test_refuses_options_without_a_folder() -> None:
    with pytest.raises(mneme.MnemeError, match="mneme train --dry-run"):
        mneme.train("experiment.toml", dry_run=True)
    with pytest.raises(mneme.MnemeError, match="mneme compare --capacity"):
        mneme.compare("experiment.toml", "memory.toml", capacity="1,2")
    with pytest.raises(mneme.MnemeError, match="mneme.evaluate cannot return what no_store gives; .*: mneme eval --no-store"):
        mneme.evaluate("run", no_store=True)
    with pytest.raises(mneme.MnemeError, match="mneme plugins validate --json"):
        mneme.validate("xl_cache", json="out.json")


def test_shows_notes_and_keeps_messages(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(True)
    for line in ('{"note":"run folder r"}', '{"progress":{"title":"train","step":1,"of":2,"loss":3.5}}', "mneme: error: wrong"):
        display.line(line)
    display.close()
    assert display.text == ["mneme: error: wrong"]
    assert capsys.readouterr().err == "run folder r\n"


def test_keeps_the_error_of_a_run_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(True)
    display.line('{"note":"mneme: error: a (seed 1): wrong"}')
    display.close()
    assert display.text == ["mneme: error: a (seed 1): wrong"]
    assert capsys.readouterr().err == "mneme: error: a (seed 1): wrong\n"


def test_draws_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            drawn.append(data["text/html"])

    monkeypatch.setattr("mneme.progress._notebook_handle", Handle)
    display = Display(True)
    display.feed(b'{"note":"run <r>"}\n{"progress":{"title":"train","step":1,')
    display.feed(b'"of":2,"loss":3.5}}\n')
    display.close()
    assert drawn[0].startswith("<div>run &lt;r&gt;</div>")
    assert "<progress value='1' max='2'></progress> train 1/2  loss 3.5000" in drawn[-1]
    assert capsys.readouterr().err == ""


def test_pairs_samples_of_the_harness(program: Path, tmp_path: Path) -> None:
    for name, right in (("cache", 0), ("sinks", 1)):
        (tmp_path / name / "model").mkdir(parents=True)
        rows = [
            {"doc_id": i, "filter": "none", "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "metrics": ["acc"]}
            for i in range(8)
        ]
        lines = "".join(json.dumps({**row, "acc": right}) + "\n" for row in rows)
        (tmp_path / name / "model" / "samples_task_2026-01-02T00-00-00.000001.jsonl").write_text(lines)
    table = mneme.pair_samples(tmp_path / "cache", tmp_path / "sinks", metric="acc", progress=False)
    assert list(table["task"]) == ["task"] and list(table["difference"]) == [1] and list(table["documents"]) == [8]
    with pytest.raises(mneme.UsageError, match="no task has it in both"):
        mneme.pair_samples(tmp_path / "cache", tmp_path / "sinks", metric="f1", progress=False)


def test_pairs_need_samples(tmp_path: Path) -> None:
    with pytest.raises(mneme.MnemeError, match="no samples of lm-evaluation-harness"):
        mneme.pair_samples(tmp_path, tmp_path)


def test_plans_with_a_pilot_that_the_program_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    info = {"noise_floor": {"two_trainings": None}, "next_seed": 3, "arms": []}

    def run(words: list[str], is_shown: bool, program: Any) -> Finished:
        given.extend([words[:-2], program])
        Path(words[-1]).write_text(json.dumps(info))
        return Finished(status, "", "one run failed")

    monkeypatch.setattr("mneme.commands.run_program", run)
    status = 0
    plan = mneme.plan("e.toml", ["a.toml", "b.toml"], pilot=2, difference=0.5, settings={"train.seed": 7}, threads=1)
    words = ["--difference=0.5", "--memory=a.toml", "--memory=b.toml", "--pilot=2", "--threads=1", "--set=train.seed=7"]
    assert given == [["plan", "e.toml", *words], None]
    assert plan.noise_floor != plan.noise_floor and plan.next_seed == 3  # it is not known
    status = 1
    with pytest.raises(mneme.RunError, match="one run failed") as failed:
        mneme.plan("e.toml", ["a.toml", "b.toml"], pilot=2)
    assert failed.value.result.info == info


def test_plans_need_a_pilot(program: Path, trained: mneme.Run, tmp_path: Path) -> None:
    with pytest.raises(mneme.UsageError, match="nothing: there is no run"):
        mneme.plan(tmp_path / "nothing")
    with pytest.raises(mneme.UsageError, match="goes with --pilot"):
        mneme.plan(tmp_path, run=tmp_path / "pilot", progress=False)
    with pytest.raises(mneme.UsageError, match="a pilot of two arms or more"):
        mneme.plan([trained])
    with pytest.raises(mneme.MnemeError, match="cannot return what json gives"):
        mneme.plan(tmp_path, json="plan.json")


def test_verifies_a_bundle(trained: mneme.Run, tmp_path: Path) -> None:
    mneme.evaluate(trained, threads=1, progress=False)
    bundle, changed = tmp_path / "a.tar", tmp_path / "changed.tar"
    words = ["report", str(trained.path), "--quiet", "--out", str(tmp_path / "report"), "--bundle", str(bundle)]
    subprocess.run([report_program(), *words], check=True, stdout=subprocess.DEVNULL)
    result = mneme.verify(bundle)
    assert result.findings == [] and result.unchecked and len(result.sha256) == 64
    changed.write_bytes(bundle.read_bytes().replace(b'"format": "mneme-report"', b'"format": "mneme-repost"'))
    with pytest.raises(mneme.VerificationError, match="does not verify") as caught:
        mneme.verify(changed)
    assert caught.value.result.findings and caught.value.status == 1
    changed.write_bytes(b"no bundle")
    with pytest.raises(mneme.UsageError, match="changed.tar"):
        mneme.verify(changed)

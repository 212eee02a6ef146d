"""Tests of scripts/reproduce/reproduce_sorting.py, reproduce_text.py, reproduce_lamemo.py, reproduce_decoder.py and what they share, with a program that
plays mneme; and that the numbers in docs/reproducing.md are those of docs/figures/*.csv."""
import contextlib
import functools
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/reproduce"))

import experiment_runs
import experiment_verdicts
import fake_program
import figures
import reproduce_decoder
import reproduce_lamemo
import reproduce_sorting
import reproduce_text

ROOT = experiment_runs.ROOT

# Writes what the scripts read. Numbers grow with the seed, and xl_cache is better by .05; a run that
# $FAILS names fails after its folder is written; the loss of one that $DIVERGES names becomes NaN; one that $UNSTORED
# names keeps no losses; one that $WAITS names waits for a signal.
FAKE = '''if arguments[0] == "train":
    folder = pathlib.Path(after("--resume" if "--resume" in arguments else "--run"))
    folder.mkdir(exist_ok=True)
    (folder / "experiment.toml").touch()
    (folder / "run.json").write_text(json.dumps({"commit": "0123456789abcdef", "dirty": "xl_cache" in folder.name}))
    steps = [{"kind": "step", "step": step, "loss": 8.0 - step / 50, "seconds": 1.8 * step} for step in (25, 50)]
    if os.environ.get("WAITS") == folder.name:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
        (folder / "waits").touch()
        signal.pause()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in [*steps, {"kind": "eval"}]))
    if os.environ.get("FAILS") == folder.name:
        sys.exit("out of luck")
    if folder.name.startswith(os.environ.get("DIVERGES", "?")):
        sys.exit("mneme: error: step 7: the training reached numbers that are not finite: got the loss is nan")
elif arguments[0] == "generate":
    (pathlib.Path(arguments[1]) / "generated").mkdir(exist_ok=True)
elif arguments[0] == "eval":
    seed = int(arguments[1].split("-seed")[1])
    gain = 0.05 * ("xl_cache" in arguments[1])
    result = {"tokens": 100, "accuracy": seed / 10 + gain, "loss": 5 + seed - gain, "perplexity": 100.0 * seed, "lanes": 4,
               "state_bytes": 400, "protocol": {"context_rows": 128},
               "losses": {"0.org.mneme.compressive.compression": 0.5},
               "metrics": {"1.org.mneme.continuous_ltm.regression_error": 0.25}}
    words = {"name": ["<unk>", "10-99"], "tokens": [20, 80], "nll": [20.0 * seed, 160.0 - 80 * gain]}
    memory = {"result": result, "breakdown": {"frequency": words}}
    pathlib.Path(after("--json")).write_text(json.dumps({"memories": [memory]}))
elif arguments[0] == "report":
    arms = {}
    for folder in arguments[1:arguments.index("--out")]:
        arms.setdefault(folder.split("-seed")[0], []).append(folder)
    unstored = os.environ.get("UNSTORED", "?")
    def run(folder):
        losses = [] if unstored in folder else [{"split": "test"}]
        return {"seed": int(folder.split("-seed")[1]), "folder": folder, "evaluations": [{"split": "valid"}, *losses]}
    arms = [{"name": pathlib.Path(name).name, "runs": [run(folder) for folder in of]} for name, of in arms.items()]
    def seeds(arm):
        return {one["seed"] for one in arm["runs"] if len(one["evaluations"]) == 2}
    differences = []
    for arm in arms[1:]:
        for measure, sign in (("loss", 1), ("accuracy", -1), ("token_f1", -1), ("rouge1_recall", -1)):
            common = sorted(seeds(arms[0]) & seeds(arm))
            d = sign * 0.05 * (("xl_cache" in arms[0]["name"]) - ("xl_cache" in arm["name"]))
            known = {"first": 5, "other": 5 + d, "difference": d, "low": d - 0.01, "high": d + 0.01, "p": 0.001,
                     "p_holm": 0.002 if d else 0.6, "detectable": 0.02}
            differences.append({"arm": arm["name"], "split": "test", "measure": measure, "seeds": common,
                                 **(known if common else dict.fromkeys(known)),
                                 "verdict": ("unknown" if not common else "no difference shown" if d == 0 else
                                             "better" if (d < 0) == (sign > 0) else "worse"),
                                 "units": 800, "unit": "sequence", "block": 0, "targets": 16000,
                                 "reason": "" if common else "no seed of which both arms have stored losses"})
    pathlib.Path(after("--json")).write_text(json.dumps({"arms": arms, "differences": differences}))
elif arguments[0] == "analyze":
    out = pathlib.Path(after("--out"))
    out.mkdir(exist_ok=True)
    if arguments[1] == "extrapolation":
        lead = "lamemo" in arguments[2]
        sizes = [{"multiple": m, "result": {"perplexity": 100.0 - m - lead * m / 10}} for m in range(1, 11)]
        pathlib.Path(after("--json")).write_text(json.dumps({"memories": sizes}))
    shown = [pathlib.Path(a).name for a in arguments[2:arguments.index("--split")]] if "distance" in arguments else []
    (out / (out.name + ".csv")).write_text("".join(name + "\\n" for name in ["memory", *shown]))
    figure = {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x"}}}
    (out / (out.name + ".vl.json")).write_text(json.dumps(figure))
else:
    out = pathlib.Path(after("--out"))
    out.mkdir()
    (out / "text").write_text("".join(pathlib.Path(a).read_text() for a in arguments if a.endswith(".txt")))
    (out / "data.json").write_text(json.dumps({"splits": {s: {"tokens": 7} for s in ("train", "valid", "test")}}))
'''


def has_renderer():
    return figures.PYTHON.exists() and \
        subprocess.run([figures.PYTHON, "-c", "import vl_convert"], stderr=subprocess.DEVNULL).returncode == 0


def drawing():
    """Pictures of docs are empty files: Figures tests the drawing, which takes a second each."""
    return unittest.mock.patch.object(figures, "draw", lambda specification, picture: picture.touch())


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.log, self.runs = self.folder / "log", self.folder / "runs"
        program = self.folder / "mneme"
        fake_program.write(program, FAKE)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # main() sets them
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        for patch in (unittest.mock.patch.object(experiment_runs, "MNEME", program),
                      unittest.mock.patch.object(experiment_runs, "PROGRAMS", experiment_runs.Programs()),
                      unittest.mock.patch.dict(os.environ, {"LOG": str(self.log)})):
            patch.start()
            self.addCleanup(patch.stop)

    def call(self, script, *arguments, status=0):
        """What the script printed; stderr with it."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), \
                unittest.mock.patch.object(sys, "argv", [script.__name__, *map(str, arguments)]):
            try:
                script.main()
                got = 0
            except SystemExit as end:
                got = end.code if isinstance(end.code, int) else 1
                out.write(str(end.code))
        self.assertEqual(got, status, out.getvalue())
        return out.getvalue()

    def sorting(self, *arguments, status=0):
        return self.call(reproduce_sorting, "--runs", self.runs, *arguments, status=status)

    def calls(self, reports=False):
        """The calls of mneme since the last time: those that make something, or the reports."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        self.log.write_text("")
        return [line for line in lines if (line[0] == "report") == reports]


class Sorting(Case):
    def test_trains_every_memory_once(self):
        self.sorting()
        trained = [call for call in self.calls() if call[0] == "train"]
        # 4 memories at two lengths and 4 compressive ones at the last, three seeds each, and a sweep of 4.
        self.assertEqual(len(trained), 3 * (4 * 2 + 4) + 4)
        names = {pathlib.Path(call[call.index("--run") + 1]).name: call for call in trained}
        self.assertIn("500_continuous_ltm_sticky-seed3", names)
        self.assertIn("memory.tier.0.rate=8", names["1000_compressive_rate8-seed2"])
        self.assertIn("train.seed=2", names["1000_compressive_rate8-seed2"])
        self.assertNotIn("500_compressive_rate8-seed2", names)
        self.assertIn("memory.tier.1.samples=16", names["1000_continuous_ltm_basis16-seed1"])
        self.sorting()
        self.assertEqual(self.calls(), [])

    def test_resumes_a_stopped_run(self):
        (self.runs / "500_none-seed1").mkdir(parents=True)
        (self.runs / "500_none-seed1" / "experiment.toml").touch()
        self.sorting("--seeds", 1, "--lengths", 500, "--memories", "none")
        calls = self.calls()
        self.assertEqual([call[0] for call in calls], ["train", "eval"])
        self.assertIn("--resume", calls[0])
        self.assertNotIn("--set", calls[0])

    def test_the_papers_size_on_a_device_one_run_at_a_time(self):
        (self.runs / "4000_continuous_ltm-seed1").mkdir(parents=True)  # was stopped, maybe on another machine
        (self.runs / "4000_continuous_ltm-seed1" / "experiment.toml").touch()
        got = self.sorting("--lengths", 4000, "--device", "cuda", "--seeds", 1)
        calls = self.calls()
        self.assertEqual([call[0] for call in calls], ["train", "eval", *["train", "eval", "eval"] * 4])
        self.assertEqual({call[call.index("--device") + 1] for call in calls}, {"cuda"})
        trained = [call for call in calls if call[0] == "train"]
        configs = ROOT / "configs/sorting"
        self.assertEqual(trained[0][1:4], [str(configs / "4000.toml"), "--memory", str(configs / "memory/xl_cache.toml")])
        self.assertEqual(trained[1][1:3], ["--resume", str(self.runs / "4000_continuous_ltm-seed1")])
        self.assertEqual(trained[4][2:6], ["--memory", str(configs / "memory/compressive_no_loss.toml"), "--run",
                                           str(self.runs / "4000_compressive_rate2_noloss-seed1")])
        self.assertIn("| memory | 4000 symbols |\n|---|---|\n| xl_cache | 0.150 (1) |\n", got)
        self.assertIn("\n\nAt 4000 symbols everything has the paper's own size.\n\n", got)
        self.assertIn("\n| 4000 symbols | compressive, rate 2, no loss | compressive, rate 2 | ", got)
        accuracy = json.loads((self.runs / "paper_accuracy.vl.json").read_text())
        self.assertEqual({value["x"] for value in accuracy["data"]["values"]}, {4000})
        self.sorting("--lengths", 16000, "--device", "cpu", "--seeds", 1, "--memories", "compressive, rate 12")
        calls = self.calls()
        self.assertIn("memory.tier.0.rate=12", calls[0])
        self.assertEqual(calls[0][calls[0].index("--device") + 1], "cpu")

    def test_a_failure_names_the_command_and_starts_no_other(self):
        with unittest.mock.patch.dict(os.environ, {"FAILS": "500_none-seed1"}):
            got = self.sorting("--jobs", 1, status=1)
        self.assertIn("out of luck", got)
        self.assertIn("500_none-seed1", got)
        self.assertLess(len(self.calls()), 5)
        self.assertFalse((self.runs / "500_none-seed1.json").exists())

    def test_the_tables_show_mean_spread_and_order(self):
        self.sorting("--memories", "none", "xl_cache")
        self.calls()
        got = self.sorting("--table")
        self.assertEqual(self.calls(), [])
        self.assertIn("| none | 0.200 +- 0.100 (3) | 0.200 +- 0.100 (3) |", got)
        self.assertIn("| compressive, rate 2 | - | not run |", got)
        self.assertIn("\n| 500 symbols | none | xl_cache | +0.0500 | +0.0400 to +0.0600 | 0.0020 (1) | 0.0200 | 3, 800 sequences "
                      "| **better** |", got)
        self.assertIn("\n- 500 symbols: **Better than none:** xl_cache.\n", got)
        self.assertIn("\n| 1000 symbols | xl_cache | compressive, rate 2 |  |  |  |  |  | **not run** |", got)
        self.assertIn("\n- 1000 symbols: Not compared with xl_cache for lack of runs: continuous_ltm; continuous_ltm, sticky; "
                      "compressive, rate 2; ", got)
        self.assertIn("\n\nCommits of these runs (number of runs): 0123456789ab (6), 0123456789ab+ (6); "
                      "+: with changes that were not committed\n\nDifferences in accuracy", got)

    def test_draws_the_sweep(self):
        got = self.sorting("--seeds", 1, "--memories", "continuous_ltm")
        self.assertIn("Commits of these runs (number of runs): 0123456789ab (2)\n", got)
        self.assertIn("Commits of these runs (number of runs): 0123456789ab (5)\n", got)
        rows = experiment_runs.read_rows(self.runs / "results.csv")
        self.assertEqual([row["basis"] for row in reproduce_sorting.sweep_of(rows)], ["16", "32", "64", "", "260"])
        accuracy, error = (json.loads((self.runs / f"{name}.vl.json").read_text()) for name in ("accuracy", "regression_error"))
        self.assertEqual([(v["name"], v["x"]) for v in accuracy["data"]["values"]],
                         [("continuous_ltm", 500), ("continuous_ltm", 1000)])
        self.assertEqual(len(error["data"]["values"]), 5)
        self.assertEqual(error["layer"][0]["encoding"]["x"]["title"], "relative error of the regression")

    def test_a_trial_stays_apart(self):
        got = self.call(reproduce_sorting, "--set", "train.steps=2", status=2)
        self.assertIn("--set makes a trial: give it a folder of its own with --runs", got)
        self.assertIn("not for --write-docs", self.sorting("--set", "train.steps=2", "--write-docs", status=2))
        self.sorting("--set", "train.steps=9", "--table", status=1)  # nothing trained: another --set may follow
        self.sorting("--set", "train.steps=2", "--seeds", 1, "--memories", "none")
        self.assertIn("train.steps=2", self.calls()[0])
        for other, said in ((["--set", "train.steps=3"], "with --set train.steps=3"), ([], "without --set")):
            got = self.sorting(*other, "--seeds", 1, "--memories", "none", status=2)
            self.assertIn(f"{self.runs} has runs that were trained with --set train.steps=2: they do not go on {said}; "
                          "give the same, or another folder with --runs", got)
        self.sorting("--set", "train.steps=2", "--seeds", 1, "--memories", "none")
        self.assertEqual(self.calls(), [])

    def test_a_folder_of_runs_without_a_note_is_no_trial(self):
        self.sorting("--seeds", 1, "--memories", "none")
        (self.runs / "settings.json").unlink()
        self.assertIn("has runs that were trained without --set: they do not go on with --set train.steps=2",
                      self.sorting("--set", "train.steps=2", status=2))
        self.sorting("--seeds", 1, "--memories", "none")

    def test_refuses_wrong_use(self):
        self.assertIn("--lengths: expected some of 500, 1000, 4000, 8000, 16000; got 7", self.sorting("--lengths", 7, status=2))
        self.assertIn("invalid choice: 'nothing'", self.sorting("--memories", "nothing", status=2))
        self.assertIn("no run is finished", self.sorting("--table", status=1))
        self.assertIn(f"{self.folder}/absent is not there: build it with scripts/quickstart.sh",
                      self.sorting("--program", self.folder / "absent", status=2))

    def test_another_program(self):
        program = self.folder / "other"
        experiment_runs.MNEME.rename(program)
        self.sorting("--seeds", 1, "--lengths", 500, "--memories", "none", "--program", program)
        self.assertEqual([call[0] for call in self.calls()], ["train", "eval"])

    def test_a_signal_stops_the_trainings_and_starts_no_other(self):
        command = [sys.executable, "-B", reproduce_sorting.__file__, "--runs", self.runs, "--jobs", "1", "--program",
                   experiment_runs.MNEME]
        environment = {**os.environ, "WAITS": "500_none-seed1"}
        script = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not (self.runs / "500_none-seed1/waits").exists() and script.poll() is None:
            time.sleep(0.01)
        script.send_signal(signal.SIGTERM)
        out, _ = script.communicate(timeout=60)
        self.assertEqual(script.returncode, 1, out)
        self.assertIn("error: stopped by SIGTERM; the same command goes on where it was", out)
        self.assertEqual([call[0] for call in self.calls()], ["train"])
        self.sorting("--lengths", 500, "--seeds", 1, "--memories", "none")
        self.assertIn("--resume", self.calls()[0])


class Documents(Case):
    def page(self, text):
        page = self.folder / "docs" / "page.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
        return page

    def test_writes_its_section_only(self):
        page = self.page("before\n<!-- begin sorting: a note -->\nold\n<!-- end sorting -->\nafter\n")
        with drawing():
            self.sorting("--seeds", 1, "--write-docs", page)
        got = page.read_text()
        self.assertTrue(got.startswith("before\n<!-- begin sorting: a note -->\nAnswer tokens"), got)
        self.assertTrue(got.endswith("\n<!-- end sorting -->\nafter\n"), got)
        self.assertIn("| none | 0.100 (1) | 0.100 (1) |", got)
        self.assertEqual({path.name for path in (page.parent / "figures").iterdir()},
                         {"sorting.csv", "sorting_differences.csv", "sorting_accuracy.svg", "sorting_regression_error.svg"})
        with drawing():
            self.sorting("--table", "--seeds", 1, "--write-docs", page)
        self.assertEqual(page.read_text(), got)

    def test_keeps_what_the_page_has_of_other_lengths(self):
        page = self.page("<!-- begin sorting -->\nold\n<!-- end sorting -->\n")
        figures = page.parent / "figures"
        with drawing():
            self.sorting("--seeds", 1, "--write-docs", page)
        # As written before there were stored losses: other numbers, and no differences at 1000 symbols.
        rows = experiment_runs.read_rows(figures / "sorting.csv")
        for row in rows:
            row["accuracy"] = "0.75"
        experiment_runs.write_rows(figures / "sorting.csv", rows)
        (figures / "sorting_differences.csv").unlink()
        self.call(reproduce_sorting, "--runs", self.folder / "others", "--seeds", 1, "--lengths", 500, "--memories", "none",
                  "xl_cache", "--table", status=1)
        with drawing():
            self.call(reproduce_sorting, "--runs", self.folder / "others", "--seeds", 1, "--lengths", 500, "--memories", "none",
                      "xl_cache", "--write-docs", page)
        got = page.read_text()
        self.assertIn("| none | 0.100 (1) | 0.750 (1) |", got)
        self.assertIn("\n| continuous_ltm | not run | 0.750 (1) |", got)
        self.assertIn("\n| 500 symbols | none | xl_cache | ", got)
        self.assertNotIn("\n| 1000 symbols | ", got)
        self.assertIn("\n\n**No intervals at 1000 symbols.** Those runs were trained before runs kept the loss of every target", got)
        self.assertNotIn("compressive, rate 8 |  |", got)
        with drawing():
            self.sorting("--lengths", 1000, "--seeds", 1, "--write-docs", page)
        self.assertIn("\n| 1000 symbols | none | xl_cache | ", page.read_text())
        self.assertNotIn("No intervals", page.read_text())

    def test_the_papers_size_has_a_column_and_a_figure_of_its_own(self):
        page = self.page("<!-- begin sorting -->\nold\n<!-- end sorting -->\n")
        with drawing():
            self.sorting("--seeds", 1, "--write-docs", page)
            self.sorting("--seeds", 1, "--lengths", 4000, "--write-docs", page)
        got = page.read_text()
        self.assertIn("| none | 0.100 (1) | 0.100 (1) | - |", got)
        self.assertIn("| compressive, rate 2, no loss | - | - | 0.100 (1) |", got)
        self.assertIn("](figures/sorting_paper_accuracy.svg)", got)
        self.assertTrue((page.parent / "figures/sorting_paper_accuracy.svg").exists())

    def test_asks_for_the_marks(self):
        page = self.page("nothing here\n")
        with drawing():
            self.assertIn("expected one <!-- begin sorting -->", self.sorting("--seeds", 1, "--write-docs", page, status=1))
        self.assertEqual(page.read_text(), "nothing here\n")

    def test_the_committed_numbers_are_those_of_the_results(self):
        sections = {"sorting": reproduce_sorting.docs_section, "text": reproduce_text.docs_section,
                    "lamemo": reproduce_lamemo.docs_section,
                    **{task.section: functools.partial(reproduce_decoder.docs_section, task)
                       for task in reproduce_decoder.TASKS.values()}}
        for name, docs_section in sections.items():
            _, section, _ = experiment_runs.split_section(experiment_runs.PAGE, name)
            results = ROOT / "docs/figures" / f"{name}.csv"
            differences = experiment_verdicts.read(results.with_name(f"{name}_differences.csv"))
            if results.exists():
                self.assertEqual(section, docs_section(experiment_runs.read_rows(results), differences).strip())
            else:
                self.assertEqual(section, "Not measured yet.")


class Decoder(Case):
    def setUp(self):
        super().setUp()
        self.books, self.dialogues = self.folder / "books", self.folder / "dog"
        self.books.mkdir()
        (self.books / "data.json").write_text(json.dumps({"splits": {s: {"tokens": 7} for s in ("train", "valid", "test")}}))
        self.dialogues.mkdir()
        for name in ("train", "valid", "test", "documents"):
            (self.dialogues / f"{name}.jsonl").touch()

    def decoder(self, task, *arguments, status=0):
        given = ("--books", self.books) if task == "text" else ("--dialogues", self.dialogues)
        return self.call(reproduce_decoder, task, "--runs", self.runs, *given, *arguments, status=status)

    def test_fine_tunes_every_memory_from_one_model(self):
        got = self.decoder("text", "--seeds", 2)
        trained = [call for call in self.calls() if call[0] == "train"]
        self.assertEqual(len(trained), 1 + 5 * 2)
        self.assertNotIn("--init", trained[0])
        base = trained[0][trained[0].index("--run") + 1]
        for call in trained[1:]:
            self.assertEqual(call[call.index("--init") + 1], base)
            self.assertIn("train.steps=400", call)
        self.assertEqual({call[call.index("--memory") + 1].rsplit("/", 1)[1] for call in trained[1:]},
                         {"none.toml", "xl_cache.toml", "compressive.toml", "continuous_ltm.toml",
                          "continuous_ltm_sticky.toml"})
        self.assertIn("| xl_cache | 128 | 100 | 150.00 +- 70.71 (2) |", got)
        self.assertIn("**Better than none:** xl_cache.", got)
        self.decoder("text", "--seeds", 2)
        self.assertEqual(self.calls(), [])

    def test_answers_turns_of_dialogues(self):
        got = self.decoder("dialogues", "--seeds", 1)
        calls = self.calls()
        prepared = [call for call in calls if call[:2] == ["data", "dialogues"]]
        self.assertEqual([("--except" in call) for call in prepared], [False, True, True])
        answered = [call for call in calls if call[0] == "generate"]
        self.assertEqual(len(answered), 6)
        self.assertEqual(answered[0][answered[0].index("--for-report") + 1], "300")
        without = next(call for call in calls if call[0] == "train" and "none_nodocument-seed1" in call[call.index("--run") + 1])
        self.assertIn("data.with_document=false", without)
        self.assertIn("| xl_cache | **505.00** | **505.00** |  |  |  |  |", got)
        self.assertIn("| none | 500.00 | 500.00 |  |  |  |  |", got)
        self.assertIn("| compressive | 500.00 | 500.00 |  |  |  |  |", got)

    def test_says_what_is_missing(self):
        self.assertIn("usage: scripts/reproduce/reproduce_decoder.py {text,dialogues}",
                      self.call(reproduce_decoder, "texts", status=1))
        (self.dialogues / "test.jsonl").unlink()
        self.assertIn("test.jsonl not there; docs/dialogue.md", self.decoder("dialogues", status=1))

    def test_the_page_is_made_of_the_csv_files_alone(self):
        page = self.folder / "docs" / "page.md"
        page.parent.mkdir()
        page.write_text("<!-- begin decoder_dialogues -->\nold\n<!-- end decoder_dialogues -->\n")
        self.decoder("dialogues", "--write-docs", page)
        files = [page.parent / "figures" / f"decoder_dialogues{end}.csv" for end in ("", "_differences")]
        rows, differences = experiment_runs.read_rows(files[0]), experiment_verdicts.read(files[1])
        task = reproduce_decoder.TASKS["dialogues"]
        self.assertEqual(page.read_text(), "<!-- begin decoder_dialogues -->\n" +
                         reproduce_decoder.docs_section(task, rows, differences) + "\n<!-- end decoder_dialogues -->\n")


class Text(Case):
    def setUp(self):
        super().setUp()
        self.novels = self.folder / "novels"
        self.novels.mkdir()
        for names in reproduce_text.SPLITS.values():
            for name in names:
                (self.novels / f"{name}.txt").write_text("“Don't,” said\nJoe.\n\n_Here_ it ends\n", encoding="utf-8")

    def text(self, *arguments, status=0):
        return self.call(reproduce_text, "--runs", self.runs, "--text", self.novels, *arguments, status=status)

    def test_cuts_words_and_marks(self):
        self.assertEqual(reproduce_text.cut("“Don’t,” said\nJoe--\n\n\n\n_Élan_ 1st\n"),
                         "“ don’t , ” said joe - -\nélan 1st\n")

    def test_prepares_trains_and_compares(self):
        got = self.text()
        calls = self.calls()
        self.assertEqual(calls[0][:2], ["data", "prepare"])
        self.assertEqual([pathlib.Path(path).stem for path in calls[0][calls[0].index("--test") + 1:][:2]],
                         list(reproduce_text.SPLITS["test"]))
        self.assertEqual((self.runs / "books/text").read_text(encoding="utf-8").splitlines()[:2],
                         ["“ don't , ” said joe .", "here it ends"])
        # A training and an evaluation each; what compressive reports of itself is asked for in another one.
        self.assertEqual(len(calls), 1 + 3 * (2 + 3 + 3))
        asked = [call for call in calls if call[0] == "eval" and "--set" in call]
        self.assertEqual(len(asked), 2 * 3)
        self.assertTrue(all("--no-store" in call and "memory.tier.0.report_mass=true" in call for call in asked))
        self.assertTrue(all(f'data.prepared="{self.runs.resolve()}/books"' in call for call in calls if call[0] == "train"))
        self.assertIn("warning: other texts", got)
        self.assertIn("| xl_cache | 128 | 100 | 200.00 +- 100.00 (3) |  |", got)
        self.assertIn("| compressive, conv | 128 | 100 | 200.00 +- 100.00 (3) | +0.0500 +- 0.0000 | 0.5000 |", got)
        self.assertIn("Commits of these runs (number of runs): 0123456789ab (6), 0123456789ab+ (3);", got)
        self.assertIn("| xl_cache | compressive, conv | +0.0500 | +0.0400 to +0.0600 | 0.0020 (2) | 0.0200 | 3, 800 sequences | "
                      "**worse** |", got)
        self.assertIn("- **Worse than xl_cache:** compressive, conv; compressive, mean.\n"
                      "- No difference to compressive, mean is shown: compressive, conv.\n", got)
        self.assertIn("| memory | <unk> | 10-99 |", got)
        self.assertIn("| compressive, mean | +0.0000 | +0.0500 |", got)
        self.text("--table")
        self.assertEqual(self.calls(), [])

    def test_says_what_is_missing(self):
        (self.novels / "2701_moby_dick.txt").unlink()
        got = self.text(status=1)
        self.assertIn("1 of 11 novels are not there (2701_moby_dick.txt)", got)
        self.assertEqual(self.calls(), [])


    def test_a_family_is_a_report_with_its_baseline_first(self):
        self.text()
        self.calls()
        self.text("--table")
        named = [[pathlib.Path(a).name for a in call[1:call.index("--out")]] for call in self.calls(reports=True)]
        self.assertEqual(named, [[f"{name}-seed{seed}" for name in names for seed in (1, 2, 3)] for names in (
            ("xl_cache", "compressive_conv", "compressive_mean"), ("compressive_mean", "compressive_conv"))])

    def test_says_which_runs_are_missing(self):
        self.text("--seeds", 2, "--memories", "xl_cache")
        got = self.text("--seeds", 2, "--table")
        self.assertIn("| xl_cache | compressive, conv |  |  |  |  |  | **not run** |", got)
        self.assertIn("- Note: compressive, conv: seeds 1, 2 not trained (compressive, conv against xl_cache, ", got)
        self.text("--seeds", 1, "--memories", "compressive, conv")
        got = self.text("--seeds", 2, "--table")
        self.assertIn("| xl_cache | compressive, conv | +0.0500 | +0.0400 to +0.0600 | 0.0020 (1) | 0.0200 | 1, 800 sequences | "
                      "**worse** |", got)
        self.assertIn("- **Worse than xl_cache:** compressive, conv (one seed). Not compared with "
                      "xl_cache for lack of runs: compressive, mean.", got)
        self.assertIn("- Note: compressive, conv: seed 2 not trained (", got)

    def test_says_how_to_make_losses_that_are_not_stored(self):
        with unittest.mock.patch.dict(os.environ, {"UNSTORED": "xl_cache-seed2"}):
            got = self.text("--seeds", 2)
        self.assertIn("| xl_cache | compressive, mean | +0.0500 | +0.0400 to +0.0600 | 0.0020 (2) | 0.0200 | 1, 800 sequences |", got)
        self.assertIn("- Note: xl_cache-seed2 has no stored losses: mneme eval xl_cache-seed2 --split test makes them "
                      "(compressive, conv against xl_cache, compressive, mean against xl_cache).", got)
        with unittest.mock.patch.dict(os.environ, {"UNSTORED": "-seed"}):
            got = self.text("--seeds", 2, "--table")
        self.assertIn("| xl_cache | compressive, conv |  |  |  |  |  | **unknown** |", got)
        self.assertIn("- Note: no seed of which both arms have stored losses (all rows).", got)

    def test_the_page_is_made_of_the_csv_files_alone(self):
        page = self.folder / "docs" / "page.md"
        page.parent.mkdir()
        page.write_text("<!-- begin text -->\nold\n<!-- end text -->\n")
        self.text("--write-docs", page)
        files = [page.parent / "figures" / f"text{end}.csv" for end in ("", "_differences")]
        rows, differences = experiment_runs.read_rows(files[0]), experiment_verdicts.read(files[1])
        self.assertEqual(list(differences[0]), list(experiment_verdicts.COLUMNS))
        self.assertEqual(page.read_text(), "<!-- begin text -->\n" + reproduce_text.docs_section(rows, differences) +
                         "\n<!-- end text -->\n")
        self.assertIn("[figures/text_differences.csv](figures/text_differences.csv)", page.read_text())
        self.assertIn("**No intervals.** These runs were trained before", reproduce_text.docs_section(rows, []))


class LaMemo(Case):
    def setUp(self):
        super().setUp()
        self.books = self.folder / "books"
        self.books.mkdir()
        splits = {split: {"tokens": 7} for split in ("train", "valid", "test")}
        (self.books / "data.json").write_text(json.dumps({"splits": splits}))

    def lamemo(self, *arguments, status=0):
        return self.call(reproduce_lamemo, "--runs", self.runs, "--books", self.books, *arguments, status=status)

    def test_trains_evaluates_and_looks_inside(self):
        got = self.lamemo()
        calls = self.calls()
        trained = {pathlib.Path(call[call.index("--run") + 1]).name: call for call in calls if call[0] == "train"}
        self.assertEqual(len(trained), 5 * 3 + 1)
        self.assertNotIn("lamemo_nolook-ahead-seed2", trained)
        self.assertIn("model.position=relative", trained["lamemo_XLencoding-seed3"])
        self.assertIn(f'data.prepared="{self.books.resolve()}"', trained["none-seed1"])
        sized = [pathlib.Path(call[2]).name for call in calls if call[:2] == ["analyze", "extrapolation"]]
        self.assertEqual(sorted(sized), sorted(f"{name}-seed{seed}" for seed in (1, 2, 3)
                                               for name in ("xl_cache", "lamemo", "lamemo_nointerpolation")))
        self.assertEqual([pathlib.Path(a).name for a in calls[-1][:4]],
                         ["analyze", "distance", "xl_cache-seed1", "lamemo-seed1"])
        self.assertTrue(all("eval.steps=100" in call for call in calls if call[1] == "extrapolation"))
        self.assertIn("| lamemo | 128 | 100 | 200.00 +- 100.00 (3) | +0.0500 +- 0.0000 | 7.000 | 0 of 3 |", got)
        self.assertIn("Commits of these runs (number of runs): 0123456789ab (13), 0123456789ab+ (3);", got)
        self.assertIn("Commits of these runs (number of runs): 0123456789ab (6), 0123456789ab+ (3);", got)
        self.assertIn("| xl_cache | lamemo | +0.0500 | +0.0400 to +0.0600 | 0.0020 (3) |", got)
        self.assertIn("\nlamemo without look-ahead minus xl_cache, seed 1: +5.00e-02", got)
        self.assertIn("| xl_cache | 99.00 | 98.00 |", got)
        self.assertIn("| lead of lamemo | +0.10 | +0.20 |", got)
        sizes = json.loads((self.runs / "sizes.vl.json").read_text())
        self.assertEqual(sizes["layer"][0]["encoding"]["color"]["scale"]["domain"], ["xl_cache", "lamemo", "lamemo, no interpolation"])
        self.assertEqual(self.lamemo("--table").strip(), got[got.index("Test split"):].strip())
        self.lamemo()
        self.assertEqual(self.calls(), [])

    def test_a_run_that_diverges_is_finished(self):
        with unittest.mock.patch.dict(os.environ, {"DIVERGES": "lamemo_XLencoding"}):
            got = self.lamemo("--memories", "lamemo, XL encoding", "xl_cache")
        self.assertIn("| lamemo, XL encoding |  |  | - |  | 7.000 | 3 of 3 (step 7, 7, 7) |", got)
        self.assertIn("- Note: lamemo, XL encoding: seeds 1, 2, 3 diverged (3 of 9 rows).", got)
        self.calls()
        self.lamemo("--memories", "lamemo, XL encoding")
        self.assertEqual(self.calls(), [])
        with unittest.mock.patch.dict(os.environ, {"FAILS": "none-seed1"}):
            self.assertIn("out of luck", self.lamemo("--memories", "none", status=1))

    def test_goes_on_where_it_was_stopped(self):
        self.lamemo("--seeds", 1, "--memories", "lamemo")
        self.calls()
        (self.runs / "lamemo-seed1.sizes.json").unlink()
        (self.runs / "lamemo-seed1_sizes/lamemo-seed1_sizes.csv").unlink()
        (self.runs / "lamemo-seed1_sizes/lamemo-seed1_sizes.vl.json").unlink()
        (self.runs / "lamemo-seed1_sizes").rmdir()
        self.lamemo("--seeds", 1, "--memories", "lamemo")
        self.assertEqual([call[:2] for call in self.calls()], [["analyze", "extrapolation"]])

    def test_writes_section_and_figures(self):
        page = self.folder / "docs" / "page.md"
        page.parent.mkdir()
        page.write_text("<!-- begin lamemo -->\nold\n<!-- end lamemo -->\n")
        self.lamemo("--seeds", 1, "--memories", "xl_cache")
        self.assertIn("there is no alpha and no distance of seed 1, which lamemo is needed for, and xl_cache for distance",
                      self.lamemo("--seeds", 1, "--table", "--write-docs", page, status=1))
        with drawing():
            self.lamemo("--seeds", 1, "--memories", "lamemo", "--write-docs", page)
        self.assertIn("![Alpha by place in the memory, valid split, seed 1](figures/lamemo_alpha.svg)", page.read_text())
        self.assertIn("![Attention by distance, valid split, seed 1](figures/lamemo_distance.svg)", page.read_text())
        self.assertTrue(all("valid" in call for call in self.calls() if call[0] == "analyze" and call[1] != "extrapolation"))
        self.assertEqual({path.name for path in (page.parent / "figures").iterdir()},
                         {"lamemo.csv", "lamemo_differences.csv", "lamemo_curves.csv", "lamemo_curves.svg", "lamemo_sizes.svg", "lamemo_alpha.csv",
                          "lamemo_alpha.svg", "lamemo_distance.csv", "lamemo_distance.svg"})

    def test_curves_are_those_of_the_first_seed(self):
        curves = [{"memory": name, "seed": seed, "step": step, "loss": loss} for name, seed, step, loss in
                  (("none", "1", "5", "3.0"), ("none", "1", "9", "2.0"), ("none", "2", "5", "90.0"))]
        reproduce_lamemo.write_figures([], curves, self.folder)
        curve = json.loads((self.folder / "curves.vl.json").read_text())
        self.assertEqual(curve["title"], "Training loss, seed 1")
        self.assertEqual([v["y"] for v in curve["data"]["values"]], [3.0, 2.0])
        self.assertFalse((self.folder / "sizes.vl.json").exists())  # without points

    def drawn(self):
        """The runs of each figure of distance that was drawn since the last time."""
        return [[pathlib.Path(a).name for a in call[2:call.index("--split")]] for call in self.calls()
                if call[:2] == ["analyze", "distance"]]

    def test_attention_by_distance_is_that_of_both(self):
        self.lamemo("--seeds", 1, "--memories", "lamemo")
        self.assertEqual(self.drawn(), [])
        self.assertTrue((self.runs / "alpha/alpha.vl.json").exists())
        page = self.folder / "page.md"
        self.assertIn("there is no distance of seed 1",
                      self.lamemo("--seeds", 1, "--table", "--write-docs", page, status=1))
        self.lamemo("--seeds", 1, "--memories", "xl_cache")
        self.assertEqual(self.drawn(), [["xl_cache-seed1", "lamemo-seed1"]])
        (self.runs / "distance/distance.csv").write_text("memory\nlamemo-seed1\n")
        self.lamemo("--seeds", 1, "--memories", "xl_cache")
        self.assertEqual(self.drawn(), [["xl_cache-seed1", "lamemo-seed1"]])
        self.lamemo("--seeds", 1, "--memories", "xl_cache")
        self.assertEqual(self.drawn(), [])

    def test_a_figure_says_that_the_cache_diverged(self):
        page = self.folder / "docs" / "page.md"
        page.parent.mkdir()
        page.write_text("<!-- begin lamemo -->\nold\n<!-- end lamemo -->\n")
        with unittest.mock.patch.dict(os.environ, {"DIVERGES": "xl_cache"}):
            with drawing():
                self.lamemo("--seeds", 1, "--memories", "xl_cache", "lamemo", "--write-docs", page)
        self.assertEqual(self.drawn(), [["lamemo-seed1"]])
        self.assertIn("![Attention by distance, valid split, seed 1, lamemo only: xl_cache diverged](", page.read_text())

    def test_prepares_the_text_where_it_is_not_there(self):
        novels = self.folder / "novels"
        novels.mkdir()
        got = self.lamemo("--books", self.folder / "made/books", "--text", novels, status=1)
        self.assertIn("11 of 11 novels are not there", got)
        for names in reproduce_text.SPLITS.values():
            for name in names:
                (novels / f"{name}.txt").write_text("a b\n", encoding="utf-8")
        self.lamemo("--books", self.folder / "made/books", "--text", novels, "--seeds", 1, "--memories", "none")
        self.assertEqual(self.calls()[0][:2], ["data", "prepare"])


class Figures(unittest.TestCase):
    def drawn(self, specification):
        """The texts and the places of the points of a drawn specification."""
        if not has_renderer():
            self.skipTest("no vl-convert-python in .venv")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "f.vl.json"
            figures.write(path, specification)
            figures.draw(path, path.with_suffix(".svg"))
            items = list(xml.etree.ElementTree.parse(path.with_suffix(".svg")).getroot().iter())
        texts = [item.text for item in items if item.tag.endswith("text")]
        points = [item.get("transform") for item in items if item.get("aria-roledescription") == "point"]
        return texts, [tuple(map(float, point[len("translate("):-1].split(","))) for point in points]

    def test_names_are_escaped_and_points_lie_in_order(self):
        specification = figures.lines("a < b", "x", "y", {"p & q": [(2, 0.5), (1, 0.25)], "none": []})
        texts, points = self.drawn(specification)
        self.assertEqual(len(points), 2)
        self.assertLess(points[0][0], points[1][0])
        self.assertGreater(points[0][1], points[1][1])
        self.assertTrue({"a < b", "p & q", "x", "y"} <= set(texts))
        self.assertNotIn("none", texts)

    def test_an_axis_from_the_lowest_value(self):
        series = {"a": [(1, 100.0), (2, 101.0)], "b": [(x, 100.5) for x in range(50)]}
        specification = figures.lines("t", "x", "y", series, from_zero=False)
        self.assertEqual(specification["layer"][1]["mark"]["opacity"], 0)  # fifty points have no dots
        self.assertEqual(self.drawn(specification)[1], [])
        series["b"] = series["b"][:10]
        _, points = self.drawn(figures.lines("t", "x", "y", series, from_zero=False))
        self.assertEqual(len(points), 12)
        self.assertGreater(points[0][1] - points[1][1], 150)

    def test_zeros_lie_on_the_axis(self):
        _, points = self.drawn(figures.lines("t", "x", "y", {"a": [(1, 0.0), (2, 0.0)]}))
        self.assertEqual(points[0][1], points[1][1])

    def test_says_what_is_missing_to_draw(self):
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(sys.modules, {"vl_convert": None}), \
                unittest.mock.patch.object(figures, "PYTHON", pathlib.Path("absent")):
            with self.assertRaisesRegex(experiment_runs.Failure, "vl-convert-python is needed; run scripts/setup.sh"):
                figures.draw(pathlib.Path("f.vl.json"), pathlib.Path(folder) / "f.svg")

    def test_says_how_it_is_used(self):
        for arguments in ([], ["one.vl.json"], ["one", "two", "three"]):
            done = subprocess.run([sys.executable, "-B", figures.__file__, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f"figures.py: expected a specification and a picture, got {len(arguments)} arguments; "
                                          "use: figures.py SPEC.vl.json FIGURE.svg\n")

    def test_the_theme_is_that_of_the_program(self):
        config, colours, dashes = figures.theme()
        self.assertEqual(config["axis"]["labelColor"], "#1f2328")
        self.assertEqual(colours[0], "#0072B2")

    def test_every_memory_of_a_comparison_is_there(self):
        sorting = (arm for arms in reproduce_sorting.ARMS.values() for arm in arms.values())
        for arm in (*sorting, *reproduce_text.ARMS.values(), *reproduce_lamemo.ARMS.values()):
            self.assertTrue(arm.memory.exists(), arm.memory)


if __name__ == "__main__":
    unittest.main()

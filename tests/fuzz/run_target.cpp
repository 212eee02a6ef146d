// The folder of a run: experiment.toml, run.json, metrics.jsonl, vocabulary.json, a checkpoint.
#include <nlohmann/json.hpp>

#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/record/metrics.hpp"
#include "host/run/record/run_summary.hpp"
#include "host/run/run_folder.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/tensor_lines.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpoint = "checkpoint";

const char* const kExperiment = R"([model]
layers = 1
heads = 1
width = 4
[[memory.tier]]
plugin = "one"
rows = 2
[data]
task = "motif"
[train]
steps = 4
)";

// What the data of this process would say of themselves.
const Json& own_data() {
  static const Json data = {{"train", {{"sha256", "01"}, {"tokens", 7}, {"files", {"a.txt"}}}},
                            {"alphabet", 16},
                            {"vocabulary_sha256", "02"}};
  return data;
}

const Json& own_surroundings() {
  static const Json own = {
      {"mneme", "0.1.0"}, {"commit", ""},    {"dirty", false}, {"torch", "2"},
      {"processor", ""},  {"device", "cpu"}, {"threads", 1},   {"plugins", Json::array()}};
  return own;
}

void check_info(const run::RunFolder& folder) {
  static_cast<void>(accepts([&] {
    const Json info = folder.info();
    static_cast<void>(accepts([&] { run::check_data(info, own_data()); }));
    static_cast<void>(accepts([&] {
      run::check_plugins(run::read_plugins(info), std::vector<memory::TierIdentity>(1), false);
    }));
    run::warn_of_changes("run", info, own_surroundings());
    Json continued = info;
    run::add_continuation(continued, own_surroundings(), 3);
  }));
  static_cast<void>(accepts([&] {
    for (const run::RunDifference& one : run::data_differences(folder.raw_info(), own_data())) {
      require(!one.text().empty(), "a difference has a text");
    }
  }));
}

void check_checkpoint(const run::Checkpoint& checkpoint, const config::Experiment& experiment) {
  require(checkpoint.progress().step >= 0 && checkpoint.progress().tokens >= 0,
          "a checkpoint's counts are none below 0");
  static_cast<void>(accepts([&] { checkpoint.check_resumable(experiment); }));
  static_cast<void>(accepts([&] { static_cast<void>(checkpoint.saved_state()); }));
  for (const std::string& name : checkpoint.file().names()) {
    static_cast<void>(accepts([&] { static_cast<void>(checkpoint.parameter(name)); }));
  }
}

void check_summary(const run::RunSummary& summary) {
  const std::string text = run::to_json(summary).dump();
  require(!text.empty(), "a summary is JSON");
  for (const run::CheckpointSummary& one : summary.checkpoints) {
    if (!one.problem.empty()) check_message(one.problem);
  }
}

bool read_run(std::string_view input) {
  set_log_sink([](LogLevel, std::string_view) {});
  Files files = Files::of(input, kCheckpoint);
  files.texts.try_emplace("experiment.toml", kExperiment);
  files.texts.try_emplace("run.json", R"({"data":{},"plugins":[]})");
  const fs::path& path = empty_folder();
  fs::create_directories(path / "checkpoints");
  write_files(path, files, {"experiment.toml", "run.json", "metrics.jsonl", "vocabulary.json"});
  return accepts([&] {
    const run::RunFolder folder = run::RunFolder::open(path);
    if (files.has(kCheckpoint)) {
      write_tensor_lines(folder.checkpoints().path_of(3), files.texts.at(kCheckpoint));
    }
    check_info(folder);
    static_cast<void>(accepts([&] { run::check_metrics(folder.metrics()); }));
    check_summary(run::summarize(folder));
    const config::Experiment experiment = folder.experiment();
    if (files.has(kCheckpoint)) {
      for (const char* const which : {"best", "last"}) {
        static_cast<void>(accepts([&] {
          check_checkpoint(
              folder.open_checkpoint(which, "mneme eval", run::CheckpointUse::kEvaluation),
              experiment);
        }));
      }
      static_cast<void>(run::Checkpoint::open(folder.checkpoint()));
    }
    static_cast<void>(accepts([&] { run::cut_metrics(folder.metrics(), 2, 1, 1); }));
  });
}

std::string some_checkpoint() {
  return str(
      "format=mneme.checkpoint\nrevision=1\ncontents=run\nexperiment=", line_value(kExperiment),
      "\nprecision=f32\n"
      R"(plugins=[{"id":"org.example.one","version":"1","path":"one.so","sha256":"00",)"
      R"("compiler":"","commit":"","dirty":false}])"
      "\n"
      R"(options={"0.org.example.one":"{ rows = 2 }"})"
      "\nstep=3\ntokens=384\nseconds=1.5\ndata_position=[1,2,3]\nnoise_position=7\n"
      "metrics_lines=2\n"
      R"(valid={"last_step":3,"evaluations_since_best":0,"best_step":3,"best_loss":1.25})"
      "\n"
      R"(state={"segments":"3","0.org.example.one":"{}"})"
      "\n@model.norm.weight=F32 4\n@adam.mean/model.norm.weight=F32 4\n"
      "@state/0.org.example.one.0.rows=BF16 2 1 2\n");
}

std::vector<std::string> run_seeds() {
  return {some_checkpoint(), some_checkpoint() + "contents=weights\n",
          str("==> run.json\n",
              R"({"data":{"train":{"sha256":"01","tokens":7},"vocabulary_sha256":"02"},)",
              R"("plugins":[{"id":"a","version":"1","path":"p","compiler":"","commit":"",)",
              R"("dirty":true}],"mneme":"0.1.0","torch":"2.1","continued":[{"threads":2}]})",
              "\n==> metrics.jsonl\n",
              R"({"kind":"step","step":1,"loss":2.5,"tokens":128,"seconds":0.5})", "\n",
              R"({"kind":"eval","step":1,"split":"valid","best":true,"result":{"loss":2.0}})",
              "\n==> vocabulary.json\n",
              R"({"format":"mneme.vocabulary","revision":1,"kind":"char","symbols":["a","b"]})"),
          str("==> checkpoint\n", some_checkpoint(), "\n==> experiment.toml\n", kExperiment)};
}

std::vector<std::string> run_extremes() {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  const auto with = [&](const std::string& line) { return some_checkpoint() + line + "\n"; };
  return {
      "==> run.json\n" + deep,
      str(R"(==> run.json)", "\n", R"({"plugins":[],"data":{"train":)", deep, "}}"),
      str(R"(==> run.json)", "\n", R"({"plugins":[],"data":{},"mneme":)", deep, "}"),
      str("==> metrics.jsonl\n", R"({"kind":"step","step":1,"x":)", deep, "}\n"),
      str("==> metrics.jsonl\n", R"({"kind":"eval","split":"a","step":1,"x":)", deep, "}\n"),
      with("plugins=" + deep),
      with("state={\"a\":" + deep + "}"),
      with("options={\"a\":" + deep + "}"),
      with("options={\"a\":\"" + repeated("[", 5000) + "\"}"),
      with("valid=" + deep),
      with("data_position=" + deep),
      with("seconds=" + repeated("9", 5000)),
      with("experiment=" + repeated("[", 5000)),
      with("@state/wide=F32" + repeated(" 1", 3000)),
      with("@state/empty=F32 0 4611686018427387904 4611686018427387904"),
      with("@model.empty=F32 4611686018427387904 4611686018427387904 0"),
  };
}

}  // namespace

Target run_target() { return {"run", read_run, run_seeds, run_extremes}; }

}  // namespace mneme::fuzz

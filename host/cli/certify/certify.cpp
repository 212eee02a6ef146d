// mneme certify RUN

#include "host/certify/certify.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/log_once.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/rank_session.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/unread_output.hpp"
#include "host/data/text/text.hpp"
#include "host/generate/text.hpp"
#include "host/run/sweep.hpp"
#include "host/scores/certificate.hpp"
#include "host/tensor/device.hpp"
#include "host/validate/laws.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using scores::Certificate;
using scores::CertificateLine;
using scores::CheckResult;

constexpr std::int64_t kTokens = 2048;

struct CertifyArguments : OpenArguments {
  fs::path text;
  fs::path reference;
  std::int64_t tokens = 0;  // 0 = kTokens, or what a shorter text has
};

std::vector<std::int64_t> ids_of_file(const fs::path& file, const data::Vocabulary* vocabulary) {
  if (vocabulary == nullptr) {
    throw_usage({.where = "--text",
                 .failed = "the run was trained on ids: it has no text vocabulary",
                 .expected = "no --text: the run's own split is read"});
  }
  const std::string text = read_file(file);
  check_is_no_tensors(text, file.string(), "a text", "name the text that the ids are of");
  const generate::Prompt read =
      generate::encode_prompt(*vocabulary, data::text_of_file(file.string(), text), true);
  return {read.ids.begin(), read.ids.end()};
}

// The first ids of a split, in one lane.
std::vector<std::int64_t> ids_of_split(const data::Dataset& dataset, data::Split split,
                                       std::int64_t segment, std::size_t count) {
  const auto stream = dataset.make_stream(split, {.lanes = 1, .segment = segment, .epochs = 1});
  std::vector<std::int64_t> ids;
  data::TokenSegment one;
  while (ids.size() < count && stream->next(one))
    ids.insert(ids.end(), one.inputs.begin(), one.inputs.begin() + one.valid.front());
  return ids;
}

std::vector<std::int64_t> read_text(const CertifyArguments& arguments,
                                    const run::Runtime& runtime) {
  const auto count = static_cast<std::size_t>(arguments.tokens == 0 ? kTokens : arguments.tokens);
  const data::Dataset& dataset = *runtime.dataset();
  std::vector<std::int64_t> ids =
      arguments.text.empty()
          ? ids_of_split(dataset, split_of(arguments), runtime.experiment().eval.segment, count)
          : ids_of_file(arguments.text, dataset.vocabulary());
  if (arguments.tokens != 0 && ids.size() < count) {
    throw_usage({.where = arguments.text.empty() ? arguments.split : arguments.text.string(),
                 .failed = "the text is shorter than --tokens",
                 .expected = str(count),
                 .got = str(ids.size())});
  }
  ids.resize(std::min(ids.size(), count));
  return ids;
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%FT%TZ", &parts);
  return text.data();
}

Certificate certificate_of(const CertifyArguments& arguments, const run::Checkpoint& checkpoint,
                           const run::Runtime& runtime, const std::vector<std::int64_t>& ids) {
  Certificate out{.date = date_now(),
                  .checkpoint = checkpoint.path().filename().string(),
                  .checkpoint_sha256 = sha256_file(checkpoint.path()),
                  .step = checkpoint.progress().step,
                  .seed = runtime.experiment().train.seed,
                  .memory = config::to_toml(runtime.experiment().memory),
                  .text = arguments.text.empty() ? "split " + arguments.split
                                                 : arguments.text.filename().string(),
                  .text_sha256 = sha256_hex(std::as_bytes(std::span(ids))),
                  .tokens = static_cast<std::int64_t>(ids.size()),
                  .segment = runtime.experiment().eval.segment,
                  .precision = std::string(config::to_word(runtime.precision())),
                  .machine = tensor::describe(runtime.device())};
  for (const memory::TierIdentity& one : runtime.stack().identities())
    out.plugins.emplace_back(one.id + '@' + one.version, one.sha256);
  return out;
}

// The certificate of another memory, or of a model whose attention is changed (check_set), is not
// the run's.
bool is_of_own_model(const CertifyArguments& arguments) {
  return arguments.memory.empty() &&
         std::ranges::all_of(arguments.set.overrides(), [](const config::Override& one) {
           return one.key.starts_with("eval.") || one.key.starts_with("data.");
         });
}

std::string value_text(const std::optional<double>& value) {
  return value ? validate::short_text(*value) : "";
}

// The last lines. The loss is that of the one pass, which an evaluation of the split need not have.
std::string sum_text(const Certificate& certificate, bool is_of_split) {
  std::string out = str(
      certificate.tokens, " tokens of ", certificate.text, ", step ", certificate.step, ", ",
      certificate.precision, ": ", certificate.count(CheckResult::kHolds), " hold, ",
      certificate.count(CheckResult::kFails), " fail, ",
      certificate.count(CheckResult::kNotChecked), " not checked\n", "loss ",
      format_number(certificate.loss, 4), " nats a token, over all of these tokens as one text");
  if (is_of_split)
    out += "; mneme eval counts the targets of the data alone, and resets where they do";
  return out + '\n';
}

std::string certificate_text(const Certificate& certificate, std::size_t width) {
  Table table({"line", "result", "difference", "tolerance"});
  for (const CertificateLine& one : certificate.lines) {
    table.add_row({one.name, std::string(to_word(one.result)), value_text(one.difference),
                   value_text(one.tolerance)});
  }
  std::string out = table.text(width);
  for (const CertificateLine& one : certificate.lines) {
    const std::string text = one.text.empty() ? "" : ": " + one.text;
    out += fit_lines(str("  ", one.name, "  ", one.question, text, '\n'), width);
  }
  return out;
}

int certify_run(const CertifyArguments& given, const Streams& process_streams) {
  const RankSession session(process_streams);
  const Streams& streams = session.streams();
  CertifyArguments arguments = given;
  arguments.machine.device = session.device(given.machine.device);
  if (arguments.memory.size() > 1)
    throw_usage("certify: expected at most one --memory, got ", arguments.memory.size());
  check_set(arguments);
  if (session.is_first()) arguments.json.check();
  session.set_threads(arguments.machine.threads);
  go_on_unread();
  arguments.reads_split = arguments.text.empty();
  const LogOnce log;  // the memory is made several times, and says the same each time
  const OpenEvaluation opened = read_input([&] { return open_evaluation(arguments); });
  run::Sweep sweep(opened.checkpoint, opened.experiment, opened.options);
  warn_of_untrained(opened.memories.front().name, sweep.load(opened.memories.front().memory));
  run::Runtime& runtime = sweep.runtime();
  Display display(streams, arguments.is_quiet);
  certify::CertifyOptions options{
      .text = read_input([&] { return read_text(arguments, runtime); }),
      .step = opened.checkpoint.progress().step,
      .reference = arguments.reference,
      .ranks = session.ranks(),
      .on_line = [&](const std::string& name) { display.begin("certify " + name, 0); }};
  Certificate certificate = certificate_of(arguments, opened.checkpoint, runtime, options.text);
  certify::Findings found = read_input([&] { return certify::certify(runtime, options); });
  display.end();
  certificate.loss = found.loss;
  certificate.lines = std::move(found.lines);
  const std::int64_t failed = certificate.count(CheckResult::kFails);
  if (!session.is_first()) return 0;
  std::ostream& out = arguments.json.text(streams);
  out << certificate_text(certificate, streams.out_width)
      << fit_lines(sum_text(certificate, arguments.text.empty()), streams.out_width);
  Outputs outputs;
  if (is_of_own_model(arguments))
    outputs.add([&] { scores::write_certificate(arguments.run, certificate); });
  outputs.add([&] { arguments.json.write(scores::to_json(certificate), streams); });
  outputs.finish();
  return failed > 0 ? static_cast<int>(ErrorKind::kRun) : 0;
}

}  // namespace

void add_certify(const Command& app) {
  const Command command = app.subcommand(
      "certify",
      "Check that every way to compute a run's losses gives the same numbers, and that its memory "
      "forgets, sees no later token and keeps its bytes");
  const auto arguments = std::make_shared<CertifyArguments>();
  arguments->split = "test";
  arguments->add_run(command, "Memory file in place of the run's own; nothing is kept in the run");
  command.option("--text", arguments->text, "FILE", "A text in place of the split's");
  command.option("--tokens", arguments->tokens, "N",
                 "Tokens that are read; without it 2048, or what a shorter text has",
                 {in(2, kMaxCount)});
  command.option("--reference", arguments->reference, "FILE",
                 "Losses of an imported model, made by scripts/check/reference_losses.py");
  arguments->add_settings(command);
  command.examples(
      {"mneme certify runs/first", "mneme certify runs/first --text my_text.txt --tokens 4096"});
  command.runs(arguments, &certify_run);
}

}  // namespace mneme::cli

// mneme analyze probes RUN...: the tensors that hooks publish, as they are.

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/display.hpp"
#include "host/cli/streams.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct ProbesArguments {
  RunsArguments runs;
  std::vector<std::string> names;  // empty = all that hooks offer
  AnalysedPart part{.segments = 1};
};

// One memory's file, and what stands in it.
struct ProbesFile {
  std::string memory;
  SafetensorsWriter writer;
  // By "<tier>.<layer>.<name>": how many segments published it, and the last one's shape.
  struct Probe {
    std::int64_t segments = 0;
    std::string dtype;
    std::vector<std::int64_t> shape;
  };
  std::map<std::string, Probe> probes;

  void add(std::int64_t segment, const std::string& key, const at::Tensor& value) {
    const at::Tensor own = value.to(at::kCPU).contiguous();
    const DType dtype = tensor::to_dtype(own.scalar_type());
    writer.add_copy(str(segment, '.', key), dtype, own.sizes().vec(), own.const_data_ptr());
    Probe& probe = probes[key];
    ++probe.segments;
    probe.dtype = dtype_name(dtype);
    probe.shape = own.sizes().vec();
  }
};

Table table_of(const std::vector<ProbesFile>& files) {
  Table table({"memory", "probe", "dtype", "shape", "segments"});
  for (const ProbesFile& file : files) {
    for (const auto& [key, probe] : file.probes) {
      table.add_row({file.memory, key, probe.dtype, list_text(probe.shape), str(probe.segments)});
    }
  }
  return table;
}

Json json_of(const std::vector<ProbesFile>& files) {
  Json memories = Json::array();
  for (const ProbesFile& file : files) {
    Json probes = Json::object();
    for (const auto& [key, probe] : file.probes) {
      probes[key] = {{"dtype", probe.dtype}, {"shape", probe.shape}, {"segments", probe.segments}};
    }
    memories.push_back({{"name", file.memory}, {"probes", std::move(probes)}});
  }
  return memories;
}

// Error (kUsage) when the memory published nothing.
void check_published(const ProbesFile& file, const ProbesArguments& arguments) {
  if (!file.probes.empty()) return;
  throw_usage({.where = "analyze probes",
               .failed = arguments.names.empty()
                             ? "the memory publishes no tensor"
                             : str("the memory publishes no tensor of these names: ",
                                   quoted_list(arguments.names)),
               .hint = arguments.names.empty()
                           ? "docs/analysis.md names those of the shipped memories; some publish "
                             "them only when an option asks for it, or after more --segments"
                           : "without --name all are written"});
}

ProbesFile collect(const RunMemory& one, const ProbesArguments& arguments, Display& display) {
  ProbesFile file{.memory = one.name, .writer = {}, .probes = {}};
  evaluate_shown(one, one.memory, split_of(arguments.runs.open), display,
                 [&](eval::Options& options) {
                   options.wanted_probes = {arguments.names.begin(), arguments.names.end()};
                   if (arguments.names.empty()) options.wanted_probes.insert(memory::kEveryProbe);
                   options.on_probes = [&](const data::TokenSegment& segment,
                                           const std::vector<double>& /*nll*/,
                                           const std::map<std::string, at::Tensor>& probes) {
                     for (const auto& [key, value] : probes) file.add(segment.index, key, value);
                     file.writer.add_copy(str(segment.index, ".tokens"), DType::I64,
                                          {segment.lanes, segment.length}, segment.inputs.data());
                   };
                 });
  check_published(file, arguments);
  file.writer.set_metadata("mneme.format", "probes");
  file.writer.set_metadata("mneme.memory", one.name);
  return file;
}

// A memory's name as that of a file.
std::string file_name_of(std::string name) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  std::ranges::replace_if(
      name, [&](char c) { return !is_plain(static_cast<unsigned char>(c)); }, '_');
  return name;
}

// A file a memory, called as the memory is.
std::vector<std::string> write_files(const fs::path& folder, const std::vector<ProbesFile>& files) {
  std::vector<std::string> names;
  for (const ProbesFile& file : files) names.push_back(file_name_of(file.memory));
  names = distinct_names(names);
  for (std::size_t i = 0; i < files.size(); ++i) {
    names[i] += ".safetensors";
    files[i].writer.write(folder / names[i]);
  }
  return names;
}

int run(const ProbesArguments& arguments, const Streams& streams) {
  check_set(arguments.runs.open, {{"eval.lanes", "--lanes"}, {"eval.steps", "--segments"}});
  arguments.runs.open.json.check();
  std::vector<ProbesFile> files;
  RunsAnalysis analysis;
  analysis.change = [&](config::EvalConfig& eval) { arguments.part.apply(eval); };
  analysis.measure = [&](const RunMemory& one, Display& display) {
    files.push_back(collect(one, arguments, display));
  };
  analysis.table = [&] { return table_of(files); };
  analysis.json = [&]() -> Json {
    return {{"format", "mneme-analyze-probes"},
            {"split", arguments.runs.open.split},
            {"segments", arguments.part.segments},
            {"lanes", arguments.part.lanes},
            {"files", Json::array()},
            {"memories", json_of(files)}};
  };
  analysis.write_files = [&] { return write_files(arguments.runs.out, files); };
  return analyze_runs(arguments.runs, analysis, streams);
}

}  // namespace

void add_analyze_probes(const Command& analyze) {
  const Command command = analyze.subcommand(
      "probes", "The tensors that memories publish (mneme.probe/1), as safetensors files");
  const auto arguments = std::make_shared<ProbesArguments>();
  arguments->runs.add(command);
  command.option("--name", arguments->names, "PROBE",
                 "Probe to write; may be given several times; default: all that are published");
  arguments->part.add(command);
  command.examples(
      {"mneme analyze probes runs/first --out probes --name memory.alpha --segments 4"});
  command.runs(arguments, &run);
}

}  // namespace mneme::cli

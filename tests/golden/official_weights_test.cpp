// Import and export of official weights: the exported file equals the imported one bit for bit.
//
// The parameters are those of the families transformer_xl and lamemo; every file is read when the
// test runs, and every setting comes from its metadata. Buffers and tied tensors count.
#include "host/weights/official_weights.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/weight_files.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden/golden.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme {
namespace {

using golden::setting;
using Tensors = std::map<std::string, at::Tensor>;

constexpr std::string_view kPrefix = "param/";

config::Experiment experiment(const SafetensorsFile& file, config::Precision precision) {
  config::Experiment e;
  e.model = golden::official_model(file);
  if (e.model.adaptive->cutoffs.empty()) e.model.adaptive.reset();  // as an experiment file says it
  e.memory = golden::segment_cache(setting(file, "mem_len"));
  e.data.task = config::Task::kTokens;
  e.data.train = file.path();  // required, not read
  e.data.vocabulary_size = setting(file, "n_token");
  e.train.segment = setting(file, "tgt_len");
  e.train.steps = 1;
  e.train.precision = precision;
  return e;
}

Tensors parameters(const SafetensorsFile& file, at::ScalarType dtype) {
  Tensors tensors;
  for (const std::string& name : file.names()) {
    if (!name.starts_with(kPrefix)) continue;
    tensors[name.substr(kPrefix.size())] = weights::read_tensor(file, name, dtype);
  }
  return tensors;
}

void write(const Tensors& tensors, const std::filesystem::path& path) {
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : tensors) {
    writer.add(name, tensor.scalar_type() == at::kDouble ? DType::F64 : DType::F32,
               tensor.sizes().vec(), tensor.const_data_ptr());
  }
  writer.write(path);
}

// Fails unless both files hold the same names, dtypes, shapes and bytes. Returns how many tensors.
std::size_t expect_equal(const SafetensorsFile& ours, const SafetensorsFile& theirs) {
  EXPECT_EQ(ours.names(), theirs.names());
  for (const std::string& name : theirs.names()) {
    const TensorView* const a = ours.find(name);
    const TensorView& b = theirs.at(name);
    if (a == nullptr) continue;
    EXPECT_EQ(a->dtype, b.dtype) << name;
    EXPECT_EQ(a->shape, b.shape) << name;
    EXPECT_TRUE(a->bytes == b.bytes && std::memcmp(a->data, b.data, b.bytes) == 0) << name;
  }
  return theirs.names().size();
}

// Makes a run of the tensors and writes out.safetensors of it.
weights::ExportReport import_and_export(const Tensors& tensors,
                                        const config::Experiment& experiment,
                                        const test::TemporaryFolder& folder) {
  write(tensors, folder / "in.safetensors");
  weights::ImportOptions options;
  options.folder = folder / "run";
  const weights::ImportReport report =
      weights::import_official(folder / "in.safetensors", experiment, options);
  EXPECT_TRUE(report.weights.is_official);
  EXPECT_FALSE(report.weights.is_rounded);
  const run::RunFolder run = run::RunFolder::open(folder / "run");
  return weights::export_official(run::Checkpoint::open(run.checkpoint()),
                                  folder / "out.safetensors");
}

std::size_t round_trip(const Tensors& tensors, const config::Experiment& experiment) {
  const test::TemporaryFolder folder;
  import_and_export(tensors, experiment, folder);
  return expect_equal(SafetensorsFile::open(folder / "out.safetensors"),
                      SafetensorsFile::open(folder / "in.safetensors"));
}

// The same weights with position biases of every layer's own.
Tensors untied_biases(Tensors tensors, std::int64_t layers) {
  for (const char* name : {"r_w_bias", "r_r_bias"}) {
    for (std::int64_t l = 0; l < layers; ++l) {
      tensors[str("layers.", l, ".dec_attn.", name)] =
          tensors.at(name) + 0.5 * static_cast<double>(l + 1);
    }
    tensors.erase(name);
  }
  return tensors;
}

TEST(GoldenOfficialWeights, ImportAndExportGiveBackEveryFile) {
  std::size_t compared = 0;
  for (const auto& path : golden::files("transformer_xl")) {
    SCOPED_TRACE(path.stem().string());
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const auto& [precision, dtype] : {std::pair{config::Precision::kF32, at::kFloat},
                                           std::pair{config::Precision::kF64, at::kDouble}}) {
      config::Experiment settings = experiment(file, precision);
      const Tensors tensors = parameters(file, dtype);
      const std::size_t count = round_trip(tensors, settings);
      std::cout << path.stem().string() << ' ' << config::to_word(precision) << ": " << count
                << " tensors are equal bit for bit" << std::endl;
      settings.model.untie_position_bias = true;
      compared += count + round_trip(untied_biases(tensors, settings.model.layers), settings);
    }
  }
  EXPECT_GT(compared, 0U);
}

#ifdef MNEME_HAS_LAMEMO
// The experiment of a file of the official LaMemo, whose kinds of attention are options here.
config::Experiment look_ahead_experiment(const SafetensorsFile& file, config::Precision precision) {
  config::Experiment e = experiment(file, precision);
  const std::int64_t type = setting(file, "attn_type");
  if (type == 0) return e;
  config::TierConfig& tier = e.memory.tiers.at(0);
  tier.plugin = "lamemo";
  for (const auto& [option, of_type] :
       {std::pair{"signed_ablation", 31}, {"content_bias_ahead", 32}, {"full_mask", 33}}) {
    if (type != of_type) continue;
    const std::string path = str("memory.tier.0.", option);
    tier.options.set(option, {}, config::Value::boolean(true, {}, path));
  }
  if (type != 31) e.model.position = config::PositionScheme::kDisentangled;
  return e;
}

TEST(GoldenOfficialWeights, ImportAndExportGiveBackEveryFileOfLaMemo) {
  std::size_t compared = 0;
  for (const auto& path : golden::files("lamemo")) {
    SCOPED_TRACE(path.stem().string());
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const auto& [precision, dtype] : {std::pair{config::Precision::kF32, at::kFloat},
                                           std::pair{config::Precision::kF64, at::kDouble}}) {
      const std::size_t count =
          round_trip(parameters(file, dtype), look_ahead_experiment(file, precision));
      std::cout << path.stem().string() << ' ' << config::to_word(precision) << ": " << count
                << " tensors are equal bit for bit" << std::endl;
      compared += count;
    }
  }
  EXPECT_GT(compared, 0U);
}

TEST(GoldenOfficialWeights, LaMemoWithoutLookAheadHasTheNamesOfTransformerXl) {
  const SafetensorsFile file =
      SafetensorsFile::open(std::filesystem::path(MNEME_SOURCE_DIR) /
                            "tests/golden/lamemo/lamemo_no_lookahead.safetensors");
  const Tensors tensors = parameters(file, at::kFloat);
  config::Experiment settings = experiment(file, config::Precision::kF32);
  const test::TemporaryFolder cached, looking;
  import_and_export(tensors, settings, cached);
  config::TierConfig& tier = settings.memory.tiers.at(0);
  tier.plugin = "lamemo";
  tier.options.set("lookahead", {}, config::Value::boolean(false, {}, "memory.tier.0.lookahead"));
  const weights::ExportReport report = import_and_export(tensors, settings, looking);
  EXPECT_EQ(report.format, "transformer_xl");
  EXPECT_TRUE(report.left_out.empty());
  EXPECT_EQ(read_file(looking / "out.safetensors"), read_file(cached / "out.safetensors"));
}
#endif

// No file has one table with projections, tied and not: here the official names of a model's own
// first weights stand for it.
TEST(GoldenOfficialWeights, ImportAndExportGiveBackOneTableWithProjections) {
  const auto files = golden::files("transformer_xl");
  ASSERT_FALSE(files.empty());
  config::Experiment settings =
      experiment(SafetensorsFile::open(files.front()), config::Precision::kF32);
  settings.data.vocabulary_size = 60;
  settings.model.embedding = settings.model.width - 4;
  settings.model.adaptive =
      config::AdaptiveConfig{{20, 40}, 1, settings.model.embedding, {false, true, true}};
  const auto model = backbone::make_model(
      settings.model, {.vocabulary = 60, .train_segment = 8, .eval_segment = 8, .seed = 3});
  Tensors tensors;
  tensors[weights::kOfficialFrequencies] =
      weights::official_frequencies(settings.model.width, at::kFloat);
  for (const backbone::Parameter& parameter : model->parameters()) {
    for (const std::string& name : weights::official_names(parameter.name, settings.model)) {
      tensors[name] = parameter.tensor.detach();
    }
  }
  EXPECT_TRUE(tensors.contains("crit.out_projs.2"));
  EXPECT_EQ(round_trip(tensors, settings), tensors.size());
}

TEST(GoldenOfficialWeights, ExportGivesTheFrequenciesOfTheOfficialCode) {
  for (const auto& path : golden::files("transformer_xl")) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    const std::string name = str(kPrefix, weights::kOfficialFrequencies);
    const at::Tensor theirs = weights::read_tensor(file, name, at::kFloat);
    const at::Tensor ours = weights::official_frequencies(setting(file, "d_model"), at::kFloat);
    EXPECT_TRUE(at::allclose(ours, theirs, 1e-6, 0.0)) << path;
  }
}

}  // namespace
}  // namespace mneme

#include "tests/golden/decoder/decoder_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "host/weights/pretrained/family/family_config.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {

namespace fs = std::filesystem;

std::vector<fs::path> decoder_folders() {
  const char* const root = std::getenv("MNEME_GOLDEN");
  const fs::path golden =
      root != nullptr ? fs::path(root) : fs::path(MNEME_SOURCE_DIR) / "tests/golden";
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(golden / "decoder")) {
    if (fs::exists(entry.path() / "golden.safetensors")) out.push_back(entry.path());
  }
  std::ranges::sort(out);
  return out;
}

at::Tensor DecoderModel::log_probabilities(const at::Tensor& top) const {
  const at::Tensor flat = top.reshape({-1, top.size(2)});
  return model->log_probabilities(flat).view({top.size(0), top.size(1), -1});
}

DecoderCase::DecoderCase(const fs::path& folder)
    : name_(folder.filename().string()),
      values_(SafetensorsFile::open(folder / "golden.safetensors")),
      folder_(weights::ModelFolder::open(folder)),
      names_(weights::FolderNames::of(weights::family_of(folder_.config(), folder.string()),
                                      folder_.names())) {
  const weights::FolderModel read =
      weights::read_config(names_.family, folder_.config(), folder.string());
  config_ = read.model;
  config_.dropout = config_.attention_dropout = 0.0;
  config_.attention_kernel = test_attention();
  vocabulary_ = read.vocabulary;
}

at::Tensor DecoderCase::read(const std::string& name, at::ScalarType dtype) const {
  return weights::read_tensor(values_, name, dtype);
}

DecoderModel DecoderCase::make(at::ScalarType dtype, int64_t rows, memory::Phase phase) const {
  const at::Tensor ids = read("input_ids", at::kLong);
  backbone::ModelSetup setup;
  setup.vocabulary = vocabulary_;
  setup.train_segment = setup.eval_segment = ids.size(1);
  setup.dtype = dtype;
  setup.device = test_device();
  setup.draws_parameters = false;
  DecoderModel out;
  out.loader = std::make_unique<plugin::PluginLoader>(memory::make_loader());
  out.model = backbone::make_model(config_, setup);
  out.stack = std::make_unique<memory::Stack>(segment_cache(rows),
                                              backbone::backbone_info(config_, setup), *out.loader);
  out.state = out.stack->new_state(phase, ids.size(0));
  out.model->train(phase == memory::Phase::kTraining);
  weights::load_tensors(folder_, names_, config_, *out.model);
  return out;
}

void DecoderCase::compare(const std::string& prefix, const std::map<std::string, at::Tensor>& ours,
                          Comparison& comparison) const {
  std::vector<weights::ParameterShape> shapes;
  for (const auto& [name, tensor] : ours) shapes.push_back({name, tensor.sizes().vec()});
  for (const weights::FolderTensor& one : weights::folder_tensors(names_, config_, shapes)) {
    const at::Tensor rows = ours.at(one.parameter).narrow(0, one.first, one.rows);
    const std::string name = prefix + one.names.front();
    ASSERT_TRUE(values_.contains(name)) << name;
    comparison.check(name, one.is_transposed ? rows.t() : rows, read(name, at::kDouble));
  }
}

}  // namespace mneme::golden

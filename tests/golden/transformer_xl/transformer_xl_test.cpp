// The backbone with a segment cache against the official Transformer-XL
// (tests/golden/transformer_xl).
//
// Every file of the family is read when the test runs; every setting comes from its metadata.
#include <gtest/gtest.h>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/golden/official_run.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {
namespace {

class TransformerXlRun : public OfficialRun {
 public:
  TransformerXlRun(const SafetensorsFile& file, at::ScalarType dtype, memory::Phase phase)
      : OfficialRun(file, official_model(file), segment_cache(setting(file, "mem_len")), dtype,
                    phase) {}

 private:
  void compare_memory(Comparison& comparison, const std::string& prefix, const Tap& /*tap*/,
                      const std::map<std::string, at::Tensor>& /*probes*/) override {
    for (int64_t l = 0; l < config_.layers; ++l) {
      // The official code's last memory (of the top layer's output) is never read; ours has none.
      const std::string memory = str(prefix, "mem_after/", l);
      if (file_.contains(memory)) compare(comparison, memory, saved(state_, str(l, ".cache")));
    }
  }
};

TEST(GoldenTransformerXl, EveryFileAgreesWithTheOfficialCode) {
  compare_family({"transformer_xl", left_out_setting,
                  [](const SafetensorsFile&, at::ScalarType dtype) {
                    return dtype == at::kDouble ? 1e-6 : 1e-4;
                  },
                  [](const SafetensorsFile& file, at::ScalarType dtype, memory::Phase phase) {
                    return std::make_unique<TransformerXlRun>(file, dtype, phase);
                  }});
}

}  // namespace
}  // namespace mneme::golden

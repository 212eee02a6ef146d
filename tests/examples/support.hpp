// The memories of examples/, as the tests of this folder load them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/backbone/open/open_segment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"

namespace mneme {

// [memory] with one tier of an example; options are TOML lines.
inline config::MemoryConfig example(const std::string& plugin, const std::string& options = "") {
  return backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR},
                             "[[memory.tier]]\nplugin = \"" + plugin + "\"\n" + options + "\n");
}

// Four segments of six tokens, read in steps as in generation and as wholes, with a lane reset
// between: the last layer's outputs and what the closes wrote agree.
inline void expect_open_segments_equal_whole_ones(backbone::MemorySession& session) {
  const at::NoGradGuard no_grad;
  memory::StackState a = session.fresh(2, memory::Phase::kEvaluation), b = a.clone();
  const std::vector<std::vector<int64_t>> steps = {{1, 1, 1, 1, 1, 1}, {4, 2}, {6}, {1, 5}};
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (s == 2) {
      a.reset({0, 1});
      b.reset({0, 1});
    }
    const at::Tensor ids = backbone::random_ids(50 + s, 2, 6, 11);
    memory::SegmentHooks whole(session.stack, a, {.length = 6});
    const at::Tensor expected = session.model->forward({ids, {}, {}}, whole).top;
    whole.commit();
    memory::SegmentHooks hooks(session.stack, b, {.length = steps[s].front(), .is_open = true});
    backbone::OpenSegment open(*session.model, hooks);
    std::vector<at::Tensor> tops;
    int64_t from = 0;
    for (const int64_t n : steps[s]) {
      tops.push_back(open.step(ids.narrow(1, from, n)));
      from += n;
    }
    open.close();
    hooks.commit();
    EXPECT_LT(validate::largest_difference(at::cat(tops, 1), expected), 1e-12) << "segment " << s;
  }
}

}  // namespace mneme

// Documents side by side in a lane, whose tokens do not see each other, while nothing is emptied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "host/eval/run_segment.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using Lengths = std::vector<int64_t>;

// Two lanes of 30 tokens, each with its documents.
const std::vector<Lengths>& documents_of_lanes() {
  static const std::vector<Lengths> kLengths = {{4, 7, 1, 12, 6}, {11, 2, 9, 8}};
  return kLengths;
}

at::Tensor document_ids() {
  std::vector<at::Tensor> lanes;
  for (const Lengths& lengths : documents_of_lanes()) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      parts.push_back(at::full({1, lengths[i]}, static_cast<int64_t>(i) + 5, at::kLong));
    }
    lanes.push_back(at::cat(parts, 1));
  }
  return at::cat(lanes, 0);
}

struct DocumentRun {
  std::unique_ptr<Model> model;
  plugin::PluginLoader loader = memory::make_loader();
  memory::Stack stack;
  memory::StackState state;

  DocumentRun(const config::ModelConfig& config, const std::string& memory, int64_t lanes)
      : model(make_model(config, small_setup())),
        stack(memory_of({MNEME_BINARY_DIR "/tests/abi_plugins", MNEME_PLUGIN_DIR}, memory),
              backbone_info(config, small_setup()), loader),
        state(stack.new_state(memory::Phase::kEvaluation, lanes)) {
    model->train(false);
  }

  // The losses of ids [B,n+1] in segments of these lengths.
  at::Tensor losses(const at::Tensor& ids, const Lengths& segments, const at::Tensor& documents,
                    bool has_grad = false) {
    const at::AutoGradMode grad(has_grad);
    std::vector<at::Tensor> out;
    int64_t from = 0;
    for (const int64_t n : segments) {
      Batch batch{ids.narrow(1, from, n), ids.narrow(1, from + 1, n), {}};
      if (documents.defined()) batch.documents = documents.narrow(1, from, n);
      out.push_back(eval::run_segment(*model, stack, state, batch).nll.detach());
      from += n;
    }
    return at::cat(out, 1);
  }
};

std::string cache_with(int64_t rows) {
  return str("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", rows, "\n");
}

std::vector<NamedConfig> document_models() {
  config::ModelConfig post = small_config(), alibi = small_config();
  alibi.position = config::PositionScheme::kAlibi;
  alibi.norm = config::Norm::kPre;
  std::vector<NamedConfig> out = {{"post", post}, {"alibi", alibi}};
  for (const NamedConfig& one : small_decoders()) {
    if (one.model.position != config::PositionScheme::kLearned) out.push_back(one);
  }
  return out;
}

class Documents : public testing::TestWithParam<NamedConfig> {
 protected:
  // The losses of each document by itself, from an empty memory, in the documents' places.
  at::Tensor alone(const at::Tensor& ids) const {
    std::vector<at::Tensor> lanes;
    for (std::size_t b = 0; b < documents_of_lanes().size(); ++b) {
      std::vector<at::Tensor> parts;
      int64_t from = 0;
      for (const int64_t n : documents_of_lanes()[b]) {
        const at::Tensor own = ids.narrow(0, static_cast<int64_t>(b), 1).narrow(1, from, n + 1);
        parts.push_back(DocumentRun(GetParam().model, "", 1).losses(own, {n}, {}));
        from += n;
      }
      lanes.push_back(at::cat(parts, 1));
    }
    return at::cat(lanes, 0);
  }
};

TEST_P(Documents, OfASegmentHaveTheLossesOfEachAlone) {
  const at::Tensor ids = random_ids(41, 2, 31, 11);
  const at::Tensor expected = alone(ids);
  DocumentRun run(GetParam().model, "", 2);
  EXPECT_LT(largest_difference(run.losses(ids, {30}, document_ids()), expected), 1e-12);
  EXPECT_LT(largest_difference(run.losses(ids, {30}, document_ids(), true), expected), 1e-12);
  EXPECT_GT(largest_difference(run.losses(ids, {30}, {}), expected), 1e-4);
}

TEST_P(Documents, OfACacheAreToldApart) {
  const at::Tensor ids = random_ids(42, 2, 31, 11);
  const at::Tensor expected = alone(ids);
  // Blocks as they come, one block by the plugin's kernel, and rows that are dropped.
  for (const Lengths& segments : {Lengths(6, 5), Lengths{13, 2, 1, 8, 6}, Lengths(30, 1)}) {
    for (const int64_t rows : {40, 24, 13}) {
      for (const bool has_grad : {false, true}) {
        DocumentRun run(GetParam().model, cache_with(rows), 2);
        const at::Tensor got = run.losses(ids, segments, document_ids(), has_grad);
        EXPECT_LT(largest_difference(got, expected), 1e-12) << rows << (has_grad ? " grad" : "");
      }
    }
  }
}

TEST_P(Documents, AreSavedWithTheRows) {
  const at::Tensor ids = random_ids(43, 2, 31, 11);
  DocumentRun run(GetParam().model, cache_with(40), 2);
  const at::Tensor first = run.losses(ids.narrow(1, 0, 16), {5, 5, 5}, document_ids());
  const memory::NamedState saved = run.state.save();
  run.state = run.stack.restore(memory::Phase::kEvaluation, 2, saved);
  const at::Tensor rest =
      run.losses(ids.narrow(1, 15, 16), {5, 5, 5}, document_ids().narrow(1, 15, 15));
  EXPECT_LT(largest_difference(at::cat({first, rest}, 1), alone(ids)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, Documents, testing::ValuesIn(document_models()),
                         [](const auto& param) { return param.param.name; });

// Layers with the same columns read one tensor of what is hidden: rows are compared once a segment,
// whether a cache keeps them as blocks or in one piece.
TEST(DocumentsOfMemories, AreComparedOnceASegment) {
  const int64_t tokens = 84, length = 7;
  const at::Tensor ids = random_ids(45, 2, tokens + 1, 11);
  const at::Tensor documents =
      at::arange(tokens, at::kLong).div(length, "floor").expand({2, tokens}).contiguous();
  const at::Tensor expected = DocumentRun(small_config(), "", 2).losses(ids, {tokens}, documents);
  const std::vector<std::pair<std::string, int64_t>> runs = {
      {"", length}, {cache_with(20), 6}, {cache_with(65), 1}};
  for (const auto& [memory, step] : runs) {
    DocumentRun run(small_config(), memory, 2);
    const at::Tensor first =
        run.losses(ids, Lengths(static_cast<std::size_t>(tokens / step - 1), step), documents);
    const int64_t from = tokens - step;
    tensor::Trace trace;
    at::Tensor last;
    {
      const tensor::TraceScope scope(trace);
      last = run.losses(ids.narrow(1, from, step + 1), {step}, documents.narrow(1, from, step));
    }
    EXPECT_LT(largest_difference(at::cat({first, last}, 1), expected), 1e-12) << memory;
    EXPECT_EQ(std::ranges::count_if(trace.lines(),
                                    [](const std::string& line) {
                                      return line.find("aten::eq.Tensor(") != line.npos;
                                    }),
              1)
        << memory;
  }
}

TEST(DocumentsOfMemories, ThatAreNotKnownAreRefused) {
  const at::Tensor ids = random_ids(44, 2, 31, 11);
  DocumentRun computed(small_config(),
                       "[[memory.tier]]\nplugin = \"compressive\"\nrows = 6\n"
                       "compressed_rows = 6\nrate = 2\n",
                       2);
  computed.stack.require_documents();
  const std::string text =
      error_of([&] { static_cast<void>(computed.losses(ids, Lengths(6, 5), document_ids())); });
  for (const char* part : {"tier 0", "org.mneme.compressive", "tokens may not see other documents",
                           "data.reset = \"mask\"", "a row of its context is computed",
                           "expected a memory whose context is rows of tokens, such as a cache",
                           "data.reset = \"document\" empties any memory"}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
  DocumentRun signal(small_config(), "[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 8\n",
                     2);
  EXPECT_THAT(error_of([&] { signal.stack.require_documents(); }),
              testing::HasSubstr("its results are made of rows of all documents"));
  DocumentRun riders(small_config(), "[[memory.tier]]\nplugin = \"test_riders\"\nrows = 4\n", 2);
  EXPECT_THAT(error_of([&] { riders.stack.require_documents(); }),
              testing::HasSubstr("its riders attend to rows of all documents"));
  DocumentRun(small_config(), cache_with(4), 2).stack.require_documents();
}

}  // namespace
}  // namespace mneme::backbone

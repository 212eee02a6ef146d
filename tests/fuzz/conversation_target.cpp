// Conversations that another process continues.
#include "host/base/text.hpp"
#include "host/generate/conversation.hpp"
#include "host/tensor/torch.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/tensor_lines.hpp"

namespace mneme::fuzz {
namespace {

const generate::Identity kIdentity = {{"weights", "0123"}};
constexpr std::int64_t kVocabulary = 256;

void check_saved(const generate::Generator::Saved& saved) {
  std::int64_t tokens = 0;
  for (const at::Tensor& step : saved.text.steps) {
    require(step.dim() == 2 && step.size(0) == 1 && step.size(1) >= 1, "a step is [1, n]");
    require(!(step.lt(0) | step.ge(kVocabulary)).any().item<bool>(),
            "a token lies in the vocabulary");
    tokens += step.size(1);
  }
  require(tokens <= saved.text.tokens, "the open segment is a part of the text");
  require(!saved.pending || (*saved.pending >= 0 && *saved.pending < kVocabulary),
          "the pending token lies in the vocabulary");
  require(saved.segment >= 0, "a segment has tokens, or is not known");
}

bool are_equal(const generate::Generator::Saved& a, const generate::Generator::Saved& b) {
  if (a.pending != b.pending || a.seed != b.seed || a.segment != b.segment ||
      a.text.tokens != b.text.tokens || a.text.types != b.text.types ||
      a.text.state.metadata != b.text.state.metadata ||
      a.text.steps.size() != b.text.steps.size() ||
      a.text.state.tensors.size() != b.text.state.tensors.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.text.steps.size(); ++i) {
    if (!a.text.steps[i].equal(b.text.steps[i])) return false;
  }
  for (std::size_t i = 0; i < a.text.state.tensors.size(); ++i) {
    const auto& [name, tensor] = a.text.state.tensors[i];
    const auto& [other_name, other] = b.text.state.tensors[i];
    if (name != other_name || tensor.sizes() != other.sizes() || tensor.dtype() != other.dtype()) {
      return false;
    }
  }
  return true;
}

bool read_conversation(std::string_view input) {
  const std::filesystem::path path = empty_folder() / "talk.safetensors";
  return accepts([&] {
    write_tensor_lines(path, input);
    const auto saved = generate::read_conversation(path, kIdentity, kVocabulary);
    check_saved(saved);
    const std::filesystem::path again = path.parent_path() / "again.safetensors";
    generate::write_conversation(again, saved, kIdentity);
    require(are_equal(generate::read_conversation(again, kIdentity, kVocabulary), saved),
            "a conversation reads back");
  });
}

std::string some_conversation() {
  return "format=mneme-conversation\nrevision=1\nidentity.weights=0123\nstate={\"segments\":\"2\"}"
         "\n"
         "steps=[1]\nlanes=1\ntokens=9\ntypes=[3]\npending=5\nseed=18446744073709551615\n"
         "segment=8\n"
         "@state/0.org.example.one.0.rows=F32 1 2 2\n@state/flags=BOOL 3\n@open=I64 1 1\n";
}

std::vector<std::string> conversation_seeds() {
  // The bytes 0, 1, 2, ... are no token of this vocabulary, so the open segment of the first is
  // refused and the others have none.
  const std::string closed =
      "format=mneme-conversation\nrevision=1\nidentity.weights=0123\nstate={}\nsteps=[]\nlanes=1\n"
      "tokens=9\npending=-1\nseed=1\n";
  return {closed, closed + "types=[]\n@state/0.org.example.one.0.rows=F32 1 2 2\n@state/a=U8 3\n",
          closed + "@open=I64 1 0\n"};
}

std::vector<std::string> conversation_extremes() {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  return {
      some_conversation(),
      some_conversation() + "steps=" + deep + "\n",
      some_conversation() + "state={\"a\":" + deep + "}\n",
      some_conversation() + "types=" + deep + "\n",
      some_conversation() + "steps=[1e300]\n",
      some_conversation() + "pending=" + repeated("9", 100'000) + "\n",
      some_conversation() + "@open=I64 1 0 4611686018427387904 4611686018427387904\n",
      some_conversation() + "@state/b=F32 4611686018427387904 4611686018427387904 0\n",
      some_conversation() + "@state/b=U16 4\n",
  };
}

}  // namespace

Target conversation_target() {
  return {"conversation", read_conversation, conversation_seeds, conversation_extremes};
}

}  // namespace mneme::fuzz

// Decoders in GGUF files.
#include <cmath>

#include "host/base/text.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/weights/gguf/gguf_model.hpp"
#include "host/weights/pretrained/family/family_config.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"
#include "host/weights/pretrained/model_folder.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/weights/gguf/gguf_builder.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

void check_numbers(const weights::GgufModel& model) {
  for (const TensorView& view : model.tensors()) {
    const std::vector<float> numbers = model.numbers(view.name);
    require(numbers.size() * sizeof(float) == view.bytes &&
                numbers.size() == static_cast<std::size_t>(view.elements()),
            "a tensor has as many numbers as its shape says");
  }
}

bool read_gguf(std::string_view input) {
  const fs::path path = write_alone("m.gguf", input);
  return accepts([&] {
    const weights::ModelFolder folder = weights::ModelFolder::open(path);
    check_numbers(*folder.gguf());
    static_cast<void>(accepts([&] {
      data::TokenizerFiles files;
      for (const auto& [name, text] : folder.gguf()->texts()) {
        if (weights::is_tokenizer_file(name)) files.texts.emplace(name, text);
      }
      if (!files.texts.empty()) static_cast<void>(data::Tokenizer(std::move(files)).encode("ab 1"));
    }));
    static_cast<void>(accepts([&] {
      const weights::Family& family = weights::family_of(folder.config(), "m.gguf");
      static_cast<void>(weights::read_config(family, folder.config(), "m.gguf"));
      const auto names = weights::FolderNames::of(family, folder.names());
      const auto record = weights::FolderRecord::of(folder, names);
      const auto again = weights::FolderRecord::parse(record.text(), "again");
      require(again.text() == record.text(), "a record reads back");
      for (const weights::RecordedFile& file : record.files) {
        static_cast<void>(weights::tensors_of(file, "record"));
      }
    }));
  });
}

// One layer of width 2 with one head and 4 ids; one matrix has blocks.
test::GgufBuilder small_file(const std::string& architecture) {
  test::GgufBuilder file;
  file.text("general.architecture", architecture);
  for (const char* key : {"block_count", "attention.head_count", "attention.head_count_kv"}) {
    file.integer(str(architecture, '.', key), 1);
  }
  file.integer(architecture + ".embedding_length", 32);
  file.integer(architecture + ".feed_forward_length", 4);
  file.real(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  file.tensors = {{"token_embd.weight", 8, {4, 32}, std::string(136, '\1')},
                  {"blk.0.attn_q.weight", 2, {2, 32}, std::string(36, '\2')},
                  {"output_norm.weight", 0, {4}, std::string(16, '\0')}};
  return file;
}

std::vector<std::string> gguf_seeds() {
  test::GgufBuilder llama = small_file("llama");
  llama.text("llama.rope.scaling.type", "yarn");
  llama.real("llama.rope.scaling.factor", 2.0F);
  llama.text("tokenizer.ggml.model", "gpt2");
  llama.text("tokenizer.ggml.pre", "smollm");
  llama.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<e>"});
  llama.numbers<std::int32_t>("tokenizer.ggml.token_type", test::kGgufI32, {1, 1, 1, 3});
  llama.texts("tokenizer.ggml.merges", {"a b"});
  llama.integer("tokenizer.ggml.eos_token_id", 3);
  test::GgufBuilder qwen = small_file("qwen2");
  qwen.version = 2;
  qwen.text("tokenizer.ggml.model", "llama");
  qwen.texts("tokenizer.ggml.tokens", {"<unk>", "a", "b", "ab"});
  qwen.numbers<float>("tokenizer.ggml.scores", test::kGgufF32, {0.0F, -1.0F, -2.0F, -3.0F});
  qwen.integer("tokenizer.ggml.unknown_token_id", 0);
  test::GgufBuilder blocks = small_file("qwen3");
  for (const std::uint32_t id : {12U, 13U, 14U}) {
    const weights::BlockType& type = *weights::find_block_type(id);
    blocks.tensors.push_back({str("blk.", id), id, {256}, std::string(type.bytes, '\3')});
  }
  return {llama.bytes(), qwen.bytes(), blocks.bytes()};
}

std::vector<std::string> gguf_extremes() {
  test::GgufBuilder many = small_file("llama");
  for (int i = 0; i < 20'000; ++i) many.integer(str("key", i), 0);
  test::GgufBuilder wide = small_file("llama");
  wide.text("tokenizer.ggml.model", "llama");
  wide.texts("tokenizer.ggml.tokens", {repeated("a", 300'000), "a"});
  wide.numbers<float>("tokenizer.ggml.scores", test::kGgufF32, {0.0F, 0.0F});
  test::GgufBuilder text = small_file(repeated("x", 300'000));
  const std::string head = "GGUF" + test::raw(3U);
  return {many.bytes(), wide.bytes(), text.bytes(), head + std::string(16, '\xFF'),
          head + test::raw(std::uint64_t{1} << 60) + test::raw(std::uint64_t{0}) +
              test::raw(std::uint64_t{1} << 62)};
}

}  // namespace

Target gguf_target() { return {"gguf", read_gguf, gguf_seeds, gguf_extremes}; }

}  // namespace mneme::fuzz

// Model folders as GGUF files.
#pragma once

#include "tests/weights/folder_support.hpp"
#include "tests/weights/gguf/gguf_builder.hpp"

namespace mneme::test {

// The file that the format's own program makes of a model with one of the names of small_llama,
// small_qwen2 and small_qwen3, without a tokenizer; rows of queries and keys of a llama in its order.
GgufBuilder gguf_of(const SmallModel& model);

// Adds a byte-pair tokenizer with 10 ids: a, b, c, a blank, "ab", "Ġa", "Ġab", a digit and two marks.
void add_byte_tokenizer(GgufBuilder& file);

}  // namespace mneme::test

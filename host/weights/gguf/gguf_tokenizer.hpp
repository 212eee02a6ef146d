// The tokenizer of a GGUF file as the files of a Hugging Face model folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/weights/gguf/gguf_file.hpp"

namespace mneme::weights {

// tokenizer.json, tokenizer_config.json, generation_config.json with the ids that end a text, and
// chat_template.jinja, by name, where the file has what they hold. Read are byte-pair tokenizers over
// bytes ("gpt2") with the known ways of cutting a text into words, and those of sentencepiece
// ("llama"), whose merges are made of the scores. Error (kUsage) naming the key for any other
// tokenizer; Error (kRun) for lists that contradict each other. A key that names an id without a
// token is taken as absent, with a line in `notes`.
[[nodiscard]] std::map<std::string, std::string> gguf_tokenizer(const GgufFile& file,
                                                                std::vector<std::string>& notes);

}  // namespace mneme::weights

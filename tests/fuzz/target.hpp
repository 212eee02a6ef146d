// What the program reads from outside, as functions of one input: fuzz_main.cpp gives them to
// libFuzzer, replay/replay_test.cpp runs them over known inputs in the ordinary tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"

namespace mneme::fuzz {

// One kind of input and the reader of it.
struct Target {
  std::string_view name;  // of the program fuzz_<name> and of the folder cases/<name>
  // Reads an input as the program would. True when it was accepted; false when it was refused by an
  // Error with a proper message. Every other exception leaves it and is a finding, as are those of
  // require().
  bool (*read)(std::string_view input);
  // Inputs that are accepted.
  std::vector<std::string> (*seeds)();
  // Inputs that are too long for a file of cases: deep, wide or huge.
  std::vector<std::string> (*extremes)();
};

[[nodiscard]] Target conversation_target();
[[nodiscard]] Target dialogue_target();
[[nodiscard]] Target evaluation_target();
[[nodiscard]] Target experiment_target();
[[nodiscard]] Target gguf_target();
[[nodiscard]] Target model_folder_target();
[[nodiscard]] Target name_map_target();
[[nodiscard]] Target plugin_target();
[[nodiscard]] Target prepared_target();
[[nodiscard]] Target question_target();
[[nodiscard]] Target run_target();
[[nodiscard]] Target safetensors_target();
[[nodiscard]] Target serve_target();
[[nodiscard]] Target tokenizer_target();
[[nodiscard]] Target vocabulary_target();

// std::logic_error that names a property which must hold for every input.
void require(bool holds, std::string_view property);

// A message that can be shown: not empty, of bounded length, UTF-8, without control characters but
// line ends.
void check_message(std::string_view text);

// Whether `read` accepts its input; its Error is checked.
template <typename Read>
bool accepts(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    check_message(error.what());
    return false;
  }
}

[[nodiscard]] bool is_utf8(std::string_view text);

// `text` n times.
[[nodiscard]] std::string repeated(std::string_view text, std::size_t n);

}  // namespace mneme::fuzz

// Safetensors files with checksums as lines of text, which random changes keep whole more often.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace mneme::fuzz {

// Writes the file that `lines` describe, with the checksums of a checkpoint (run::add_checksums):
//
//   key=text            metadata; "\n" in the text is a line end, "\\" a backslash
//   @name=F32 2 3       a tensor of that dtype and shape, its bytes 0, 1, 2, ...
//
// Other lines, those that are no UTF-8, and tensors of more than 4 KiB are left out. What begins
// with "raw\n" is written as it is, without that line. Errors: as SafetensorsWriter.
void write_tensor_lines(const std::filesystem::path& path, std::string_view lines);

// A text as a value of such a line.
[[nodiscard]] std::string line_value(std::string_view text);

}  // namespace mneme::fuzz

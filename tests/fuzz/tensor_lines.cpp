#include "tests/fuzz/tensor_lines.hpp"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

constexpr std::string_view kRaw = "raw\n";
constexpr std::size_t kMostBytes = 4096;  // of a tensor

std::string text_of_value(std::string_view value) {
  std::string out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const bool is_escape = value[i] == '\\' && i + 1 < value.size();
    if (is_escape && (value[i + 1] == 'n' || value[i + 1] == '\\')) {
      out += value[++i] == 'n' ? '\n' : '\\';
    } else {
      out += value[i];
    }
  }
  return out;
}

// The tensor that a value describes; empty dtype name for none.
bool read_tensor(const std::string& value, TensorView& view) {
  std::istringstream in(value);
  std::string dtype;
  in >> dtype;
  if (!parse_dtype(dtype, view.dtype)) return false;
  for (std::int64_t extent = 0; in >> extent;) view.shape.push_back(extent);
  return safetensors::checked_bytes(view.shape, view.dtype, view.bytes) && view.bytes <= kMostBytes;
}

}  // namespace

void write_tensor_lines(const std::filesystem::path& path, std::string_view lines) {
  if (lines.starts_with(kRaw)) {
    std::ofstream(path, std::ios::binary) << lines.substr(kRaw.size());
    return;
  }
  static const std::vector<std::byte> data = [] {
    std::vector<std::byte> bytes(kMostBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    return bytes;
  }();
  std::map<std::string, std::string> metadata;
  std::map<std::string, TensorView> tensors;
  std::istringstream in{std::string(lines)};
  for (std::string line; std::getline(in, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || !is_utf8(line)) continue;
    const std::string key = line.substr(0, equals);
    if (!key.starts_with('@')) {
      metadata[key] = text_of_value(std::string_view(line).substr(equals + 1));
      continue;
    }
    TensorView view{.name = key.substr(1), .data = data.data()};
    if (read_tensor(line.substr(equals + 1), view)) tensors[view.name] = view;
  }
  SafetensorsWriter writer;
  std::vector<TensorView> views;
  for (const auto& [name, view] : tensors) {
    writer.add(name, view.dtype, view.shape, view.data);
    views.push_back(view);
  }
  run::add_checksums(metadata, views);
  for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
  writer.write(path);
}

std::string line_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\\') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

}  // namespace mneme::fuzz

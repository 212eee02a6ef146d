// Files of tensors.
#include <cstring>
#include <numeric>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

// A text that begins with '{' is a header without its length, and a line end before the data:
// changes of a header rarely keep the length in front of it right.
std::string file_of(std::string_view input) {
  if (!input.starts_with('{')) return std::string(input);
  const std::size_t end = std::min(input.find("\n"), input.size());
  const std::uint64_t length = end;
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  out += input.substr(0, end);
  return out += input.substr(std::min(end + 1, input.size()));
}

void check_tensors(const SafetensorsFile& file, std::size_t data_bytes) {
  std::size_t bytes = 0;
  unsigned sum = 0;
  for (const std::string& name : file.names()) {
    const TensorView& view = file.at(name);
    require(8 * view.bytes == static_cast<std::size_t>(view.elements()) * dtype_bits(view.dtype),
            "a tensor has as many bytes as its shape says");
    // Reads all of them, so that a view outside the file is seen.
    for (std::size_t i = 0; i < view.bytes; ++i) sum += std::to_integer<unsigned>(view.data[i]);
    bytes += view.bytes;
    static_cast<void>(file.at(name, view.dtype, view.shape));
  }
  require(bytes <= data_bytes && sum <= 255 * bytes, "the tensors lie in the file");
}

void check_rewritten(const SafetensorsFile& file) {
  SafetensorsWriter writer;
  for (const std::string& name : file.names()) {
    const TensorView& view = file.at(name);
    writer.add(name, view.dtype, view.shape, view.data);
  }
  for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
  const fs::path path = file.path().parent_path() / "again";
  writer.write(path);
  const SafetensorsFile again = SafetensorsFile::open(path);
  require(again.names() == file.names() && again.metadata() == file.metadata(),
          "a file reads back with its names and metadata");
  for (const std::string& name : file.names()) {
    const TensorView& a = file.at(name);
    const TensorView& b = again.at(name);
    require(a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes &&
                (a.bytes == 0 || std::memcmp(a.data, b.data, a.bytes) == 0),
            "a tensor reads back");
  }
}

bool read_safetensors(std::string_view input) {
  const std::string bytes = file_of(input);
  const fs::path path = write_alone("file", bytes);
  return accepts([&] {
    const SafetensorsFile file = SafetensorsFile::open(path);
    check_tensors(file, bytes.size());
    check_rewritten(file);
    static_cast<void>(accepts([&] { static_cast<void>(file.at("absent")); }));
    static_cast<void>(accepts([&] { static_cast<void>(file.metadata_at("absent")); }));
  });
}

std::vector<std::string> safetensors_seeds() {
  std::vector<std::string> out = {
      "{}\n",
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"
      "\n1234",
      R"({"a":{"dtype":"U8","shape":[2,0,3],"data_offsets":[0,0]},)"
      R"("b":{"dtype":"I16","shape":[],"data_offsets":[0,2]}})"
      "\n12",
      R"({"__metadata__":{"format":"pt"},"a.b":{"data_offsets":[0,8],"shape":[2,2],)"
      R"("dtype":"BF16"}})"
      "\n12345678"};
  std::vector<std::byte> data(96);
  SafetensorsWriter writer;
  for (const std::string& word : all_words<DType>()) {
    const DType dtype = *find_word<DType>(word);
    writer.add(str("tensor ", dtype_name(dtype)), dtype, {3, 4}, data.data());
  }
  writer.set_metadata("key", "text");
  const fs::path path = empty_folder() / "seed";
  writer.write(path);
  out.push_back(bytes_of(path));
  return out;
}

std::vector<std::string> safetensors_extremes() {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  std::string many = "{";
  for (int i = 0; i < 20'000; ++i) {
    many += str(i == 0 ? "" : ",", '"', i, R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  }
  return {
      str(R"({"a":{"dtype":)", deep, R"(,"shape":[],"data_offsets":[0,0]}})"),
      str(R"({"a":{"dtype":"F32","shape":[)", deep, R"(],"data_offsets":[0,0]}})"),
      str(R"({"__metadata__":{"a":)", deep, "}}"),
      str(R"({"a":)", deep, "}"),
      repeated(R"({"a":)", 200'000),
      str(R"({"a":{"dtype":")", repeated("x", 300'000), R"(","shape":[],"data_offsets":[0,0]}})"),
      str("{\"", repeated("\\u0001", 100'000), "\":1}"),
      str(R"({"a":{"dtype":"F32","shape":[)", repeated("1,", 100'000),
          R"(1],"data_offsets":[0,9]}})"),
      str("{", repeated(R"("a":1,)", 50'000), R"("a":1})"),
      many + "}",
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10),
      std::string("\x00\xe1\xf5\x05\x00\x00\x00\x00{}", 10),  // the largest header, absent
  };
}

}  // namespace

Target safetensors_target() {
  return {"safetensors", read_safetensors, safetensors_seeds, safetensors_extremes};
}

}  // namespace mneme::fuzz

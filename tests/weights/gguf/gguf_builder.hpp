// GGUF files, made by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme::test {

// Numbers of the format for kinds of values.
inline constexpr std::uint32_t kGgufU32 = 4, kGgufI32 = 5, kGgufF32 = 6, kGgufBool = 7,
                               kGgufText = 8, kGgufArray = 9;

template <typename T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline std::string raw_text(std::string_view text) {
  return raw(std::uint64_t{text.size()}) + std::string(text);
}

// Values and tensors in the order in which they were added; a key that was added again replaces the
// earlier one.
struct GgufBuilder {
  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::vector<std::int64_t> shape;  // row-major
    std::string bytes;
  };

  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  std::vector<std::pair<std::string, std::string>> values = {};  // kind and bytes by key
  std::vector<Tensor> tensors = {};

  void set(const std::string& key, std::uint32_t kind, const std::string& bytes) {
    remove(key);
    values.emplace_back(key, raw(kind) + bytes);
  }
  void remove(const std::string& key) {
    std::erase_if(values, [&](const auto& one) { return one.first == key; });
  }
  void text(const std::string& key, std::string_view value) {
    set(key, kGgufText, raw_text(value));
  }
  void integer(const std::string& key, std::uint32_t value) { set(key, kGgufU32, raw(value)); }
  void real(const std::string& key, float value) { set(key, kGgufF32, raw(value)); }
  void flag(const std::string& key, bool value) { set(key, kGgufBool, raw(value)); }
  void texts(const std::string& key, const std::vector<std::string>& list) {
    std::string bytes = raw(kGgufText) + raw(std::uint64_t{list.size()});
    for (const std::string& one : list) bytes += raw_text(one);
    set(key, kGgufArray, bytes);
  }
  template <typename T>
  void numbers(const std::string& key, std::uint32_t kind, const std::vector<T>& list) {
    std::string bytes = raw(kind) + raw(std::uint64_t{list.size()});
    for (const T& one : list) bytes += raw(one);
    set(key, kGgufArray, bytes);
  }

  // The bytes before those of tensors, without their padding.
  [[nodiscard]] std::string index() const {
    std::string out = "GGUF" + raw(version) + raw(std::uint64_t{tensors.size()}) +
                      raw(std::uint64_t{values.size()});
    for (const auto& [key, value] : values) out += raw_text(key) + value;
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
      out += raw_text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.shape.size()));
      for (std::size_t i = tensor.shape.size(); i-- > 0;) out += raw(tensor.shape[i]);
      out += raw(tensor.type) + raw(offset);
      offset = padded(offset + tensor.bytes.size());
    }
    return out;
  }
  [[nodiscard]] std::string bytes() const {
    std::string out = index();
    for (const Tensor& tensor : tensors) {
      out.resize(padded(out.size()), '\0');
      out += tensor.bytes;
    }
    return out;
  }

 private:
  [[nodiscard]] std::uint64_t padded(std::uint64_t size) const {
    return (size + alignment - 1) / alignment * alignment;
  }
};

}  // namespace mneme::test

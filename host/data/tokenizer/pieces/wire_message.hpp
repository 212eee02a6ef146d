// Messages in protobuf's wire format [Protocol Buffers, "Encoding"].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mneme::data {

// A message, field by field, in the order of the file. Borrows the bytes. Every error is an Error
// (kUsage) that names file, byte and field.
class WireMessage {
 public:
  // A whole file.
  WireMessage(std::string_view bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  // Steps to the next field; false behind the last one. Fields that are not asked for their value
  // are passed over.
  [[nodiscard]] bool next();
  // The field's number.
  [[nodiscard]] std::uint32_t number() const { return number_; }

  // The field's value; `name` is what messages call the field. Error where it is of another type.
  [[nodiscard]] std::uint64_t integer(const std::string& name) const;
  [[nodiscard]] bool flag(const std::string& name) const { return integer(name) != 0; }
  [[nodiscard]] float real(const std::string& name) const;
  [[nodiscard]] std::string_view text(const std::string& name) const;
  [[nodiscard]] WireMessage message(const std::string& name) const;

  // The field's value is not accepted.
  [[noreturn]] void refuse(const std::string& name, const std::string& expected,
                           const std::string& got) const;

 private:
  [[noreturn]] void fail(std::size_t place, const std::string& failed, const std::string& expected,
                         const std::string& got) const;
  void require_type(std::uint32_t type, const std::string& name) const;
  std::uint64_t read_varint();
  std::string_view read_bytes(std::uint64_t count);

  std::string_view bytes_;
  std::string file_;
  std::string name_ = {};  // of this message in the file, with a point at its end
  std::size_t start_ = 0;  // of this message in the file
  std::size_t place_ = 0;  // behind the field, in the message
  std::size_t at_ = 0;     // where the field begins
  std::uint32_t number_ = 0;
  std::uint32_t type_ = 0;
  std::uint64_t integer_ = 0;
  std::string_view value_ = {};
};

}  // namespace mneme::data

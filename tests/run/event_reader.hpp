// Reads TensorBoard's event files: framing, checksums and messages from their definitions, sharing
// no code with the writer.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::test {

struct Event {
  double wall_time = 0.0;
  std::int64_t step = 0;
  std::string file_version;
  std::int64_t session_status = 0;
  std::map<std::string, float> scalars;
};

inline std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78 : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

// A message of protobuf's wire format, field by field.
class Message {
 public:
  explicit Message(std::string_view bytes) : bytes_(bytes) {}

  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t key = varint();
    field = key >> 3;
    switch (key & 7) {
      case 0:
        integer = static_cast<std::int64_t>(varint());
        break;
      case 1:
        std::memcpy(&real, take(8).data(), 8);
        break;
      case 2:
        text = take(varint());
        break;
      case 5:
        std::memcpy(&single, take(4).data(), 4);
        break;
      default:
        throw std::runtime_error("a wire type that is none");
    }
    return true;
  }

  std::uint64_t field = 0;
  std::int64_t integer = 0;
  double real = 0.0;
  float single = 0.0F;
  std::string_view text;

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) throw std::runtime_error("a field that ends outside the message");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return value;
    }
  }

  std::string_view bytes_;
};

inline Event parse_event(std::string_view bytes) {
  Event event;
  for (Message message(bytes); message.next();) {
    if (message.field == 1) event.wall_time = message.real;
    if (message.field == 2) event.step = message.integer;
    if (message.field == 3) event.file_version = message.text;
    if (message.field == 7) {
      for (Message log(message.text); log.next();) {
        if (log.field == 1) event.session_status = log.integer;
      }
    }
    if (message.field != 5) continue;
    for (Message summary(message.text); summary.next();) {
      EXPECT_EQ(summary.field, 1U);
      std::string tag;
      for (Message value(summary.text); value.next();) {
        if (value.field == 1) tag = value.text;
        if (value.field == 2) event.scalars[tag] = value.single;
      }
    }
  }
  return event;
}

// Every record of a file; its checksums are expected to hold.
inline std::vector<Event> read_events(std::string_view file) {
  std::vector<Event> events;
  while (!file.empty()) {
    std::uint64_t length = 0;
    std::uint32_t crc = 0;
    if (file.size() < 12) throw std::runtime_error("a record without its head");
    std::memcpy(&length, file.data(), 8);
    std::memcpy(&crc, file.data() + 8, 4);
    EXPECT_EQ(crc, masked_crc(file.substr(0, 8)));
    if (file.size() < 16 + length) throw std::runtime_error("a record without its end");
    const std::string_view event = file.substr(12, length);
    std::memcpy(&crc, file.data() + 12 + length, 4);
    EXPECT_EQ(crc, masked_crc(event));
    events.push_back(parse_event(event));
    file.remove_prefix(16 + length);
  }
  return events;
}

}  // namespace mneme::test

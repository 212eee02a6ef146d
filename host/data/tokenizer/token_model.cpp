#include "host/data/tokenizer/token_model.hpp"

#include "host/base/text.hpp"

namespace mneme::data {

std::array<std::int32_t, 256> TokenModel::ids_of_bytes() const {
  std::array<std::int32_t, 256> out{};
  for (int byte = 0; byte < 256; ++byte) {
    out[static_cast<std::size_t>(byte)] = find(byte_token(byte)).value_or(-1);
  }
  return out;
}

std::string byte_token(int byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return str("<0x", kDigits[static_cast<std::size_t>(byte / 16)],
             kDigits[static_cast<std::size_t>(byte % 16)], ">");
}

}  // namespace mneme::data

#include "host/plugin/reported_call.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstring>

namespace mneme::plugin {

namespace {

// The text is kept in atomic words, which one thread may read while another writes them. The writer
// changes the serial number too; a reader that finds another serial number after reading than
// before has read parts of two texts and drops them (release and acquire order the words and the
// number). All of it is constant-initialised and never destroyed, so that it works during the whole
// life of the process.
constexpr std::size_t kWords = ReportedCall::kMaxText / sizeof(std::uint64_t);
constinit std::atomic<std::uint64_t> g_calls{0};
constinit std::atomic<std::uint64_t> g_serial{0};
constinit std::atomic<std::size_t> g_size{0};
constinit std::array<std::atomic<std::uint64_t>, kWords> g_words{};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "read in signal handlers");

std::size_t words_of(std::size_t size) {
  return (size + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
}

void publish(const ReportedCall::Text& text, std::uint64_t serial) noexcept {
  g_serial.store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < words_of(text.size); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.characters.data() + i * sizeof word, sizeof word);
    g_words[i].store(word, std::memory_order_release);
  }
  g_size.store(text.size, std::memory_order_release);
  g_serial.store(serial, std::memory_order_release);
}

void append(ReportedCall::Text& text, std::string_view more) noexcept {
  const std::size_t size = std::min(more.size(), text.characters.size() - text.size);
  std::memcpy(text.characters.data() + text.size, more.data(), size);
  text.size += size;
}

void append(ReportedCall::Text& text, std::int64_t number) noexcept {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  append(text, {digits.data(), static_cast<std::size_t>(end - digits.data())});
}

}  // namespace

ReportedCall::ReportedCall(std::string_view plugin, std::int64_t tier, std::string_view hook,
                           std::int64_t layer) noexcept {
  Text text;
  append(text, "plugin ");
  append(text, plugin);
  append(text, ", tier ");
  append(text, tier);
  append(text, ", hook ");
  append(text, hook);
  if (layer >= 0) {
    append(text, ", layer ");
    append(text, layer);
  }
  begin(text);
}

ReportedCall::ReportedCall(std::string_view where, std::string_view function) noexcept {
  Text text;
  append(text, where);
  append(text, ", ");
  append(text, function);
  begin(text);
}

void ReportedCall::begin(const Text& text) noexcept {
  outer_serial_ = serial();
  if (outer_serial_ != 0) outer_ = ReportedCall::text();
  publish(text, g_calls.fetch_add(1, std::memory_order_relaxed) + 1);
}

ReportedCall::~ReportedCall() { publish(outer_, outer_serial_); }

std::uint64_t ReportedCall::serial() noexcept { return g_serial.load(std::memory_order_acquire); }

ReportedCall::Text ReportedCall::text() noexcept {
  Text text;
  const std::uint64_t before = serial();
  if (before == 0) return text;
  const std::size_t size = std::min(g_size.load(std::memory_order_acquire), kMaxText);
  for (std::size_t i = 0; i < words_of(size); ++i) {
    const std::uint64_t word = g_words[i].load(std::memory_order_acquire);
    std::memcpy(text.characters.data() + i * sizeof word, &word, sizeof word);
  }
  if (g_serial.load(std::memory_order_relaxed) == before) text.size = size;
  return text;
}

}  // namespace mneme::plugin

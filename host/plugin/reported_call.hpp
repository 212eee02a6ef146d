// The call into a plugin that runs now, for reports of a crash, a hang or an exit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mneme::plugin {

// A call that messages name when it does not return, faults or ends the process. Lives while a
// plugin's function runs. Calls nest (a kernel inside a hook) and end in the reverse order; with
// calls on several threads the newest is reported. Constructing one takes less than a tenth of a
// microsecond.
class ReportedCall {
 public:
  static constexpr std::size_t kMaxText = 256;  // longer texts are cut

  // A hook; layer -1: it has none. Text as in errors: "plugin P, tier 0, hook read, layer 1".
  ReportedCall(std::string_view plugin, std::int64_t tier, std::string_view hook,
               std::int64_t layer) noexcept;
  // Another function: `function` of what `where` names.
  ReportedCall(std::string_view where, std::string_view function) noexcept;
  ~ReportedCall();
  ReportedCall(const ReportedCall&) = delete;
  ReportedCall& operator=(const ReportedCall&) = delete;

  // The running call's number, which no other call has; 0 = none runs. Any thread, any signal
  // handler.
  static std::uint64_t serial() noexcept;
  // Its text; "" = none runs, or the text is just being changed. Any thread, any signal handler.
  struct Text {
    std::array<char, kMaxText> characters{};
    std::size_t size = 0;
    [[nodiscard]] std::string_view view() const noexcept { return {characters.data(), size}; }
  };
  static Text text() noexcept;

 private:
  void begin(const Text& text) noexcept;

  std::uint64_t outer_serial_ = 0;
  Text outer_;
};

}  // namespace mneme::plugin

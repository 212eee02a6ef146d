#include "host/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iomanip>

namespace mneme {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before_previous(width);
  std::vector<std::size_t> previous(width);
  std::vector<std::size_t> current(width);
  for (std::size_t j = 0; j < width; ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  const std::size_t limit = std::clamp<std::size_t>(name.size() / 3, 1, 3);
  std::size_t best_distance = limit + 1;
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance && distance < name.size()) {
      best_distance = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : *best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string found = nearest(name, candidates);
  return found.empty() ? "" : str(" (did you mean \"", found, "\"?)");
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string quoted_list(const std::vector<std::string>& words, std::string_view separator) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back('"' + word + '"');
  return join(quoted, separator);
}

std::string list_text(const std::vector<std::int64_t>& values) {
  std::vector<std::string> parts;
  parts.reserve(values.size());
  for (const std::int64_t value : values) parts.push_back(std::to_string(value));
  return '[' + join(parts, ", ") + ']';
}

namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// Three significant digits for a value in [1, 1000), so columns of such numbers stay narrow.
std::string three_digits(double value) {
  if (value < 9.995) return fixed(value, 2);
  return fixed(value, value < 99.95 ? 1 : 0);
}

std::string two_places(long long value) { return (value < 10 ? "0" : "") + std::to_string(value); }

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return str(bytes, " B");
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fixed(value, 1) + ' ' + kUnits[unit];
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e15) return "--";
  if (seconds < 9.995) return fixed(seconds, 2) + 's';
  if (seconds < 59.95) return fixed(seconds, 1) + 's';
  const long long whole = std::llround(seconds);
  if (whole < 3600) return str(whole / 60, 'm', two_places(whole % 60), 's');
  if (whole < 86400) return str(whole / 3600, 'h', two_places(whole % 3600 / 60), 'm');
  return str(whole / 86400, 'd', two_places(whole % 86400 / 3600), 'h');
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fixed(value, digits);
}

std::string format_exact(double value) {
  if (!std::isfinite(value)) return format_number(value, 0);
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string format_count(double value) {
  static constexpr std::array<const char*, 4> kUnits = {"k", "M", "G", "T"};
  if (!std::isfinite(value)) return format_number(value, 0);
  if (std::fabs(value) < 999.5) return fixed(value, 0);
  std::size_t unit = 0;
  value /= 1000.0;
  while (std::fabs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return (value < 0 ? "-" : "") + three_digits(std::fabs(value)) + kUnits[unit];
}

}  // namespace mneme

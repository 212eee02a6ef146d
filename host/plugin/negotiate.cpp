#include "host/plugin/negotiate.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>

#include "host/base/error.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/plugin/reported_call.hpp"

namespace mneme::plugin {
namespace {

// Sizes of ABI 1.0: a plugin's struct may be larger (what lies beyond is ignored), never smaller.
constexpr std::uint32_t kPluginSizeV1 = 120;
constexpr std::uint32_t kAnswerSizeV1 = 544;
static_assert(offsetof(mneme_plugin, finish) + sizeof(void*) == kPluginSizeV1,
              "the fields of ABI 1.0 stay where they are");
static_assert(offsetof(mneme_plugin_answer, reason) + sizeof(mneme_plugin_answer::reason) ==
                  kAnswerSizeV1,
              "the fields of ABI 1.0 stay where they are");

constexpr std::uint32_t kMaxStructBytes = 64 * 1024;
constexpr std::size_t kMaxTextBytes = 4096;
constexpr const char* kReport = "report it to the plugin's author";

[[noreturn]] void misbehaves(const std::string& where, const std::string& failed,
                             const std::string& expected, const std::string& got) {
  throw_plugin(
      {.where = where, .failed = failed, .expected = expected, .got = got, .hint = kReport});
}

// Runs a call into the plugin; an exception that leaves it becomes an Error that names `function`.
template <typename Call>
mneme_status guarded(const std::string& where, const char* function, Call&& call) {
  const auto refuse = [&](const std::string& what) {
    misbehaves(where, str("a C++ exception left ", function), "a mneme_status", what);
  };
  const ReportedCall reported(where, function);
  try {
    return call();
  } catch (const std::exception& error) {
    refuse(error.what());
  } catch (...) {
    refuse("an exception of unknown type");
  }
  return MNEME_E_INTERNAL;
}

std::string status_word(mneme_status status) {
  static constexpr std::array<std::string_view, 14> kStatusWords = {
      "OK",   "INVALID_ARGUMENT", "UNSUPPORTED", "SHAPE",   "DTYPE", "DEVICE",    "OUT_OF_MEMORY",
      "CUDA", "NUMERIC",          "STATE",       "VERSION", "IO",    "CANCELLED", "INTERNAL"};
  if (status < 0 || static_cast<std::size_t>(status) >= kStatusWords.size()) {
    return str("unknown code ", status);
  }
  return str("MNEME_E_", kStatusWords[static_cast<std::size_t>(status)]);
}

void check_refusal(mneme_status status, const mneme_plugin_answer& answer, const mneme_note& note,
                   const std::string& where) {
  if (status == MNEME_OK && answer.plugin != nullptr) return;
  const bool has_range = answer.abi_min != 0 && answer.abi_target != 0;
  const std::uint32_t min = has_range ? answer.abi_min : note.abi_min;
  const std::uint32_t target = has_range ? answer.abi_target : note.abi_target;
  const std::string reason = fixed_text(answer.reason);
  throw_plugin({.where = where,
                .failed = status == MNEME_OK ? "accepted this host without a table of functions"
                                             : str("refused this host (", status_word(status), ")"),
                .expected = str("a plugin for ABI ", abi_range_text(kHostAbiMin, kHostAbiCurrent)),
                .got = str("one for ABI ", abi_range_text(min, target), ", which says \"",
                           reason.empty() ? "nothing" : reason, '"'),
                .hint = status == MNEME_OK ? kReport : "use a build of the plugin for this mneme"});
}

template <typename T>
void check_known(const T& from, const std::string& failed, const std::string& where) {
  if (const auto unknown = unknown_value(from)) {
    misbehaves(where, str(failed, ": its ", unknown->field), unknown->expected, unknown->got);
  }
}

void check_answer(const mneme_plugin_answer& answer, const mneme_note& note,
                  const std::string& where) {
  const std::string failed = "bad answer from " MNEME_ENTRY_SYMBOL;
  if (answer.struct_size < kAnswerSizeV1 || answer.struct_size > kMaxStructBytes) {
    misbehaves(where, failed, str("a struct_size of ", sizeof(answer)), str(answer.struct_size));
  }
  if (answer.reserved != 0) {
    misbehaves(where, failed, "0 in its reserved field", str(answer.reserved));
  }
  check_known(answer, failed, where);
  if (answer.abi_min != note.abi_min || answer.abi_target != note.abi_target) {
    misbehaves(where, failed,
               str("the note's ABI range ", abi_range_text(note.abi_min, note.abi_target)),
               abi_range_text(answer.abi_min, answer.abi_target));
  }
  const std::uint32_t effective = check_abi(answer.abi_min, answer.abi_target, where);
  if (answer.effective != effective) {
    misbehaves(where, failed, str("the effective ABI ", abi_text(effective)),
               abi_text(answer.effective));
  }
}

mneme_plugin read_table(const mneme_plugin* theirs, const std::string& where) {
  const std::string failed = "bad table of functions";
  const std::uint32_t size = theirs->struct_size;
  if (size < kPluginSizeV1 || size > kMaxStructBytes || size % 8 != 0) {
    misbehaves(where, failed,
               str("a struct_size of at least ", kPluginSizeV1, ", at most ", kMaxStructBytes,
                   ", a multiple of 8"),
               str(size));
  }
  mneme_plugin table{};
  std::memcpy(&table, theirs, std::min<std::size_t>(size, sizeof(table)));
  table.struct_size = sizeof(table);
  check_known(table, failed, where);
  return table;
}

void check_table_text(const char* text, const char* name, const std::string& expected,
                      const std::string& where) {
  const auto found = read_text(text, kMaxTextBytes);
  const std::string failed = str("bad table of functions: its ", name);
  const std::string wanted = expected.empty() ? "a text" : str("\"", expected, "\" as in its note");
  if (!found) {
    misbehaves(where, failed, wanted, no_text(text));
  }
  if (!expected.empty() && *found != expected)
    misbehaves(where, failed, wanted, '"' + *found + '"');
}

void check_table(const mneme_plugin& table, const mneme_note& note, const std::string& where) {
  check_table_text(table.id, "id", note.id, where);
  check_table_text(table.version, "version", note.version, where);
  if (table.summary != nullptr) check_table_text(table.summary, "summary", "", where);
  static_cast<void>(read_loss_names(table, where));
  std::vector<std::string> missing;
  if (table.create == nullptr) missing.emplace_back("create");
  if (table.destroy == nullptr) missing.emplace_back("destroy");
  if (!missing.empty()) {
    misbehaves(where, "bad table of functions", "create and destroy",
               "NULL for " + join(missing, " and "));
  }
  const bool has_hook = table.begin != nullptr || table.absorb != nullptr ||
                        table.context != nullptr || table.ride != nullptr ||
                        table.read != nullptr || table.finish != nullptr;
  if (!has_hook) {
    misbehaves(where, "bad table of functions",
               "at least one of begin, absorb, context, ride, read, finish", "NULL for all");
  }
}

}  // namespace

Negotiated negotiate(mneme_negotiate_fn entry, const mneme_note& note, const mneme_host& host,
                     const std::string& where) {
  auto offer = MNEME_INIT(mneme_host_offer);
  offer.abi_min = kHostAbiMin;
  offer.abi_current = kHostAbiCurrent;
  offer.host = &host;
  offer.get_group = host_group;
  offer.host_version = MNEME_SDK_VERSION;
  PluginFilled<mneme_plugin_answer> filled;
  mneme_plugin_answer& answer = filled.value;
  const mneme_status status =
      guarded(where, MNEME_ENTRY_SYMBOL, [&] { return entry(&offer, &answer); });
  check_refusal(status, answer, note, where);
  check_answer(answer, note, where);
  Negotiated result{.table = read_table(answer.plugin, where), .options = {}};
  check_table(result.table, note, where);
  result.options = read_options(result.table, where);
  result.table.options = result.options.empty() ? nullptr : result.options.data();
  result.table.option_stride = sizeof(mneme_option);
  static_cast<void>(option_specs(result.table, where));
  return result;
}

void initialise(const mneme_plugin& table, const mneme_host& host, const std::string& where) {
  if (table.init == nullptr) return;
  PluginFilled<mneme_error> filled;
  mneme_error& error = filled.value;
  const mneme_status status =
      guarded(where, "init", [&] { return table.init(&host, &host_group, &error); });
  if (status == MNEME_OK) return;
  const std::string message = fixed_text(error.message);
  const std::string file = fixed_text(error.file);
  std::string text = str("init failed (", status_word(status));
  if (error.native_code != 0) text += str(", native code ", error.native_code);
  if (!file.empty()) text += error.line > 0 ? str(", at ", file, ':', error.line) : ", in " + file;
  throw_plugin(
      {.where = where,
       .failed = text + "): " + (message.empty() ? "the plugin gave no reason" : message)});
}

}  // namespace mneme::plugin

// Checks of the entry point and of init: what a plugin answers to hosts of other versions, and to
// hosts that lack a group.

#include <dlfcn.h>

#include <chrono>
#include <cstring>

#include "host/base/error.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/negotiate.hpp"
#include "host/plugin/reported_call.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

// The file mapped, with nothing asked of it yet.
struct Mapped {
  plugin::PluginFile file;
  mneme_negotiate_fn entry = nullptr;
  mneme_host host;
  double seconds = 0.0;  // that mapping it took
};

std::unique_ptr<Mapped> map(const Subject& subject) {
  auto mapped = std::make_unique<Mapped>(
      Mapped{.file = plugin::open_plugin(subject.file, subject.file.string()), .host = {}});
  plugin::check_loadable(mapped->file, subject.file.string());
  mapped->host = plugin::host_of(mapped->file.note, interposed_group);
  const auto start = std::chrono::steady_clock::now();
  void* const library = ::dlopen(mapped->file.copy->load_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  mapped->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (library == nullptr) throw Failed(str("the dynamic loader refused it: ", ::dlerror()));
  mapped->entry = reinterpret_cast<mneme_negotiate_fn>(::dlsym(library, MNEME_ENTRY_SYMBOL));
  return mapped;
}

// An answer with room for a newer plugin's fields.
struct Answer {
  union {
    mneme_plugin_answer value;
    unsigned char room[sizeof(mneme_plugin_answer) + 512];
  };
  mneme_status status = MNEME_OK;
  Answer() : room{} { value.struct_size = sizeof(mneme_plugin_answer); }
};

Answer ask(const Mapped& mapped, std::uint32_t abi_min, std::uint32_t abi_current) {
  auto offer = MNEME_INIT(mneme_host_offer);
  offer.abi_min = abi_min;
  offer.abi_current = abi_current;
  offer.host = &mapped.host;
  offer.get_group = plugin::host_group;
  offer.host_version = MNEME_SDK_VERSION;
  Answer answer;
  const plugin::ReportedCall reported(mapped.file.path, MNEME_ENTRY_SYMBOL);
  answer.status = mapped.entry(&offer, &answer.value);
  return answer;
}

void expect_refusal(const Answer& answer, const std::string& host) {
  if (answer.status == MNEME_OK) throw Failed("it accepts a host of " + host);
  if (answer.status != MNEME_E_VERSION)
    throw Failed(str("it refuses a host of ", host, " with code ", answer.status,
                     " in place of MNEME_E_VERSION"));
  if (answer.value.plugin != nullptr)
    throw Failed("it refuses a host and gives a table all the same");
  if (std::memchr(answer.value.reason, '\0', sizeof answer.value.reason) == nullptr)
    throw Failed("the reason of a refusal has no end");
  if (answer.value.reason[0] == '\0')
    throw Failed(str("it refuses a host of ", host, " without a reason"));
}

Outcome older_host(const Subject& subject) {
  const auto mapped = map(subject);
  const mneme_note& note = mapped->file.note;
  if (note.abi_min == 0) throw Skipped("it speaks every older version");
  expect_refusal(ask(*mapped, 0, note.abi_min - 1), "ABI " + plugin::abi_text(note.abi_min - 1));
  expect_refusal(ask(*mapped, 0, 0), "ABI 0.0");
  return {};
}

Outcome newer_host(const Subject& subject) {
  const auto mapped = map(subject);
  const mneme_note& note = mapped->file.note;
  // A host that still speaks the plugin's version.
  const Answer answer = ask(*mapped, note.abi_min, note.abi_target + 3);
  if (answer.status != MNEME_OK)
    throw Failed(
        "it refuses a newer host that still speaks its version: nobody is refused for being "
        "newer");
  if (answer.value.effective != note.abi_target) {
    throw Failed(str("with a newer host it answers the effective ABI ",
                     plugin::abi_text(answer.value.effective), " in place of its own, ",
                     plugin::abi_text(note.abi_target)));
  }
  // And one that does not.
  expect_refusal(ask(*mapped, note.abi_target + 1, note.abi_target + 3),
                 "ABI " + plugin::abi_range_text(note.abi_target + 1, note.abi_target + 3));
  return {};
}

Outcome garbage_offers(const Subject& subject) {
  const auto mapped = map(subject);
  for (const auto& [least, current] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0xffffffffU, 0xffffffffU}, {0xffffffffU, 0}, {0x7fff0000U, 0xffff0000U}}) {
    expect_refusal(ask(*mapped, least, current), "the versions of a damaged offer");
  }
  return {};
}

Outcome answers_repeat(const Subject& subject) {
  const auto mapped = map(subject);
  const mneme_note& note = mapped->file.note;
  const Answer first = ask(*mapped, note.abi_min, note.abi_target);
  if (first.status != MNEME_OK)
    throw Failed(str("it refuses its own version: ", first.value.reason));
  for (int round = 0; round < 100; ++round) {
    const Answer again = ask(*mapped, note.abi_min, note.abi_target);
    if (again.status != first.status || again.value.plugin != first.value.plugin ||
        again.value.effective != first.value.effective) {
      throw Failed("it answers the same offer differently the next time");
    }
  }
  return {};
}

// Mapping and asking a plugin starts nothing: a scan of a folder does it with every file.
Outcome is_quiet(const Subject& subject) {
  const std::size_t threads = entries_of("/proc/self/task");
  const std::size_t descriptors = entries_of("/proc/self/fd");
  const auto mapped = map(subject);  // whose sealed copy is one descriptor
  static_cast<void>(ask(*mapped, mapped->file.note.abi_min, mapped->file.note.abi_target));
  std::vector<std::string> problems;
  if (entries_of("/proc/self/task") != threads) problems.emplace_back("starts threads");
  if (entries_of("/proc/self/fd") > descriptors + 1) problems.emplace_back("opens files");
  if (!problems.empty())
    throw Failed("loading it " + join(problems, " and ") + ": leave that to `create` or a hook");
  if (mapped->seconds > 0.1)
    return {Grade::kWarn, str("mapping it takes ", short_text(mapped->seconds), " s")};
  return {};
}

}  // namespace

std::vector<Check> negotiation_checks() {
  return {
      {"negotiation.repeat", "Does it answer an offer the same way each time?", answers_repeat,
       "file.load"},
      {"negotiation.older", "Does it refuse older hosts, with a reason?", older_host, "file.load"},
      {"negotiation.newer", "Does it work with newer hosts that speak its version?", newer_host,
       "negotiation.older"},
      {"negotiation.garbage", "Does it refuse offers that make no sense?", garbage_offers,
       "negotiation.older", "negotiation.newer"},
      {"negotiation.quiet", "Is it mapped and asked without threads and files?", is_quiet,
       "file.load"},
  };
}

}  // namespace mneme::validate

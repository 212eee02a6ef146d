// Checks of what happens when the host fails, and of what is left behind.

#include <malloc.h>

#include <algorithm>
#include <limits>

#include "host/base/error.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

constexpr std::int64_t kMostCalls = 400;  // that are made to fail, evenly chosen

// Numbers below `count`, at most kMostCalls.
std::vector<std::int64_t> chosen(std::int64_t count) {
  std::vector<std::int64_t> out;
  const std::int64_t step = std::max<std::int64_t>(1, (count + kMostCalls - 1) / kMostCalls);
  for (std::int64_t i = 0; i < count; i += step) out.push_back(i);
  return out;
}

void expect_passed_on(const std::string& message, const std::string& where) {
  const std::string& function = interposer().failed;
  if (message.empty()) {
    throw Failed(str(where, ": it goes on after ", function,
                     " has failed: return the status of every call that is not MNEME_OK"));
  }
  if (message.find(kMadeError) == std::string::npos) {
    throw Failed(str(where, ": after an error of ", function,
                     " it gives a text of its own in place of the host's: ", message));
  }
}

// Each call of the host in `create` fails in turn.
Outcome errors_in_create(const Subject& subject) {
  const Setting setting = small_setting(subject);
  interposer().count();
  static_cast<void>(open(subject, setting));
  const std::int64_t calls = interposer().calls;
  for (const std::int64_t failing : chosen(calls)) {
    interposer().count(failing);
    std::string message;
    try {
      static_cast<void>(open(subject, setting));
    } catch (const Error& error) {
      message = error.what();
    }
    expect_passed_on(message, str("create, call ", failing));
  }
  return {Grade::kPass, str(calls, " calls")};
}

// Each call of the host in a segment fails in turn; the state stays, and the segment can be read
// again.
Outcome errors_in_hooks(const Subject& subject) {
  const auto session = open(subject);
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  std::int64_t calls = 0;
  for (const Phase phase : kPhases) {
    StackState before = session->fresh(kLanes, phase);
    for (std::int64_t s = 0; s < kSegments - 1; ++s) {
      static_cast<void>(session->nll(before, segment_of(ids, length, s)));
      before.cut_graph();
    }
    const at::Tensor segment = segment_of(ids, length, kSegments - 1);
    StackState undisturbed = before.clone();
    interposer().count();
    const at::Tensor expected = session->nll(undisturbed, segment).detach();
    const std::int64_t count = interposer().calls;
    calls += count;
    for (const std::int64_t failing : chosen(count)) {
      StackState state = before.clone();
      interposer().count(failing);
      std::string message;
      try {
        static_cast<void>(session->nll(state, segment));
      } catch (const Error& error) {
        message = error.what();
      }
      const std::string function = interposer().failed;
      expect_passed_on(message, str("a hook, call ", failing));
      interposer().count();
      expect_equal(
          session->nll(state, segment).detach(), expected,
          str("after an error of ", function, " in a hook, the same segment has other losses,"),
          ": the instance remembers what the host has undone");
    }
  }
  return {Grade::kPass, str(calls, " calls")};
}

// The host refuses to load a plugin whose note needs a group that is not there; without those that
// the note calls optional the plugin is to run.
Outcome missing_groups(const Subject& subject) {
  const plugin::PluginFile file = plugin::open_plugin(subject.file, subject.file.string());
  std::vector<std::string> optional;
  for (const plugin::NoteFeature& feature : plugin::note_features(file.note)) {
    if (feature.is_optional) optional.push_back(feature.id);
  }
  if (optional.empty()) throw Skipped("its note calls no group optional");
  interposer().hidden_groups = optional;
  const auto session = open(subject);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  for (const Phase phase : kPhases) {
    StackState state = session->fresh(kLanes, phase);
    static_cast<void>(losses_of(*session, state, ids));
  }
  return {Grade::kPass, "without " + join(optional, ", ")};
}

// --- What is left behind ---

struct Holding {
  std::int64_t bytes = 0;  // allocated by malloc
  std::size_t descriptors = 0, threads = 0;
};

Holding holding() {
  const struct mallinfo2 heap = ::mallinfo2();
  return {.bytes = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd),
          .descriptors = entries_of("/proc/self/fd"),
          .threads = entries_of("/proc/self/task")};
}

// `work`, again and again, in blocks: memory may waver, but not grow with each of them.
template <typename F>
Outcome expect_flat(std::int64_t rounds, F work) {
  constexpr int kBlocks = 12;
  constexpr int kLeastBlocks = 3;
  constexpr std::int64_t kLeastBytes = 8;  // a round
  const std::int64_t size = rounds / kLeastBlocks;
  const auto block = [&] {
    for (std::int64_t i = 0; i < size; ++i) work();
    return holding();
  };
  const Holding before = block();  // fills caches
  Holding last = before;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kBlocks && (i < kLeastBlocks || least > kLeastBytes * size); ++i) {
    const Holding now = block();
    least = std::min(least, now.bytes - last.bytes);
    last = now;
  }
  std::vector<std::string> grown;
  if (least > kLeastBytes * size) grown.push_back(str(least / size, " bytes a round"));
  if (last.descriptors > before.descriptors)
    grown.push_back(str(last.descriptors - before.descriptors, " files"));
  if (last.threads > before.threads)
    grown.push_back(str(last.threads - before.threads, " threads"));
  if (grown.empty()) return {Grade::kPass, str("at least ", rounds, " rounds")};
  return {Grade::kFail, str("more is held with every round: ", join(grown, ", "))};
}

Outcome leaks_of_instances(const Subject& subject) {
  const Setting setting = small_setting(subject);
  plugin::PluginLoader loader(interposed_group, plugin::PluginReads::kOnce);
  const config::MemoryConfig memory = memory_of(subject, setting);
  memory::BackboneInfo info = backbone::backbone_info(setting.model, setting.setup);
  info.draws_parameters = false;
  return expect_flat(1000, [&] { const memory::Stack stack(memory, info, loader); });
}

Outcome leaks_of_segments(const Subject& subject) {
  const auto session = open(subject);
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  StackState training = session->fresh(kLanes);
  StackState evaluation = session->fresh(kLanes, Phase::kEvaluation);
  std::int64_t s = 0;
  return expect_flat(300, [&] {
    // Memories with much room would still be filling theirs.
    if (s % 32 == 0) {
      training = session->fresh(kLanes);
      evaluation = session->fresh(kLanes, Phase::kEvaluation);
    }
    const at::Tensor segment = segment_of(ids, length, s++ % kSegments);
    session->loss(training, segment).backward();
    const at::NoGradGuard no_grad;
    static_cast<void>(session->nll(evaluation, segment));
  });
}

// Calls of the host a segment and layer: where hooks are small, these are what a memory costs.
Outcome calls_are_few(const Subject& subject) {
  constexpr std::int64_t kMany = 400;
  const auto session = open(subject);
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  StackState state = session->fresh(kLanes, Phase::kEvaluation);
  for (std::int64_t s = 0; s < kSegments; ++s) {
    interposer().count();
    const at::NoGradGuard no_grad;
    static_cast<void>(session->nll(state, segment_of(ids, length, s)));
  }
  const std::int64_t calls = interposer().calls / 2;  // layers
  const std::string text = str(calls, " calls of the host a segment and layer");
  if (calls <= kMany) return {Grade::kPass, text};
  return {Grade::kWarn, text +
                            ": at several microseconds each they outweigh small models; a kernel "
                            "does in one call what many ops do"};
}

}  // namespace

std::vector<Check> failure_checks() {
  return {
      {"errors.create", "Does create pass every error on?", errors_in_create},
      {"errors.hooks", "Do hooks pass every error on, and leave everything as it was?",
       errors_in_hooks, "runs.by_turns"},
      {"errors.groups", "Does it run where the host lacks what it can do without?", missing_groups},
      {"leaks.instances", "Are 1,000 instances made and freed without a trace?",
       leaks_of_instances},
      {"leaks.segments", "Are hundreds of segments read without a trace?", leaks_of_segments},
      {"speed.calls", "Are the calls of a segment few?", calls_are_few},
  };
}

}  // namespace mneme::validate

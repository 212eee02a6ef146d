#include "host/tensor/dispatch/recorder.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

constexpr int kMostUnlike = 3;    // traces of a key that differ from the one before
constexpr int kMostRefused = 8;   // keys
constexpr int kMostNewKeys = 64;  // in a row

// An operation on all parameters has a long text.
std::string in_a_line(const std::string& reason) {
  constexpr std::size_t kShown = 600;
  const std::string line = reason.substr(0, reason.find('\n'));
  return line.size() > kShown ? line.substr(0, kShown) + "..." : line;
}

bool are_the_same(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (at::equal(a, b)) return true;
  return a.is_floating_point() && at::equal(a.isnan(), b.isnan()) &&
         at::equal(a.nan_to_num(), b.nan_to_num());
}

// How a replayed tensor differs from that of the code, for people; "" = it does not.
std::string difference_text(const at::Tensor& code, const at::Tensor& replay) {
  if (are_the_same(code, replay)) return "";
  if (!code.defined() || !replay.defined() || code.sizes() != replay.sizes()) return " differs";
  const at::Tensor most = (code.to(at::kDouble) - replay.to(at::kDouble)).abs().max();
  return " differs by " + format_number(most.item<double>(), 3);
}

// The first result in which a replay differs from the code; "" = none.
std::string difference_of(const RecordedResults& code, const RecordedResults& replay,
                          const RecordedWork& work) {
  for (std::size_t i = 0; i < code.tensors.size(); ++i) {
    const std::string text = difference_text(code.tensors[i], replay.tensors[i]);
    if (!text.empty()) return work.name_of(i) + text;
  }
  return "";
}

// The tensors that work writes to where they lie, with their values before it.
class ChangedTensors {
 public:
  explicit ChangedTensors(const RecordedWork& work) {
    if (work.changed) tensors_ = work.changed();
    before_ = values();
  }

  [[nodiscard]] std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> out;
    for (const auto& [name, t] : tensors_) out.push_back(t.detach().clone());
    return out;
  }
  void put_back() const {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < before_.size(); ++i)
      at::Tensor(tensors_[i].second).copy_(before_[i]);
  }
  // The first whose values now are others than those of a replay; "" = none.
  [[nodiscard]] std::string difference_from(const std::vector<at::Tensor>& replay) const {
    for (std::size_t i = 0; i < replay.size(); ++i) {
      const std::string text = difference_text(tensors_[i].second.detach(), replay[i]);
      if (!text.empty()) return tensors_[i].first + text;
    }
    return "";
  }

 private:
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
  std::vector<at::Tensor> before_;
};

}  // namespace

Recorder::Recorder(RecorderNames names, std::int64_t check_every, c10::Device device)
    : names_(std::move(names)), check_every_(check_every) {
  std::string reason;
  graphs_ = new_graph_device(device, reason);
  if (!reason.empty()) say_one_by_one(reason);
}

std::size_t Recorder::recordings() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& entry) { return entry.second.is_checked; }));
}

void Recorder::forget() {
  std::erase_if(entries_, [](const auto& entry) { return !entry.second.is_refused; });
}

RecordedResults Recorder::run(const RecordedWork& work) {
  if (is_off_) {
    entries_.clear();
    return work.run();
  }
  const auto [at, is_new] = entries_.try_emplace(work.key);
  Entry& entry = at->second;
  entry.used = ++done_;
  new_keys_ = is_new ? new_keys_ + 1 : 0;
  if (new_keys_ > kMostNewKeys) {
    log_info(names_.key, ": nothing is recorded: ", kMostNewKeys, ' ', names_.work,
             "s in a row had shapes or counts of their own");
    is_off_ = true;
    return run(work);
  }
  if (entry.is_refused) return work.run();
  if (is_new) make_room();
  if (!entry.is_recorded) return record(entry, work);
  const bool is_new_graph = entry.graph && !entry.is_launched;
  const std::int64_t round = check_every_ > 0 ? done_ / check_every_ : 0;
  if (!entry.is_checked || is_new_graph || round > entry.round) {
    entry.round = round;
    return check(entry, work);
  }
  ++replays_;
  if (entry.graph) ++launches_;
  return replay(entry, work);
}

RecordedResults Recorder::traced(const RecordedWork& work, std::optional<Trace>& trace,
                                 std::string& reason) const {
  Trace written;
  for (const at::Tensor& t : work.inputs) written.add_input(t);
  RecordedResults results;
  {
    const TraceScope scope(written);
    results = work.run();
  }
  try {
    for (const at::Tensor& t : results.tensors) written.add_output(t);
  } catch (const Error& error) {
    reason = error.what();
    return results;
  }
  if (const std::string read = written.reads_values(); !read.empty()) {
    reason = "what it does depends on values: " + read;
    return results;
  }
  trace = std::move(written);
  return results;
}

RecordedResults Recorder::record(Entry& entry, const RecordedWork& work) {
  std::optional<Trace> trace;
  std::string reason;
  RecordedResults results = traced(work, trace, reason);
  if (!trace) {
    refuse(entry, reason);
    return results;
  }
  if (entry.trace) {
    reason = Trace::difference(*entry.trace, *trace);
    entry.is_recorded = reason.empty();
    if (!reason.empty() && ++entry.unlike == kMostUnlike) {
      refuse(entry, reason);
      return results;
    }
  }
  entry.trace = std::move(trace);
  entry.outline = results.outline;
  entry.position = work.position;
  if (entry.is_recorded) make_room();
  return results;
}

RecordedResults Recorder::check(Entry& entry, const RecordedWork& work) {
  const ChangedTensors changed(work);
  try {
    const RecordedResults again = replay(entry, work);
    const std::vector<at::Tensor> values = changed.values();
    const bool is_launch = entry.graph != nullptr;
    // Before anything is put back, for a device of tests runs what it captures.
    if (!entry.is_checked) capture(entry, work);
    changed.put_back();
    std::optional<Trace> trace;
    std::string reason;
    RecordedResults results = traced(work, trace, reason);
    if (trace) reason = Trace::difference(*entry.trace, *trace);
    std::string numbers = difference_of(results, again, work);
    if (numbers.empty()) numbers = changed.difference_from(values);
    if (reason.empty() && numbers.empty()) {
      entry.is_launched = is_launch;
      entry.is_checked = true;
    } else {
      // After other operations with the same numbers the next ones need not be the same.
      if (!numbers.empty()) reason = numbers + (reason.empty() ? "" : "; " + reason);
      leave(entry, work, reason, is_launch, !numbers.empty());
    }
    return results;
  } catch (...) {
    changed.put_back();
    throw;
  }
}

void Recorder::leave(Entry& entry, const RecordedWork& work, const std::string& reason,
                     bool is_launch, bool are_numbers_others) {
  if (is_launch && !entry.is_launched && are_numbers_others) {
    entry.graph.reset();
    leave_one_by_one(work.key,
                     "the first launch of a graph gave other numbers than the code: " + reason);
    return;
  }
  const bool was_used = entry.is_checked;
  refuse(entry, reason);
  if (!was_used || !are_numbers_others) return;
  throw_run(
      {.where = names_.key,
       .failed = "operations that were recorded do not give what the code gives",
       .expected = "the same bits, as at the first replay",
       .got = reason,
       .hint = names_.remedy + ", and run \"mneme plugins validate\" on the memory's plugins"});
}

RecordedResults Recorder::replay(const Entry& entry, const RecordedWork& work) const {
  const std::int64_t ahead = work.position - entry.position;
  return {entry.graph ? entry.graph->launch(work.inputs, ahead)
                      : entry.trace->replay(work.inputs, ahead),
          entry.outline, true};
}

void Recorder::capture(Entry& entry, const RecordedWork& work) {
  if (!graphs_ || one_by_one_.contains(work.key)) return;
  TraceParts parts = divide(entry.trace->writer(), graphs_->type());
  if (!parts.refusal.empty()) return leave_one_by_one(work.key, parts.refusal);
  try {
    entry.graph = std::make_unique<TraceGraph>(*entry.trace, std::move(parts), *graphs_,
                                               work.inputs, work.position - entry.position);
  } catch (const c10::Error& error) {
    leave_one_by_one(work.key, error.what_without_backtrace());
  } catch (const std::exception& error) {
    leave_one_by_one(work.key, error.what());
  }
}

void Recorder::leave_one_by_one(const std::string& key, std::string reason) {
  one_by_one_.insert(key);
  reason = in_a_line(reason);
  // None is left where the capture of another key has ended all.
  if (graphs_ && !graphs_->can_capture()) {
    graphs_.reset();
    reason += "; no other graph is made";
  }
  say_one_by_one(reason);
}

void Recorder::say_one_by_one(const std::string& reason) {
  if (!said_.insert(reason).second) return;
  log_info(names_.key, ": the operations of a ", names_.work,
           " are run again one by one, without a graph of the device: ", reason);
}

void Recorder::refuse(Entry& entry, const std::string& reason) {
  const std::int64_t used = entry.used;
  entry = Entry();
  entry.is_refused = true;
  entry.used = used;
  log_info(names_.key, ": a ", names_.work, " is not recorded: ", in_a_line(reason));
  if (++refused_ < kMostRefused) return;
  log_info(names_.key, ": nothing is recorded any more, after ", kMostRefused, " such ",
           names_.work, 's');
  is_off_ = true;
}

void Recorder::make_room() {
  // Written down once, or recorded: kMost of each.
  for (const bool is_recorded : {false, true}) {
    auto oldest = entries_.end();
    std::size_t count = 0;
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      const Entry& entry = at->second;
      if (entry.is_refused || entry.is_recorded != is_recorded) continue;
      ++count;
      if (oldest == entries_.end() || entry.used < oldest->second.used) oldest = at;
    }
    if (count > kMost) entries_.erase(oldest);
  }
}

}  // namespace mneme::tensor

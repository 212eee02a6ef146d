// Work that is done again and again, such as a window of a training: it is run twice with its
// operations written down (Trace), and where both have done the same, these operations are
// run from then on, without the code that gave them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/tensor/dispatch/graph_device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/dispatch/trace_graph.hpp"

namespace mneme::tensor {

struct RecordedResults {
  std::vector<at::Tensor> tensors;  // undefined ones count too
  // What results are besides their tensors: equal for equal keys.
  std::shared_ptr<const void> outline;
  bool is_replayed = false;  // the code has not run
};

// One piece of it.
struct RecordedWork {
  // All that the work depends on but the values of its inputs, those of tensors that stay where they
  // are, such as parameters, and `position`.
  std::string key;
  std::vector<at::Tensor> inputs;
  std::int64_t position = 0;  // of its random numbers (TracedWork, "ahead")
  std::function<RecordedResults()> run;
  std::function<std::string(std::size_t)> name_of;  // of a result's tensor, for messages
  // What the work writes to where it lies, by names for messages; null = nothing. The code has it as
  // it was before a replay that was made beside it.
  std::function<std::vector<std::pair<std::string, at::Tensor>>()> changed = nullptr;
};

// What messages call it.
struct RecorderNames {
  std::string key;     // of the configuration, that asks for a recorder: "train.replay"
  std::string work;    // one piece: "window"
  std::string remedy;  // what to do where a recording gave wrong numbers
};

// One thread at a time, and one recorder that writes down in a process.
//
// The first replay of a key is made beside the code, and so is the first one after each
// `check_every` pieces of work (0 = none), whatever the order in which keys come. Results that
// differ in a bit are a line in the log and the end of the recording at the first, when no replayed
// result has been used yet. Later they are an error, behind which everything that the work writes to
// (RecordedWork::changed) is as it was before the work.
//
// Where the device has graphs (new_graph_device) a recording becomes one after its first replay, and
// the graph's first launch is made beside the code too. A key whose recording is no graph, because of
// an operation or for want of memory, is run again call by call from then on, which the log says.
class Recorder {
 public:
  static constexpr std::size_t kMost = 8;  // recordings; the one not used for longest goes first

  Recorder(RecorderNames names, std::int64_t check_every, c10::Device device = c10::kCPU);

  // Errors: those of work.run; Error(kRun) for a replay whose results differ.
  RecordedResults run(const RecordedWork& work);
  // Drops recordings, whose work reads other tensors from now on. What is refused stays so.
  void forget();
  // Of recordings that have been compared with the code once.
  [[nodiscard]] std::size_t recordings() const;
  [[nodiscard]] std::int64_t replays() const { return replays_; }
  // Those of them that were launches of a graph.
  [[nodiscard]] std::int64_t launches() const { return launches_; }

 private:
  struct Entry {
    std::optional<Trace> trace;
    std::shared_ptr<const void> outline;
    std::int64_t position = 0;  // of the trace
    int unlike = 0;             // traces that differed from the one before
    bool is_recorded = false;   // two traces are the same
    bool is_checked = false;
    std::int64_t round = 0;  // of check_every_ pieces of work, in which it was checked last
    std::unique_ptr<TraceGraph> graph;
    bool is_launched = false;  // the graph, beside the code
    bool is_refused = false;
    std::int64_t used = 0;
  };

  // Runs the code and writes its operations down; nothing where they cannot be run again.
  RecordedResults traced(const RecordedWork& work, std::optional<Trace>& trace,
                         std::string& reason) const;
  RecordedResults record(Entry& entry, const RecordedWork& work);
  RecordedResults check(Entry& entry, const RecordedWork& work);
  // Where the replay, a launch or not, was another than the code: Error(kRun) where it counted before.
  void leave(Entry& entry, const RecordedWork& work, const std::string& reason, bool is_launch,
             bool are_numbers_others);
  [[nodiscard]] RecordedResults replay(const Entry& entry, const RecordedWork& work) const;
  // Makes the recording a graph, or says why it is none.
  void capture(Entry& entry, const RecordedWork& work);
  void refuse(Entry& entry, const std::string& reason);
  // Forgets what has not been used for longest.
  void make_room();

  // Work of this key is no graph from now on; a line in the log for each reason.
  void leave_one_by_one(const std::string& key, std::string reason);
  void say_one_by_one(const std::string& reason);

  RecorderNames names_;
  std::int64_t check_every_;
  std::map<std::string, Entry> entries_;
  std::unique_ptr<GraphDevice> graphs_;
  std::set<std::string> one_by_one_;  // keys
  std::set<std::string> said_;        // reasons
  std::int64_t done_ = 0, replays_ = 0, launches_ = 0;
  int refused_ = 0;   // keys
  int new_keys_ = 0;  // since a key was seen a second time
  bool is_off_ = false;
};

}  // namespace mneme::tensor

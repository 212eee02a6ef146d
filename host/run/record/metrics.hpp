// The record of a run's numbers: metrics.jsonl and TensorBoard's event files.

// metrics.jsonl: one JSON object a line, "kind": "step" | "eval" | "curve", each with its "step".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/write_file.hpp"
#include "host/run/record/curve.hpp"
#include "host/run/record/observer.hpp"

namespace mneme::run {

// Cuts the file back to what a run had written when it had done `step` steps, had evaluated for the
// last time after `evaluated` and its learning curve after `curve` steps; a resumed run writes the
// later lines again. A last line without its end, as a killed process leaves it, is dropped; an
// absent file is made. Returns the lines that stay. Error (kRun) naming the line for any other line
// that is no JSON object with a step: somebody else changed it.
std::int64_t cut_metrics(const std::filesystem::path& path, std::int64_t step,
                         std::int64_t evaluated, std::int64_t curve);
// Error (kRun) as cut_metrics; changes nothing.
void check_metrics(const std::filesystem::path& path);

// --- Event files as TensorBoard reads them ---
//
// Written without protobuf: LibTorch exports symbols of its own copy of that library, and a second
// one in the process would clash.
//
// A file is a sequence of records [tensorflow/core/lib/io/record_writer]:
//   u64 length, u32 masked CRC-32C of the length, `length` bytes, u32 masked CRC-32C of the bytes,
// little-endian, masked(c) = rotate_right(c, 15) + 0xa282ead8. A record holds one Event message
// [tensorflow/core/util/event.proto] in protobuf's wire format; the fields written here:
//   Event      1 wall_time (double, s), 2 step (int64), 3 file_version (string),
//              5 summary (Summary), 7 session_log (SessionLog)
//   Summary    1 value (Value, repeated);  Value 1 tag (string), 2 simple_value (float)
//   SessionLog 1 status (enum, START = 1)

struct Scalar {
  std::string tag;     // "train/loss"
  double value = 0.0;  // stored as a float
};

// One event file, open for appending. One thread at a time.
class EventFile {
 public:
  // Makes a new file events.out.tfevents.<seconds>.<host>.<pid> in `folder`, which is made too; its
  // name sorts behind those of the files that are there. With `first_step` > 0 the file tells
  // TensorBoard that a process begins again at that step: events of earlier files from there on are
  // no longer shown. Errors, those of add() too: Error (kRun) as AppendFile.
  [[nodiscard]] static EventFile create(const std::filesystem::path& folder,
                                        std::int64_t first_step);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  // Appends one event with all scalars.
  void add(std::int64_t step, const std::vector<Scalar>& scalars);

 private:
  explicit EventFile(AppendFile file) : file_(std::move(file)) {}
  void append_record(const std::string& event);

  AppendFile file_;
};

// --- Reports of a run as TensorBoard's scalars ---

// train/loss, train/grad_norm, train/lr, train/tokens_per_second (since the report of `tokens` and
// `seconds`; absent when no time has passed), train/mfu, loss/<tier>.<name>,
// memory/<tier>.<name>.
[[nodiscard]] std::vector<Scalar> scalars_of(const StepReport& report, std::int64_t tokens,
                                             double seconds);
// <split>/loss, perplexity, accuracy, bits_per_character, state_bytes, tokens_per_second, and the
// tiers' <split>/loss/<tier>.<name>, <split>/memory/<tier>.<name>; those that are known.
[[nodiscard]] std::vector<Scalar> scalars_of(const EvalReport& report);
// valid/curve_loss.
[[nodiscard]] std::vector<Scalar> scalars_of(const CurveReport& report);

// The event files of a run, in one folder: a new one for every process that has something to add.
class TensorBoard {
 public:
  // Of a run that has done `step` steps on `tokens` targets in `seconds`.
  TensorBoard(std::filesystem::path folder, std::int64_t step, std::int64_t tokens, double seconds)
      : folder_(std::move(folder)), step_(step), tokens_(tokens), seconds_(seconds) {}

  // Errors as EventFile.
  void add(const StepReport& report);
  void add(const EvalReport& report);
  void add(const CurveReport& report);

 private:
  EventFile& file();

  std::filesystem::path folder_;
  std::optional<EventFile> file_;  // made with the first report
  std::int64_t step_;
  std::int64_t tokens_;
  double seconds_;
};

// --- The machine's name ---

// "unknown" when the system does not tell it.
[[nodiscard]] std::string host_name();

}  // namespace mneme::run

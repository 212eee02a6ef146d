// Event files as TensorBoard reads them, without protobuf: LibTorch exports symbols of its own copy
// of that library, and a second one in the process would clash.
//
// A file is a sequence of records [tensorflow/core/lib/io/record_writer]:
//   u64 length, u32 masked CRC-32C of the length, `length` bytes, u32 masked CRC-32C of the bytes,
// little-endian, masked(c) = rotate_right(c, 15) + 0xa282ead8. A record holds one Event message
// [tensorflow/core/util/event.proto] in protobuf's wire format; the fields written here:
//   Event      1 wall_time (double, s), 2 step (int64), 3 file_version (string),
//              5 summary (Summary), 7 session_log (SessionLog)
//   Summary    1 value (Value, repeated);  Value 1 tag (string), 2 simple_value (float)
//   SessionLog 1 status (enum, START = 1)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/base/file/append_file.hpp"

namespace mneme::run {

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
  // no longer shown. Errors: Error (kRun) as AppendFile; so does add().
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

}  // namespace mneme::run

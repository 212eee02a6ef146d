// The pipe through which a program that this one starts prints.
#pragma once

#include <string>

#include "host/base/file/file.hpp"

namespace mneme {

// A pipe whose writing end a child gets as its stdout or stderr. Both ends are closed with the
// object, and in other programs that are started meanwhile.
class OutputPipe {
 public:
  // Error (kRun) naming the program when the system has no pipe left.
  explicit OutputPipe(const std::string& program);

  [[nodiscard]] int reader() const { return reader_.get(); }  // -1 = closed
  [[nodiscard]] int writer() const { return writer_.get(); }
  // To be called once the child has it: the reader's end comes when nobody can write any more.
  void close_writer() { writer_ = {}; }
  // Appends what is there, without waiting. Closes the reader at its end.
  void drain(std::string& text);

 private:
  Descriptor reader_;
  Descriptor writer_;
};

}  // namespace mneme

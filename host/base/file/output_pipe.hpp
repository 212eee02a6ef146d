// The pipe through which a program that this one starts prints.
#pragma once

#include <string>

namespace mneme {

// A pipe whose writing end a child gets as its stdout or stderr. Both ends are closed with the
// object, and in other programs that are started meanwhile.
class OutputPipe {
 public:
  // Error (kRun) naming the program when the system has no pipe left.
  explicit OutputPipe(const std::string& program);
  ~OutputPipe();
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  [[nodiscard]] int reader() const { return reader_; }  // -1 = closed
  [[nodiscard]] int writer() const { return writer_; }
  // To be called once the child has it: the reader's end comes when nobody can write any more.
  void close_writer();
  // Appends what is there, without waiting. Closes the reader at its end.
  void drain(std::string& text);

 private:
  int reader_ = -1;
  int writer_ = -1;
};

}  // namespace mneme

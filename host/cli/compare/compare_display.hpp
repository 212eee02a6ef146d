// What `mneme compare` shows while its processes run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/cli/streams.hpp"
#include "host/compare/runs.hpp"

namespace mneme::cli {

// One progress line for all processes: what each does, steps of all trainings, time left; a line
// for each run that ends, with its loss on the first split, and what the processes printed.
class CompareDisplay final : public compare::Observer {
 public:
  CompareDisplay(const Streams& streams, bool is_quiet, const compare::Record& record);

  void on_progress(const std::vector<compare::Activity>& active, const compare::EndedRuns& ended,
                   std::int64_t steps, std::int64_t total_steps) override;
  void on_message(const std::string& run, const std::string& line) override;
  void on_end(const compare::RunRecord& run, const compare::EndedRuns& ended) override;
  int stop_signal() override;
  void end();

 private:
  void note(const std::string& line);

  const Streams& streams_;
  bool is_quiet_;
  std::string split_;  // the first
  std::int64_t runs_ = 0;
  std::unique_ptr<Progress> progress_;
};

}  // namespace mneme::cli

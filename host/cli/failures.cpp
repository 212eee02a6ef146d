#include "host/cli/failures.hpp"

#include <nlohmann/json.hpp>

namespace mneme::cli {

void Failures::add(const std::string& name, const Error& error) {
  all_.push_back({name, error});
  if (all_.size() == memories_) throw error.with_context(name);
  streams_.err << "mneme: error: " << name << ": " << error.what() << '\n' << std::flush;
}

int Failures::exit_code() const { return all_.empty() ? 0 : all_.front().error.exit_code(); }

Json Failures::json() const {
  Json list = Json::array();
  for (const Failure& one : all_) {
    list.push_back(
        {{"name", one.name}, {"message", one.error.what()}, {"exit_code", one.error.exit_code()}});
  }
  return list;
}

}  // namespace mneme::cli

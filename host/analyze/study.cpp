#include "host/analyze/study.hpp"

namespace mneme::analyze {

MemoryStudy::MemoryStudy(const StudyOptions& options)
    : attention_(options.bins),
      space_(options.stretch),
      words_(options.first_write, options.updates) {}

const std::set<std::string, std::less<>>& MemoryStudy::wanted_probes() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all = Trace::wanted_probes();
    all.insert(AlphaByPlace::wanted_probes().begin(), AlphaByPlace::wanted_probes().end());
    all.insert(MassByRegion::wanted_probes().begin(), MassByRegion::wanted_probes().end());
    return all;
  }();
  return names;
}

void MemoryStudy::compare_with(const TargetLosses& other, std::size_t count, double threshold) {
  better_.emplace(other, count, threshold);
}

void MemoryStudy::add(const data::Segment& segment, const std::vector<double>& nll,
                      const std::map<std::string, at::Tensor>& probes) {
  losses_.add(segment, nll);
  if (better_) better_->begin(segment, nll);
  alpha_.add(probes);
  regions_.add(probes);
  trace_.follow(segment, probes, [&](const LayerView& view) {
    has_signal_ = true;
    attention_.add(view);
    tokens_.add(view);
    space_.add(view);
    words_.add(view);
    if (better_) better_->add(view);
  });
}

}  // namespace mneme::analyze

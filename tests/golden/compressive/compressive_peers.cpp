// Files of the two peers: every segment starts from the memories that the file holds, and the tier
// takes in the rows that the file's next memories end with.
#include <map>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/compressive/compressive_peer_case.hpp"

namespace mneme::golden {
namespace {

using memory::Phase;

class PeerRun {
 public:
  PeerRun(const PeerCase& peer, at::ScalarType dtype, Comparison& to, LeftOut& left_out)
      : peer_(peer),
        dtype_(dtype),
        to_(to),
        left_out_(left_out),
        driver_(peer.memory(), peer.backbone(dtype), plugin_loader(), Phase::kTraining,
                peer.lanes) {
    for (std::size_t l = 0; l < peer.layers.size(); ++l) {
      const PeerCase::Layer& layer = peer.layers[l];
      const auto cast = [&](const at::Tensor& t) { return t.defined() ? t.to(dtype) : t; };
      const memory::PlainLayer::Weights& w = layer.attention;
      layers_.emplace_back(
          memory::PlainLayer::Weights{
              cast(w.query), cast(w.key), cast(w.value), {}, cast(w.norm), cast(w.norm_bias)},
          peer.heads);
      for (const char* name : {"weight", "bias"}) {
        if (!has_parameters()) continue;
        const torch::NoGradGuard no_grad;
        file_layout(name, tier_parameter(driver_.stack(), static_cast<int64_t>(l), name))
            .copy_(read(str("param.", layer.convolution, ".", name)));
      }
    }
    driver_.stack().weights_changed();
  }

  void run() {
    for (int64_t s = 0; s < peer_.segments; ++s) segment(s);
  }

 private:
  bool has_parameters() const { return peer_.function == "conv" || peer_.function == "dilated"; }
  int64_t layers() const { return static_cast<int64_t>(layers_.size()); }
  at::Tensor read(const std::string& name) const {
    return weights::read_tensor(peer_.file, name, at::kDouble);
  }

  // The state that holds the file's memories before segment s.
  void restore(int64_t s) {
    memory::NamedState saved = driver_.stack().new_state(Phase::kTraining, peer_.lanes).save();
    std::string lanes;
    for (int64_t b = 0; b < peer_.lanes; ++b) lanes += b == 0 ? "0" : ",0";
    saved.metadata["reset"] = lanes;
    for (int64_t l = 0; l < layers(); ++l) {
      const std::string layer = str("0.", driver_.stack().identities().at(0).id, ".", l, ".");
      const auto put = [&](const char* what, const char* queue) {
        const at::Tensor rows = peer_.before(what, s, l);
        if (rows.size(1) > 0)
          saved.tensors.emplace_back(str(layer, queue, ".0.hidden"), rows.to(dtype_));
      };
      put("mem", "memory");
      put("cmem", "compressed");
    }
    driver_.state() = driver_.stack().restore(Phase::kTraining, peer_.lanes, saved);
  }

  void segment(int64_t s) {
    restore(s);
    std::map<std::string, at::Tensor> probes;
    memory::SegmentInput input;
    input.length = peer_.segment;
    input.wanted_probes = {"memory.evicted"};
    input.probes = &probes;
    driver_.begin(input);
    for (int64_t l = 0; l < layers(); ++l) absorb(s, l);
    const at::Tensor loss = driver_.hooks().total_loss();
    const int64_t evicted = peer_.leaving(peer_.before("mem", s, 0).size(1) + peer_.segment);
    const std::string rows_differ = peer_.rows_differ(evicted);
    const std::string prefix = str("seg", s, ".");
    compare_evicted(prefix, evicted, probes);
    const bool has_loss = rows_differ.empty() && (evicted == 0 || peer_.loss_differs().empty());
    if (has_loss) compare_loss(prefix, s + 1 == peer_.segments, loss);
    driver_.commit();
    compare_queue(s, "mem", "memory");
    if (rows_differ.empty()) compare_queue(s, "cmem", "compressed");
    if (!rows_differ.empty()) left_out_.insert(rows_differ);
    if (evicted > 0 && !peer_.loss_differs().empty()) left_out_.insert(peer_.loss_differs());
  }

  void absorb(int64_t s, int64_t l) {
    memory::PlainLayer& layer = layers_[static_cast<std::size_t>(l)];
    memory::Rows rows;
    rows.count = peer_.segment;
    rows.hidden = peer_.fed(s, l).to(dtype_);
    memory::LocalAttention local;
    local.q = layer.project(memory::Projector::kQuery, layer.norm(rows.hidden, false), false);
    driver_.hooks().absorb_rows(0, l, rows, rows.hidden, local, layer);
  }

  void compare_evicted(const std::string& prefix, int64_t evicted,
                       std::map<std::string, at::Tensor>& probes) {
    for (int64_t l = 0; l < layers(); ++l) {
      const at::Tensor ours =
          probes[str("0.", driver_.stack().identities().at(0).id, ".", l, ".memory.evicted")];
      if ((ours.defined() ? ours.size(1) : 0) != evicted)
        throw_run(prefix, "layer ", l, ": expected ", evicted, " evicted rows");
      const std::string theirs = prefix + "compressed_rows";
      if (!peer_.file.contains(theirs)) continue;
      to_.check(str(theirs, ", layer ", l), ours, read(theirs)[l].transpose(0, 1));
    }
  }

  void compare_queue(int64_t s, const std::string& theirs, const std::string& queue) {
    for (int64_t l = 0; l < layers(); ++l) {
      const at::Tensor expected = peer_.rows(theirs, s, l);
      const at::Tensor ours = queue_rows(driver_.state(), l, queue);
      const std::string name = str("seg", s, ".", theirs, ", layer ", l);
      if (expected.size(1) > 0) {
        to_.check(name, ours, expected);
      } else if (ours.defined()) {
        throw_run(name, ": expected no rows, got ", ours.size(1));
      }
    }
  }

  void compare_loss(const std::string& prefix, bool is_last, const at::Tensor& loss) {
    const at::Tensor ours = loss.defined() ? peer_.loss_share * loss : loss;
    to_.check(prefix + "aux_loss", ours.defined() ? ours.view({1}) : ours,
              read_loss(peer_.file, prefix + "aux_loss"));
    if (!is_last || !has_parameters() || !ours.defined()) return;
    ours.backward();
    for (int64_t l = 0; l < layers(); ++l) {
      for (const char* name : {"weight", "bias"}) {
        const std::string theirs =
            str("grad_aux.", peer_.layers[static_cast<std::size_t>(l)].convolution, ".", name);
        to_.check(theirs, file_layout(name, tier_parameter(driver_.stack(), l, name).grad()),
                  read(theirs));
      }
    }
  }

  const PeerCase& peer_;
  at::ScalarType dtype_;
  Comparison& to_;
  LeftOut& left_out_;
  memory::HookDriver driver_;
  std::vector<memory::PlainLayer> layers_;
};

}  // namespace

void compare_peer(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
                  LeftOut& left_out) {
  const std::string function = file.metadata_at("compression");
  if (function == "most_used") {
    left_out.insert(
        "all: skipped by setting compression = most_used: the peer's attention is not in the file");
    return;
  }
  if (const std::string line = left_out_of_dilated(file); function == "dilated" && !line.empty()) {
    left_out.insert(line);
    return;
  }
  const PeerCase peer = PeerCase::of(file);
  PeerRun(peer, dtype, to, left_out).run();
}

}  // namespace mneme::golden

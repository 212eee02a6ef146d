// The Compressive Transformer's memory as a tier [Rae et al. 2019, algorithms 1 and 2].
#pragma once

#include "kernels/pool.hpp"
#include "kernels/reconstruction.hpp"
#include "lanes.hpp"
#include "mneme/cpp/tier.hpp"
#include "settings.hpp"

namespace compressive {

// Two memories a served layer: the newest `rows` layer inputs, and `compressed_rows` rows, each
// made of `rate` older ones when those were evicted. Tokens attend to [compressed; memory;
// themselves] by place. Both are detached, so the task loss trains the compression function only
// with `bptt`. An auxiliary loss trains it otherwise and has no gradient to any other parameter.
//
// What is compressed after a segment is first read in the next one.
class Compressive : public mneme::Tier {
 public:
  static constexpr const char* kId = "org.mneme.compressive";
  static constexpr const char* kLosses = "compression";
  static constexpr const char* kSummary =
      "the Compressive Transformer's memory: old rows are compressed, not dropped (Rae et al. "
      "2019)";
  static constexpr auto kOptions = Settings::kOptions;

  explicit Compressive(mneme::Setup& s);
  void absorb(mneme::Layer& l, const mneme::Rows& fed) override;
  void context(mneme::Layer& l) override;

 private:
  // Rows that leave the memory: of lane b the first counts[b] of `rows`, oldest first.
  struct Evicted {
    mneme::Tensor rows;  // [B,E,D], detached unless they never were in a queue
    Counts counts;
    mneme::Tensor usage;  // [B,E] attention mass; empty when not wanted
    mneme::Tensor k, v;   // [B,E,H,d] as the host projected them in this segment; empty = unknown
    int64_t count() const { return rows ? rows.dim(1) : 0; }
  };
  // Compressed rows: of lane b the first counts[b].
  struct Made {
    mneme::Tensor rows;  // [B,N,D], in the graph of the function's parameters
    Counts counts;
    int64_t count() const { return rows ? rows.dim(1) : 0; }
  };

  void declare(mneme::Setup& s);
  void announce(int64_t segment) const;

  // memory.cpp: appending and evicting rows.
  bool counts_padding(const mneme::Layer& l) const;
  Evicted exchange(mneme::Layer& l, const mneme::Rows& fed) const;
  Evicted pass_through(mneme::Layer& l, const mneme::Rows& fed) const;
  Evicted evict_evenly(mneme::Layer& l, int64_t count, int64_t old) const;
  Evicted evict_by_lane(mneme::Layer& l, const Counts& sizes, const mneme::Rows& fed,
                        const mneme::Tensor& usage) const;
  mneme::Tensor masses(mneme::Layer& l, const mneme::Rows& fed, int64_t old) const;
  void keep(mneme::Layer& l, const Made& made) const;
  void keep_by_lane(mneme::Layer& l, const Made& made, const Counts& held) const;
  void wait(mneme::Layer& l, const Evicted& evicted) const;
  void release(mneme::Layer& l, const mneme::Rows& rows) const;
  void release(mneme::Layer& l, const Evicted& evicted) const;
  template <typename Source>
  void release(mneme::Layer& l, const mneme::Tensor& all, const Counts& counts,
               const Source& source) const;
  void release_dropped(mneme::Layer& l, const Arrangement& to, const mneme::Tensor& all) const;
  mneme::Tensor with_compressed(mneme::Layer& l, const mneme::Tensor& made) const;
  mneme::Rows as_rows(const mneme::Tensor& rows, mneme::Tensor valid = {}) const;
  // Borrows the counts of `to`.
  mneme::Rows as_rows(const Arrangement& to, const mneme::Tensor& all) const;

  // context.cpp: the context blocks.
  Counts memory_counts(const mneme::Layer& l) const;
  mneme::Rows compress_pending(mneme::Layer& l) const;
  mneme::Tensor bias(const mneme::Layer& l, const Counts& nearer, int64_t rows) const;

  // compress.cpp
  Made compress(mneme::Layer& l, const Evicted& evicted) const;
  Evicted padded(const Evicted& evicted) const;
  mneme::Tensor convolved(mneme::Layer& l, const mneme::Tensor& rows) const;
  mneme::Tensor most_used(mneme::Layer& l, const Evicted& evicted, const Made& made,
                          int64_t count) const;

  // losses.cpp
  bool computes_loss(const mneme::Layer& l) const;
  void report_loss(mneme::Layer& l, const Evicted& evicted, const Made& made) const;
  mneme::Tensor attention_error(mneme::Layer& l, const Evicted& evicted, const Made& made) const;
  mneme::Tensor autoencoding_error(mneme::Layer& l, const Evicted& evicted, const Made& made) const;
  mneme::Tensor attention_calls(const mneme::Layer& l) const;
  void report_mass(mneme::Layer& l) const;

  Settings settings_;
  int64_t heads_;
  int64_t head_width_;
  double layer_share_;  // 1 / served layers: the host sums metrics over layers, shares are means
  Reconstruction reconstruction_;
  Pool pool_;
  mneme::KernelId reconstruction_id_, pool_id_;
  mneme::Parameter weight_, bias_, decoder_weight_, decoder_bias_;
  mneme::Queue memory_, compressed_;
  mneme::Queue pending_;  // bptt: evicted rows that the next segment compresses
};

}  // namespace compressive

// The look-ahead memory as the paper writes it, in whole matrices [LaMemo, eq. 5 to 11]: two
// attentions and their interpolation, position scores of all M x M distances. No virtual key.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {

struct ByHandSettings {
  int64_t rows = 1;
  bool is_official = false;
  double epsilon = 0.0;
  bool interpolates = true;
  bool is_full = false;
  bool is_signed = false;
  bool has_content_bias = false;
  bool detaches_riders = false;  // stop-gradient on memory in every layer, as eq. 5 prints it

  // The tier's options, one `key = value` a line.
  static ByHandSettings parse(const std::string& options, int64_t rows);
};

// Layers above the embedding, with the weights and the state of one run. Lanes without padding.
class ByHand {
 public:
  // `session` owns the weights and outlives this.
  ByHand(const MemorySession& session, const ModelConfig& config, const ByHandSettings& settings);

  // One segment: layer 0's input [B,T,D] -> the top [B,T,D]. Updates the state.
  at::Tensor forward(const at::Tensor& embedded);

  at::Tensor context(int64_t layer) const { return context_[static_cast<std::size_t>(layer)]; }
  at::Tensor lse(int64_t layer) const { return lse_[static_cast<std::size_t>(layer)]; }
  // The last segment's [B,M,H]; undefined without memory rows.
  at::Tensor alpha(int64_t layer) const { return alpha_[static_cast<std::size_t>(layer)]; }

 private:
  struct Heads {
    at::Tensor q, k, v;  // [B,H,M+T,d]: riders, then tokens
  };
  struct Attended {
    at::Tensor context, lse;  // [B,M,H,d], [B,M,H]
  };

  at::Tensor weight(const std::string& name) const { return session_.parameter(name); }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const;
  at::Tensor feed(const std::string& layer, const at::Tensor& x) const;
  Heads project(const std::string& layer, const at::Tensor& x) const;
  // Scores [B,H,rows,M+T] of queries at places first ..; distances are those of sign or without.
  at::Tensor scores(const std::string& layer, const Heads& heads, int64_t first, int64_t count,
                    const at::Tensor& content_bias, const at::Tensor& position_bias,
                    bool is_signed) const;
  Attended attend_tokens(const std::string& layer, const Heads& heads, int64_t riders) const;
  Attended look_ahead(const std::string& layer, const Heads& heads, int64_t riders) const;
  Attended refresh(int64_t layer, const Heads& heads, int64_t riders);
  at::Tensor layer(int64_t index, const at::Tensor& h, int64_t riders);
  void keep(const at::Tensor& embedded);

  const MemorySession& session_;
  ModelConfig config_;
  ByHandSettings settings_;
  int64_t previous_ = 0;
  at::Tensor embedded_;                            // [B,M,D]
  std::vector<at::Tensor> context_, lse_, alpha_;  // a layer each
  std::vector<Attended> fresh_;                    // of this segment's rows, riders and tokens
};

}  // namespace lamemo_test

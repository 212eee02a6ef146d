// The host's side of a call of a hook: mneme_ctx, with the table of tensor handles, which live
// during the call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "host/memory/call/boundary.hpp"
#include "host/memory/call/handle_table.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/interface/finite_watch.hpp"
#include "host/memory/interface/rows.hpp"
#include "host/memory/interface/segment_input.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier/tier.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

enum class Hook { kBegin, kAbsorb, kContext, kRide, kRead, kFinish };
const char* hook_text(Hook hook);

// Weighted sums of what hooks report under one name, per layer.
struct Accumulated {
  // Sum of weight*value, sum of weight.
  std::map<std::int64_t, std::pair<at::Tensor, at::Tensor>> by_layer;
  double weight = 1.0;
};

// Data that all hooks of one segment share.
struct SegmentShared {
  const Stack* stack = nullptr;
  std::int64_t lanes = 0;
  std::int64_t length = 0;
  bool caches_projections = false;
  const std::vector<std::uint64_t>* streams = nullptr;
  const SegmentInput* input = nullptr;
  mneme_segment segment{};
  at::Tensor valid;                                      // [B,T] bool; undefined = all
  RowMask valid_on_cpu;                                  // the same; empty = all
  at::Tensor reset_mask;                                 // [B] bool; undefined = none
  std::map<std::int64_t, Projection> token_projections;  // by layer, [B,T,H,d]
  // Documents of rows that became one block, with those of the blocks before.
  std::vector<std::pair<std::vector<at::Tensor>, at::Tensor>> joined_documents;
  std::map<std::string, Accumulated> losses, metrics;
};

}  // namespace mneme::memory

// One per segment; what follows "The current call" holds for one hook call. Plugins get
// CallHandle::ctx() in place of its address.
struct mneme_ctx {
  mneme::memory::SegmentShared* shared = nullptr;
  mneme::memory::HandleTable handles;
  std::list<std::vector<std::int64_t>> count_arrays;  // storage of mneme_rows.counts
  // Masks of rows that hooks were given, so that those of the rows that they give back are known.
  std::vector<std::pair<at::Tensor, mneme::memory::RowMask>> known_masks;
  // Likewise the documents of rows (Rows::document), by their tensor.
  std::vector<std::pair<at::Tensor, at::Tensor>> known_documents;

  // The current call.
  const mneme::memory::Tier* tier = nullptr;
  const mneme::memory::Instance* instance = nullptr;
  mneme::memory::TierState* state = nullptr;
  mneme::memory::Hook hook = mneme::memory::Hook::kBegin;
  std::int64_t layer = -1;  // -1: a hook without a layer
  mneme::memory::LayerServices* services = nullptr;
  at::Tensor x;                                          // the layer's input as the hook knows it
  mneme::memory::LayerContext* context = nullptr;        // context hook: where blocks go
  std::vector<mneme::memory::Rows>* released = nullptr;  // where released rows go
  std::map<mneme_queue, std::int64_t> rows_read;         // rows that the hook read, by queue

  [[nodiscard]] mneme::memory::LayerServices& layer_services() const {
    if (services == nullptr)
      throw mneme::memory::CallError(
          MNEME_E_STATE,
          "this hook has no layer: norm, project, weight and attention may not be called");
    return *services;
  }
  // Rows for the plugin, with handles borrowed for this call.
  mneme_rows rows_out(const mneme::memory::Rows& rows);
  // Rows from the plugin, checked against B, D, H and d.
  [[nodiscard]] mneme::memory::Rows rows_in(const mneme_rows& rows) const;
  [[nodiscard]] std::string where() const;  // "plugin ..., tier ..., hook ..., layer ..."
  // "<tier>.<layer, or model>.<name>", of a draw or a probe.
  [[nodiscard]] std::string scoped_name(const char* name) const;
  // Passes a tensor that the hook returns or stores to the FiniteWatch, if there is one; `name` is
  // that of a slot, queue or loss.
  void check_output(const char* what, const at::Tensor& tensor,
                    mneme::memory::Holds holds = mneme::memory::Holds::kFinite,
                    const std::string& name = {}) const;
  // All tensors of rows.
  void check_output_rows(const char* what, const mneme::memory::Rows& rows,
                         mneme::memory::Holds holds, const std::string& name = {}) const;
};

namespace mneme::memory {

// A function of a host group that hooks call: body(ctx), every exception a code and text. `handle`
// is the mneme_ctx that the plugin passed.
template <typename Body>
mneme_status in_hook(mneme_ctx* handle, mneme_error* error, Body&& body) noexcept {
  return guard(error,
               [&] { body(static_cast<mneme_ctx*>(find_object(HandleKind::kHook, handle))); });
}

}  // namespace mneme::memory

// From a tier class to the plugin's table: functions that build the C++ views of what the host
// gives and catch every exception.
#pragma once

#include <cstddef>
#include <memory>

#include "mneme/cpp/op_call.hpp"
#include "mneme/cpp/tier.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace detail {

// What `create` makes: the tier and the names that it declared.
template <typename T>
struct Instance {
  Directory directory;
  std::unique_ptr<T> tier;
  uint64_t wants = 0;  // MNEME_WANT_*
};

// A hook is offered to the host exactly when the class, or a base below Tier, overrides it.
template <typename T, typename = void>
struct Overrides {
  static constexpr bool kBegin = !std::is_same_v<decltype(&T::begin), decltype(&Tier::begin)>;
  static constexpr bool kAbsorb = !std::is_same_v<decltype(&T::absorb), decltype(&Tier::absorb)>;
  static constexpr bool kContext = !std::is_same_v<decltype(&T::context), decltype(&Tier::context)>;
  static constexpr bool kRide = !std::is_same_v<decltype(&T::ride), decltype(&Tier::ride)>;
  static constexpr bool kRead = !std::is_same_v<decltype(&T::read), decltype(&Tier::read)>;
  static constexpr bool kFinish = !std::is_same_v<decltype(&T::finish), decltype(&Tier::finish)>;
};

MNEME_SDK_DETECT(HasOptions, K::kOptions);
MNEME_SDK_DETECT(HasSummary, K::kSummary);
MNEME_SDK_DETECT(HasLosses, K::kLosses);

// An input that the tier gets when `wants`, a variable, has `bit`. Otherwise the tensor is empty,
// with the missing bit as its reason.
#define MNEME_SDK_WANTED(handle, bit, input)                                                  \
  ((wants & (bit)) == 0 && (handle) == 0                                                      \
       ? Tensor::absent(input " is empty, because the tier does not want it: say wants(" #bit \
                              ") in the constructor")                                         \
       : Tensor::borrow(handle))

template <typename T>
struct Hooks {
  using Has = Overrides<T>;
  static_assert(std::is_base_of_v<Tier, T>, "a memory derives publicly from mneme::Tier");
  static_assert(std::is_constructible_v<T, Setup&>, "a memory's constructor takes a mneme::Setup&");

  static Instance<T>& instance(void* handle) noexcept { return *static_cast<Instance<T>*>(handle); }

  static mneme_status create(const mneme_host* /*host*/, mneme_setup* raw_setup,
                             const mneme_model_info* model, mneme_tier_traits* traits, void** out,
                             mneme_error* error) noexcept {
    return guarded(error, "create", [&] {
      resolve_ops(raw_setup, {});
      auto made = std::make_unique<Instance<T>>();
      Setup setup(raw_setup, *model, made->directory);
      made->tier = std::make_unique<T>(setup);
      fill_traits(setup.traits(), *traits);
      if (Has::kRide && setup.rides()) traits->flags |= MNEME_TIER_RIDERS;
      made->wants = traits->wants;
      *out = made.release();
    });
  }

  // Copies what the constructor said and adds what follows from the hooks.
  static void fill_traits(const mneme_tier_traits& said, mneme_tier_traits& traits) {
    traits.flags = said.flags;
    traits.wants = said.wants;
    traits.context_rows = said.context_rows;
    traits.max_segment = said.max_segment;
    traits.read_rows = said.read_rows;
    // The struct of a host of ABI 1.1 ends before them.
    if (said.key_width != 0) traits.key_width = said.key_width;
    if (said.value_width != 0) traits.value_width = said.value_width;
    traits.absorb = said.absorb;
    traits.sites = said.sites;
    if (Has::kAbsorb && said.absorb == MNEME_ABSORB_NEVER) {
      traits.absorb = MNEME_ABSORB_AFTER_SEGMENT;
    }
    if (Has::kRead && said.sites == 0) traits.sites = MNEME_SITE_OUT;
  }

  static void destroy(void* handle) noexcept { delete static_cast<Instance<T>*>(handle); }

  static mneme_status begin(void* handle, mneme_ctx* ctx, const mneme_segment* segment,
                            mneme_riders* out, mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "begin", [&] {
      Segment view(*segment, instance(handle).directory);
      const Riders riders = instance(handle).tier->begin(view);
      out->rows = keep(riders.rows);
      out->valid = keep(riders.valid);
      out->unseen = riders.unseen;
    });
  }

  static mneme_status absorb(void* handle, mneme_ctx* ctx, const mneme_absorb* in,
                             mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "absorb", [&] {
      const uint64_t wants = instance(handle).wants;
      Local local;
      local.z = MNEME_SDK_WANTED(in->z, MNEME_WANT_ABSORB_Z, "local().z in absorb");
      local.lse = MNEME_SDK_WANTED(in->lse, MNEME_WANT_ABSORB_LSE, "local().lse in absorb");
      local.q = MNEME_SDK_WANTED(in->q, MNEME_WANT_ABSORB_Q, "local().q in absorb");
      local.k = MNEME_SDK_WANTED(in->k, MNEME_WANT_ABSORB_K, "local().k in absorb");
      local.v = MNEME_SDK_WANTED(in->v, MNEME_WANT_ABSORB_V, "local().v in absorb");
      local.mass = MNEME_SDK_WANTED(in->mass, MNEME_WANT_ABSORB_MASS, "local().mass in absorb");
      local.mass_rows = in->mass_rows;
      local.context_k = MNEME_SDK_WANTED(in->context_k, MNEME_WANT_ABSORB_CONTEXT_KV,
                                         "local().context_k in absorb");
      local.context_v = MNEME_SDK_WANTED(in->context_v, MNEME_WANT_ABSORB_CONTEXT_KV,
                                         "local().context_v in absorb");
      local.is_own_segment = (in->flags & MNEME_ABSORBS_OWN_SEGMENT) != 0;
      Layer layer(*in->segment, instance(handle).directory, in->layer,
                  MNEME_SDK_WANTED(in->x, MNEME_WANT_ABSORB_X, "x() in absorb"), std::move(local));
      const Rows rows = Rows::borrow(*in->rows);
      instance(handle).tier->absorb(layer, rows);
    });
  }

  static mneme_status context(void* handle, mneme_ctx* ctx, const mneme_context* in,
                              mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "context", [&] {
      Layer layer(*in->segment, instance(handle).directory, in->layer, Tensor::borrow(in->x), {});
      instance(handle).tier->context(layer);
    });
  }

  static mneme_status ride(void* handle, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result,
                           mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "ride", [&] {
      Layer layer(*in->segment, instance(handle).directory, in->layer, {}, {});
      Ride call;
      call.riders = in->riders;
      call.q = Tensor::borrow(in->q_riders);
      call.k = Tensor::borrow(in->k);
      call.v = Tensor::borrow(in->v);
      call.valid = Tensor::borrow(in->valid);
      call.hidden = Tensor::borrow(in->hidden);
      call.is_last = in->is_last != 0;
      *result = keep(instance(handle).tier->ride(layer, call));
    });
  }

  static mneme_status read(void* handle, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                           mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "read", [&] {
      const uint64_t wants = instance(handle).wants;
      Queries queries;
      queries.site = in->site;
      queries.q = MNEME_SDK_WANTED(in->q, MNEME_WANT_READ_Q, "q in read");
      queries.k = MNEME_SDK_WANTED(in->k, MNEME_WANT_READ_K, "k in read");
      queries.v = MNEME_SDK_WANTED(in->v, MNEME_WANT_READ_V, "v in read");
      queries.z = MNEME_SDK_WANTED(in->z, MNEME_WANT_READ_Z, "z in read");
      queries.lse = MNEME_SDK_WANTED(in->lse, MNEME_WANT_READ_LSE, "lse in read");
      queries.projected =
          MNEME_SDK_WANTED(in->projected, MNEME_WANT_READ_PROJECTED, "projected in read");
      // A host of ABI 1.1 gives a struct without it.
      const bool has_normed =
          in->struct_size >= offsetof(mneme_queries, normed) + sizeof(mneme_tensor);
      queries.normed = MNEME_SDK_WANTED(has_normed ? in->normed : mneme_tensor{},
                                        MNEME_WANT_READ_NORMED, "normed in read");
      Layer layer(*in->segment, instance(handle).directory, in->layer,
                  MNEME_SDK_WANTED(in->x, MNEME_WANT_READ_X, "x() in read"), {});
      const Read result = instance(handle).tier->read(layer, queries);
      out->merge = result.merge;
      out->out = keep(result.out);
      out->gate = keep(result.gate);
      out->lse = keep(result.lse);
    });
  }

  static mneme_status finish(void* handle, mneme_ctx* ctx, const mneme_finish* in,
                             mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "finish", [&] {
      Segment view(*in->segment, instance(handle).directory);
      const uint64_t wants = instance(handle).wants;
      Finish call;
      call.top = MNEME_SDK_WANTED(in->top, MNEME_WANT_FINISH_TOP, "top in finish");
      call.targets = MNEME_SDK_WANTED(in->targets, MNEME_WANT_FINISH_TARGETS, "targets in finish");
      call.logp = MNEME_SDK_WANTED(in->logp, MNEME_WANT_FINISH_LOGP, "logp in finish");
      call.riders = MNEME_SDK_WANTED(in->riders, MNEME_WANT_FINISH_RIDERS, "riders in finish");
      for (int64_t l = 0; l < in->segment->layers; ++l) {
        call.layers.push_back(MNEME_SDK_WANTED(in->layers == nullptr ? 0 : in->layers[l],
                                               MNEME_WANT_FINISH_LAYERS, "layers in finish"));
      }
      instance(handle).tier->finish(view, call);
    });
  }

  // A handle that outlives the Tensor: results keep one reference, which the host drops when the
  // hook is over.
  static mneme_tensor keep(const Tensor& tensor) {
    const mneme_tensor handle = handle_of(tensor, {});
    HostError error;
    if (tensor.is_owned()) {
      check(groups.tensor->retain(current_ctx, handle, &error.raw), error, {});
    }
    return handle;
  }

  // `init` looks up the groups that the plugin's note lists.
  using Init = decltype(mneme_plugin::init);
  static constexpr mneme_plugin table(const char* id, const char* version, Init init) {
    mneme_plugin out{};
    out.struct_size = sizeof(mneme_plugin);
    out.id = id;
    out.version = version;
    out.summary = "";
    if constexpr (HasSummary<T>::value) out.summary = T::kSummary;
    if constexpr (HasOptions<T>::value) {
      out.options = kOptionTable<T>.data();
      out.option_count = static_cast<uint32_t>(kOptionTable<T>.size());
    }
    out.option_stride = sizeof(mneme_option);
    out.losses = "";
    if constexpr (HasLosses<T>::value) out.losses = T::kLosses;
    out.init = init;
    out.create = &create;
    out.destroy = &destroy;
    if constexpr (Has::kBegin) out.begin = &begin;
    if constexpr (Has::kAbsorb) out.absorb = &absorb;
    if constexpr (Has::kContext) out.context = &context;
    if constexpr (Has::kRide) out.ride = &ride;
    if constexpr (Has::kRead) out.read = &read;
    if constexpr (Has::kFinish) out.finish = &finish;
    return out;
  }
};

#undef MNEME_SDK_WANTED

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme

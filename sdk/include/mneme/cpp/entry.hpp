// From a tier class to the plugin's table: trampolines that catch everything.
#pragma once

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
      resolve_ops(raw_setup);
      auto made = std::make_unique<Instance<T>>();
      Setup setup(raw_setup, *model, made->directory);
      made->tier = std::make_unique<T>(setup);
      fill_traits(setup.traits(), *traits);
      if (Has::kRide && setup.rides()) traits->flags |= MNEME_TIER_RIDERS;
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
    });
  }

  static mneme_status absorb(void* handle, mneme_ctx* ctx, const mneme_absorb* in,
                             mneme_error* error) noexcept {
    const CtxScope scope(ctx);
    return guarded(error, "absorb", [&] {
      Local local;
      local.z = Tensor::borrow(in->z);
      local.lse = Tensor::borrow(in->lse);
      local.q = Tensor::borrow(in->q);
      local.k = Tensor::borrow(in->k);
      local.v = Tensor::borrow(in->v);
      local.mass = Tensor::borrow(in->mass);
      local.mass_rows = in->mass_rows;
      local.context_k = Tensor::borrow(in->context_k);
      local.context_v = Tensor::borrow(in->context_v);
      local.is_own_segment = (in->flags & MNEME_ABSORB_OWN_SEGMENT) != 0;
      Layer layer(*in->segment, instance(handle).directory, in->layer, Tensor::borrow(in->x),
                  std::move(local));
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
      Queries queries;
      queries.site = in->site;
      queries.q = Tensor::borrow(in->q);
      queries.k = Tensor::borrow(in->k);
      queries.v = Tensor::borrow(in->v);
      queries.z = Tensor::borrow(in->z);
      queries.lse = Tensor::borrow(in->lse);
      queries.projected = Tensor::borrow(in->projected);
      Layer layer(*in->segment, instance(handle).directory, in->layer, Tensor::borrow(in->x), {});
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
      Finish call;
      call.top = Tensor::borrow(in->top);
      call.targets = Tensor::borrow(in->targets);
      call.logp = Tensor::borrow(in->logp);
      if (in->layers != nullptr) {
        for (int64_t l = 0; l < in->segment->layers; ++l) {
          call.layers.push_back(Tensor::borrow(in->layers[l]));
        }
      }
      instance(handle).tier->finish(view, call);
    });
  }

  // A handle that outlives the Tensor: results keep one reference, which the host drops when the
  // hook is over.
  static mneme_tensor keep(const Tensor& tensor) {
    if (!tensor) return 0;
    HostError error;
    if (tensor.is_owned()) {
      check(groups.tensor->retain(current_ctx, tensor.raw(), &error.raw), error);
    }
    return tensor.raw();
  }

  static constexpr mneme_plugin table(const char* id, const char* version) {
    mneme_plugin out{};
    out.struct_size = sizeof(mneme_plugin);
    out.id = id;
    out.version = version;
    out.summary = "";
    if constexpr (HasSummary<T>::value) out.summary = T::kSummary;
    if constexpr (HasOptions<T>::value) {
      out.options = T::kOptions.data();
      out.option_count = static_cast<uint32_t>(T::kOptions.size());
    }
    out.option_stride = sizeof(mneme_option);
    out.losses = "";
    if constexpr (HasLosses<T>::value) out.losses = T::kLosses;
    out.init = &look_up_groups;
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

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme

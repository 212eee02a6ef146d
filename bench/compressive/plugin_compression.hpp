// The same through the real host: loader, stack, hooks of the plugin compressive and autograd.
#pragma once

#include "bench/compressive/sizes.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::bench {

class PluginCompression {
 public:
  // The memory holds in.old. Errors: Error when the plugin has another set of parameters.
  PluginCompression(const CompressionSizes& sizes, const CompressionWeights& weights,
                    const CompressionInputs& in);
  // One segment, which is not committed: every call does the same.
  Compressed step(const CompressionInputs& in, bool wants_rows = false);
  at::Tensor& weight() { return weight_; }  // [D,c,D], a leaf
  at::Tensor& bias() { return bias_; }

 private:
  CompressionSizes sizes_;
  plugin::PluginLoader loader_ = memory::make_loader();
  memory::HookDriver driver_;
  memory::PlainLayer layer_;
  at::Tensor weight_, bias_;
};

}  // namespace mneme::bench

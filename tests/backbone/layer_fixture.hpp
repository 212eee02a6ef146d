// One layer with a segment of an empty stack around it.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "host/backbone/layer.hpp"
#include "host/backbone/segment_scope.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/loader.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {

inline constexpr double kRotaryBase = 20.0;

struct LayerCase {
  LayerSettings settings;
  ParameterStore store{4, at::kDouble, at::kCPU};
  std::unique_ptr<Noise> noise;
  std::unique_ptr<PositionTables> tables;
  std::unique_ptr<RotaryTables> rotary;
  MaskCache masks;
  plugin::PluginLoader loader = memory::make_loader();
  std::unique_ptr<memory::Stack> stack;
  memory::StackState state;
  std::unique_ptr<memory::SegmentHooks> hooks;
  std::unique_ptr<Layer> layer;
  std::unique_ptr<SegmentScope> scope;

  // A layer of width 8, 2 heads of 4, with biases and turns large enough to matter; T tokens, B
  // lanes.
  LayerCase(config::PositionScheme position, int64_t lanes, int64_t tokens, int64_t clamp = 0,
            bool is_pre_norm = false);
};

}  // namespace mneme::backbone

// One experiment at several sizes of its backbone: mneme compare --scale.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/compare/arms.hpp"

namespace mneme::compare {

// The backbone of a size, and its training.
struct ScaleShape {
  double multiple = 1.0;  // of the parameters of the layers that was asked for
  double reached = 1.0;   // that the shape has
  std::int64_t layers = 0, heads = 0, width = 0, ff = 0;
  std::int64_t steps = 0;

  [[nodiscard]] std::string text() const;  // "3 layers of width 96, 1,800 steps"
};

// The shape for a multiple of the experiment's layers' parameters, layers * width^2 in proportion:
// heads of the same width and size of group, `ff` in proportion to the width, and of the two
// numbers of layers around layers * multiple^(1/3), which keeps width / layers [Kaplan et al.
// 2020], the one with which some number of heads comes nearest. Steps grow as the parameters do, so
// that tokens are in proportion to parameters [Hoffmann et al. 2022].
[[nodiscard]] ScaleShape scaled_shape(const config::Experiment& experiment, double multiple);

struct ScalePoint {
  ScaleShape shape;
  std::vector<ArmSetup> arms;
};

// The arms at each size. An embedding as wide as the model, and adaptive ones, stay so; the layers
// that a tier names are repeated over all. Errors: Error (kUsage) when the training's length is
// given in epochs, when two sizes have one shape, and when arms differ in their [model] or
// train.steps.
[[nodiscard]] std::vector<ScalePoint> scale_points(const std::vector<ArmSetup>& arms,
                                                   const std::vector<double>& multiples);

}  // namespace mneme::compare

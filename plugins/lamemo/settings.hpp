// The options of a look-ahead memory, read and checked.
#pragma once

#include <cstdint>

#include "mneme/cpp/options.hpp"
#include "mneme/cpp/setup.hpp"

namespace lamemo {

struct Settings {
  static constexpr double kMaxRows = 1 << 30;
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", mneme::kRequired, 1, kMaxRows, "memory rows a lane").at_evaluation(),
      mneme::choice("window", "previous", "previous|official",
                    "keys that are new to a memory row: as many as the previous segment had, or as "
                    "the released code has it, as many as this one has")
          .at_evaluation(),
      mneme::real("epsilon", 0.0, 0.0, 1.0,
                  "added to the denominator of alpha; the released code adds 1e-6")
          .at_evaluation(),
      mneme::boolean("interpolation", true,
                     "false: ablation, memory rows forget what they have attended before")
          .trained(),
      mneme::boolean("lookahead", true, "false: ablation, Transformer-XL's cache").trained(),
      mneme::boolean("full_mask", false,
                     "ablation: memory rows attend the whole window, earlier keys included")
          .trained(),
      mneme::boolean("content_bias_ahead", false,
                     "ablation: the look-ahead has a content bias of its own")
          .trained(),
      mneme::boolean("signed_ablation", false,
                     "Transformer-XL's encoding in both directions: signed distances and one bias; "
                     "needs model.position = \"relative\"")
          .trained());

  // Errors: mneme::Failure naming options, values and the backbone's keys for what the schema
  // cannot say.
  explicit Settings(const mneme::Setup& s);

  int64_t rows;
  bool is_official_window;
  double epsilon;
  bool interpolates;
  bool looks_ahead;
  bool is_full;
  bool has_content_bias;
  bool is_signed;
};

}  // namespace lamemo

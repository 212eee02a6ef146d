/* The run whose numbers are kept for a binary plugin of each ABI version: what the host passes to
 * its hooks. The mini host (C) and the test with mneme's own host (C++) both run it. */
#ifndef MNEME_TESTS_ABI_COMPATIBILITY_SCENARIO_H_
#define MNEME_TESTS_ABI_COMPATIBILITY_SCENARIO_H_

#include <stdint.h>

enum {
  kScenarioLanes = 2,     /* B */
  kScenarioWidth = 4,     /* D */
  kScenarioHeads = 2,     /* H */
  kScenarioHeadWidth = 3, /* d */
  kScenarioLayers = 2,    /* L */
  kScenarioSegments = 3,
  kScenarioLongest = 3 /* longest segment */
};

#define SCENARIO_PLUGIN_ID "org.mneme_test.compatibility"

/* T of a segment. */
static inline int64_t scenario_length(int64_t segment) { return segment == 1 ? 2 : 3; }

/* What a tensor of values is for. */
enum {
  kScenarioX = 1,
  kScenarioProjected = 2,
  kScenarioRiderQueries = 3,
  kScenarioKeys = 4,
  kScenarioValues = 5,
  kScenarioTop = 6,
  kScenarioLossWeights = 7,
  kScenarioNormed = 8
};

/* Element i of a tensor: a multiple of 1/32 between -1 and 1. */
static inline double scenario_value(int64_t what, int64_t segment, int64_t layer, int64_t i) {
  const int64_t mixed = i * 37 + what * 101 + segment * 17 + layer * 53;
  return (double)(mixed * mixed % 61 - 30) / 32.0;
}

/* Draw of a lane from the uniform law. */
static inline double scenario_draw(int64_t segment, int64_t layer, int64_t lane) {
  return (double)((segment * 7 + layer * 11 + lane * 5 + 3) % 16) / 16.0;
}

/* Elements of x whose gradient is compared, of layer 0. */
enum { kScenarioGradientsOfX = 5 };

#endif /* MNEME_TESTS_ABI_COMPATIBILITY_SCENARIO_H_ */

#include "python/bridge/payload.h"

#include "python/bridge/bridge.hpp"

namespace mneme::python {
namespace {

// Empty here; filled in the copies that are a memory's.
__attribute__((section(MNEME_PAYLOAD_SECTION), used)) const mneme_payload kPayload = {
    {'M', 'N', 'E', 'M', 'E', '-', 'P', 'Y', 'T', 'H', 'O', 'N', '-', '0', '0', '1'},
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    {},
    {},
    {},
    {},
    {},
    {}};

}  // namespace

const mneme_payload& payload() {
  const mneme_payload* here = &kPayload;
  // The compiler knows the empty one: it may not compute with it.
  __asm__("" : "+r"(here));
  return *here;
}

}  // namespace mneme::python

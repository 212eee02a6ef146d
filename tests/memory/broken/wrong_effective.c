/* Agrees to another ABI version than the two ranges give. */
#include "tier.h"

TIER_TABLE(.flags = 0);
TIER_NOTE("");
MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                             mneme_plugin_answer* answer) {
  const mneme_status status = mneme_sdk_negotiate(offer, answer, &table);
  answer->effective = MNEME_ABI_MAKE(0, 5);
  return status;
}

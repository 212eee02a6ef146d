/* Writes into a field that must stay zero. */
#include "tier.h"

TIER_TABLE(.flags = 0);
TIER_NOTE("");
MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                             mneme_plugin_answer* answer) {
  answer->reserved = 7;
  return mneme_sdk_negotiate(offer, answer, &table);
}

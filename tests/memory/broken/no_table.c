/* Accepts the host without giving a table. */
#include "tier.h"

TIER_NOTE("");
MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                             mneme_plugin_answer* answer) {
  return mneme_sdk_negotiate(offer, answer, NULL);
}

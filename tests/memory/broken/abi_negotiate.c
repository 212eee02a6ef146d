/* Its note suits this host, but it refuses when asked. */
#include <string.h>

#include "tier.h"

TIER_NOTE("");
MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                             mneme_plugin_answer* answer) {
  (void)offer;
  answer->abi_min = MNEME_ABI_MAKE(0, 7);
  answer->abi_target = MNEME_ABI_MAKE(0, 9);
  answer->plugin = NULL;
  strcpy(answer->reason, "needs the segments of ABI 0.7");
  return MNEME_E_VERSION;
}

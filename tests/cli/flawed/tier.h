/* What the tiers of this folder share. Before including this a file says where its tier reads and
 * what it wants: FLAWED_SITES, FLAWED_WANTS. */
#ifndef MNEME_TESTS_CLI_FLAWED_TIER_H_
#define MNEME_TESTS_CLI_FLAWED_TIER_H_

#include "mneme/sdk.h"

static int instance_of_nothing;

static mneme_status make(const mneme_host* host, mneme_setup* setup, const mneme_model_info* model,
                         mneme_tier_traits* traits, void** instance, mneme_error* error) {
  (void)host;
  (void)setup;
  (void)model;
  (void)error;
  traits->sites = FLAWED_SITES;
  traits->wants = FLAWED_WANTS;
  *instance = &instance_of_nothing;
  return MNEME_OK;
}

static void destroy(void* instance) { (void)instance; }

#endif /* MNEME_TESTS_CLI_FLAWED_TIER_H_ */

/* A tier that does what MNEME_TEST_DEED names, in `read` or, with "create " in front, in `create`.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mneme/sdk.h"

static int nothing;
static int* volatile nowhere; /* NULL, which the compiler does not know */
static volatile int depth;

/* Fills the stack. */
static int call_itself(int n) {
  volatile char room[4096];
  memset((char*)room, n, sizeof room);
  depth = n;
  return n < 0 ? 0 : call_itself(n + 1) + room[n % 4096];
}

static void do_deed(const char* deed) {
  if (strcmp(deed, "fault") == 0) {
    *nowhere = 1;
  } else if (strcmp(deed, "recursion") == 0) {
    call_itself(1);
  } else if (strcmp(deed, "abort") == 0) {
    abort();
  } else if (strcmp(deed, "exit") == 0) {
    exit(0);
  } else if (strcmp(deed, "quick_exit") == 0) {
    quick_exit(0);
  } else if (strcmp(deed, "hang") == 0) {
    fprintf(stderr, "the hook hangs\n");
    for (;;) pause();
  }
}

static mneme_status make(const mneme_host* host, mneme_setup* setup, const mneme_model_info* model,
                         mneme_tier_traits* traits, void** instance, mneme_error* error) {
  (void)host;
  (void)setup;
  (void)model;
  (void)error;
  const char* const deed = getenv("MNEME_TEST_DEED");
  traits->sites = MNEME_SITE_HEADS;
  *instance = &nothing;
  if (deed != NULL && strncmp(deed, "create ", 7) == 0) do_deed(deed + 7);
  return MNEME_OK;
}

static void destroy(void* instance) { (void)instance; }

static mneme_status read_memory(void* instance, mneme_ctx* ctx, const mneme_queries* in,
                                mneme_read* out, mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)in;
  (void)out;
  (void)error;
  const char* const deed = getenv("MNEME_TEST_DEED");
  if (deed != NULL) do_deed(deed);
  return MNEME_OK;
}

static const mneme_plugin table = {
    .struct_size = (uint32_t)sizeof(mneme_plugin),
    .id = "org.example.misdeed",
    .version = "1.0.0",
    .summary = "A tier that ends the process, or never returns.",
    .create = make,
    .destroy = destroy,
    .read = read_memory,
};

MNEME_PLUGIN_ENTRY(table, "org.example.misdeed", "1.0.0", "");

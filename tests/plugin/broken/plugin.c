/* A small tier that loads, and the flaws that tests give it, one row a flaw.
 *
 * A test copies the built library and writes a flaw's name over `flaw` (broken_plugin.hpp), so that
 * one library serves every flaw that shows when code runs. Flaws that lie in the ELF file or in the
 * note are builds of their own, made with the TEST_... definitions below.
 *
 * `create` reports through the traits: max_segment = which of the two good builds this is,
 * context_rows = how often `init` has run in this copy, or what the library's own init answers. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "mneme/sdk.h"

#define TEST_ID "org.example.tier"
#define TEST_VERSION "1.0.0"
#ifndef TEST_FEATURES
#define TEST_FEATURES "mneme.op/1"
#endif

/* What `init` remembers. */
#if defined(TEST_UNDEFINED_SYMBOL)
extern int64_t tier_missing_function(void);
#define TEST_INIT tier_missing_function()
#elif defined(TEST_NEEDS_LIBRARY)
extern int extra_answer(void);
#define TEST_INIT extra_answer()
#elif defined(TEST_NEEDS_LIBC)
#define TEST_INIT strtoll(getenv("MNEME_TEST_FIVE"), NULL, 10)
#else
#define TEST_INIT (tier_inits + 1)
#endif

#ifndef TEST_FLAW
#define TEST_FLAW "good"
#endif
static const volatile char flaw[] __attribute__((used)) =
    "MNEME_TEST_FLAW=" TEST_FLAW "\0..................";
static int is_flaw_known = 0;
static int64_t tier_inits = 0;
static int64_t tier_segment = 1;

/* Not strcmp: a plugin that needs no C library is a case as well. */
static __attribute__((noinline)) int has_flaw(const char* name) {
  const volatile char* given = flaw + sizeof("MNEME_TEST_FLAW=") - 1;
  while (*name != '\0' && *name == *given) {
    ++name;
    ++given;
  }
  if (*name != *given) return 0;
  is_flaw_known = 1;
  return 1;
}

#define UNUSED_INIT_ARGUMENTS() ((void)host, (void)get_group, (void)error)

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  UNUSED_INIT_ARGUMENTS();
  tier_inits = TEST_INIT;
  return MNEME_OK;
}

static mneme_status init_fails(const mneme_host* host, mneme_get_group_fn get_group,
                               mneme_error* error) {
  UNUSED_INIT_ARGUMENTS();
  return MNEME_FAIL(error, MNEME_E_IO, "cannot read the index /data/index.bin");
}

static mneme_status init_silent(const mneme_host* host, mneme_get_group_fn get_group,
                                mneme_error* error) {
  UNUSED_INIT_ARGUMENTS();
  for (size_t i = 0; i < sizeof(error->file); ++i) error->file[i] = 'f';
  error->line = 3;
  error->native_code = 12;
  return 99;
}

#ifdef TEST_THROWS /* throws.cpp */
void throw_error(void);
mneme_status throw_number(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error);
#endif

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  (void)host;
  (void)setup;
  (void)model;
  (void)error;
  traits->max_segment = tier_segment;
  traits->context_rows = tier_inits;
  *instance = NULL;
  return MNEME_OK;
}

static void destroy(void* instance) { (void)instance; }

static mneme_status read_nothing(void* instance, mneme_ctx* ctx, const mneme_queries* in,
                                 mneme_read* out, mneme_error* error) {
  (void)instance;
  (void)ctx;
  (void)in;
  (void)error;
  out->merge = MNEME_MERGE_NONE;
  return MNEME_OK;
}

static const mneme_option options[] = {{
    .struct_size = (uint32_t)sizeof(mneme_option),
    .flags = MNEME_OPTION_AT_EVALUATION | MNEME_OPTION_BOUNDED,
    .key = "rows",
    .help = "rows kept",
    .type = MNEME_OPTION_INTEGER,
    .default_integer = 8,
    .min_integer = 1,
    .max_integer = 4096,
}};

/* The table, with room for fields of a later ABI. */
static struct {
  mneme_plugin known;
  uint64_t later[4];
} given = {.known = {.struct_size = (uint32_t)sizeof(mneme_plugin),
                     .id = TEST_ID,
                     .version = TEST_VERSION,
                     .summary = "A tier that adds nothing.",
                     .init = init,
                     .create = create,
                     .destroy = destroy,
                     .read = read_nothing},
           .later = {1, 2, 3, 4}};

#define FLAW(name, ...) \
  if (has_flaw(name)) { \
    __VA_ARGS__;        \
  }

static void spoil_table(mneme_plugin* table) {
  FLAW("good", table->options = options, table->option_count = 1,
       table->option_stride = (uint32_t)sizeof(mneme_option))
  FLAW("good_again", tier_segment = 2) /* another build of the same plugin */
  /* Sizes: garbage, as uninitialised memory would hold, and those of other ABI minors. */
  FLAW("short_table", table->struct_size = 112)
  FLAW("odd_table", table->struct_size = 123)
  FLAW("huge_table", table->struct_size = 0x7ffffff8)
  FLAW("grown_table", table->struct_size = (uint32_t)sizeof(given))
  FLAW("old_table", table->struct_size = (uint32_t)offsetof(mneme_plugin, losses),
       table->losses = "lies behind the table's end")
  FLAW("bad_stride", table->options = options, table->option_count = 1, table->option_stride = 16)
  /* The table and the note disagree. */
  FLAW("wrong_id", table->id = "org.example.other")
  FLAW("no_id", table->id = NULL)
  FLAW("wrong_version", table->version = "2.0.0")
  /* Functions that are missing, and an init that fails. */
  FLAW("no_create", table->create = NULL, table->destroy = NULL)
  FLAW("no_hook", table->read = NULL)
  FLAW("init_fails", table->init = init_fails)
  FLAW("init_silent", table->init = init_silent)
#ifdef TEST_THROWS
  FLAW("throws", throw_error())
  FLAW("throws_in_init", table->init = throw_number)
#endif
}

static mneme_status negotiate(const mneme_host_offer* offer, mneme_plugin_answer* answer) {
  const mneme_plugin* table = &given.known;
  spoil_table(&given.known);
  FLAW("no_table", table = NULL)
  FLAW("answer_size", answer->struct_size = 3)
  FLAW("reserved_answer", answer->reserved = 7)
  const mneme_status status = mneme_sdk_negotiate(offer, answer, table);
  FLAW("wrong_effective", answer->effective = MNEME_ABI_MAKE(1, 5))
  FLAW("other_range", answer->abi_target = MNEME_ABI_MAKE(1, 5))
  if (has_flaw("abi_negotiate")) { /* the note suits this host, but the code refuses it */
    answer->abi_min = MNEME_ABI_MAKE(1, 7);
    answer->abi_target = MNEME_ABI_MAKE(1, 9);
    answer->plugin = NULL;
    strcpy(answer->reason, "needs the segments of ABI 1.7");
    return MNEME_E_VERSION;
  }
  if (!is_flaw_known) { /* a test misspelt it */
    strcpy(answer->reason, "plugin.c knows no such flaw");
    return MNEME_E_INTERNAL;
  }
  return status;
}

#ifdef TEST_MAPPED /* an environment variable, set by code that runs when the file is mapped */
__attribute__((constructor)) static void mapped(void) { setenv(TEST_MAPPED, "1", 1); }
#endif

#ifdef TEST_ABI
#undef MNEME_ABI_VERSION
#define MNEME_ABI_VERSION TEST_ABI
#endif
#ifndef TEST_NO_NOTE
MNEME_PLUGIN_NOTE(TEST_ID, TEST_VERSION, TEST_FEATURES);
#endif

#ifdef TEST_NO_ENTRY
MNEME_EXPORT mneme_status tier_table(const mneme_host_offer* offer, mneme_plugin_answer* answer);
MNEME_EXPORT mneme_status tier_table(const mneme_host_offer* offer, mneme_plugin_answer* answer) {
#else
MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                             mneme_plugin_answer* answer) {
#endif
  return negotiate(offer, answer);
}

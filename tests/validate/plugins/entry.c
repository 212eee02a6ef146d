/* A memory that does nothing, whose entry or file breaks one rule: TEST_FAULT, and flags of the
 * linker. */
#include <fcntl.h>
#include <string.h>

#include "mneme/sdk.h"

enum { kNone, kRepeat, kOlder, kNewer, kGarbage, kQuiet };
#ifndef TEST_FAULT
#define TEST_FAULT kNone
#endif

static int some_instance;

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  (void)host, (void)setup, (void)model, (void)traits, (void)error;
  *instance = &some_instance;
  return MNEME_OK;
}

static void destroy(void* instance) { (void)instance; }

static mneme_status begin(void* instance, mneme_ctx* ctx, const mneme_segment* segment,
                          mneme_riders* out, mneme_error* error) {
  (void)instance, (void)ctx, (void)segment, (void)out, (void)error;
  return MNEME_OK;
}

static const mneme_plugin kTable = {.struct_size = sizeof(mneme_plugin),
                                    .id = "test.entry",
                                    .version = "0.1.0",
                                    .summary = "does nothing",
                                    .create = create,
                                    .destroy = destroy,
                                    .begin = begin,
                                    .losses = ""};
static mneme_plugin other_table;

#ifndef TEST_NO_NOTE
#ifndef TEST_FEATURES
#define TEST_FEATURES "mneme.state/1"
#endif
MNEME_PLUGIN_NOTE("test.entry", "0.1.0", TEST_FEATURES);
#endif

#ifdef TEST_OTHER_SYMBOL
MNEME_EXPORT int test_other_symbol(void);
int test_other_symbol(void) { return 1; }
#endif
#ifdef TEST_NEW_LIBC
#include <dlfcn.h>
/* dlsym is a symbol of libc.so.6 since GLIBC_2.34. */
MNEME_EXPORT void* test_lookup(void);
void* test_lookup(void) { return dlsym(NULL, "nothing"); }
#endif
#ifdef TEST_TEXT_RELOCATION
/* An absolute address in the code. */
__asm__(".text\n.quad mneme_negotiate_v1\n");
#endif
#ifdef TEST_UNIQUE
__asm__(
    ".data\n.globl test_unique\n.type test_unique, @gnu_unique_object\n.size test_unique, "
    "4\ntest_unique: .long 1\n.text\n");
#endif

MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                             mneme_plugin_answer* answer) {
  static int calls;
  mneme_host_offer changed = *offer;
  const int is_second = TEST_FAULT == kRepeat && calls++ > 0;
  if (TEST_FAULT == kOlder && offer->abi_current < MNEME_ABI_VERSION)
    changed.abi_current = MNEME_ABI_VERSION;
  if (TEST_FAULT == kNewer && offer->abi_current > MNEME_ABI_VERSION) changed.abi_current = 0;
  if (TEST_FAULT == kGarbage && offer->abi_min == 0xffffffffu)
    changed.abi_min = changed.abi_current = MNEME_ABI_VERSION;
  if (TEST_FAULT == kQuiet) {
    const int kept = open("/dev/null", O_RDONLY);
    (void)kept;
  }
  other_table = kTable;
  return mneme_sdk_negotiate(&changed, answer, is_second ? &other_table : &kTable);
}

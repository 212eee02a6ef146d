/* mneme/config.h: group "mneme.config/1", a tier's options (already checked by the host against the plugin's option schema), and the schema itself. */
#ifndef MNEME_CONFIG_H_
#define MNEME_CONFIG_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_CONFIG "mneme.config/1"

enum {
  MNEME_OPTION_INTEGER = 1,
  MNEME_OPTION_REAL = 2,
  MNEME_OPTION_BOOLEAN = 3,
  MNEME_OPTION_TEXT = 4,
  MNEME_OPTION_CHOICE = 5, /* text, one of `choices` */
  MNEME_OPTION_INTEGERS = 6,
  MNEME_OPTION_REALS = 7
};

/* The key eval_<key> may give another value at evaluation: the host then makes a second instance with that value. */
#define MNEME_OPTION_AT_EVALUATION 1u
/* No default: the manifest must give it. */
#define MNEME_OPTION_REQUIRED 2u
/* `min` and `max` give bounds; without this flag a number is unbounded. Bounds are inclusive and hold for each entry of a list. */
#define MNEME_OPTION_BOUNDED 4u
/* Parameters and state mean something only together with this option's value (a basis, say). The host refuses to give a tier's trained parameters
 * or a saved state to one with another value, and names both values; with memory.carry = "reset" the tier starts afresh instead. Tiers are the same
 * when their places in the stack and the plugins' ids agree. Not together with MNEME_OPTION_AT_EVALUATION. */
#define MNEME_OPTION_TRAINED 8u

/* One option. Valid for the process's life. */
typedef struct mneme_option {
  uint32_t struct_size;
  uint32_t flags;
  const char* key; /* [a-z][a-z0-9_]* */
  const char* help;
  uint32_t type;
  uint32_t reserved;
  double default_number;    /* INTEGER, REAL, BOOLEAN */
  const char* default_text; /* TEXT, CHOICE; lists as TOML text, "[1, 2]" */
  double min;
  double max;
  const char* choices; /* CHOICE: separated by '|' */
} mneme_option;

typedef struct mneme_config_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] Values of this instance's options. Errors: MNEME_E_INVALID_ARGUMENT for a key that the plugin's schema does not have or another type. */
  mneme_status (*integer)(mneme_setup* setup, const char* key, int64_t* out, mneme_error* error);
  mneme_status (*real)(mneme_setup* setup, const char* key, double* out, mneme_error* error);
  mneme_status (*boolean)(mneme_setup* setup, const char* key, int32_t* out, mneme_error* error);
  /* Valid until `create` returns. */
  mneme_status (*text)(mneme_setup* setup, const char* key, const char** out, mneme_error* error);
  /* Valid until `create` returns. */
  mneme_status (*integers)(mneme_setup* setup, const char* key, const int64_t** out, uint64_t* count, mneme_error* error);
  mneme_status (*reals)(mneme_setup* setup, const char* key, const double** out, uint64_t* count, mneme_error* error);
} mneme_config_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_CONFIG_H_ */

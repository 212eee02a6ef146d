/* mneme/config.h: the schema of a plugin's options, and group "mneme.config/1", which gives
 * `create` their values. The host has checked the values against the schema. */
#ifndef MNEME_CONFIG_H_
#define MNEME_CONFIG_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_CONFIG "mneme.config/1"

/* Types of options. */
enum {
  MNEME_OPTION_INTEGER = 1,
  MNEME_OPTION_REAL = 2,
  MNEME_OPTION_BOOLEAN = 3,
  MNEME_OPTION_TEXT = 4,
  MNEME_OPTION_CHOICE = 5, /* text, one of `choices` */
  MNEME_OPTION_INTEGERS = 6,
  MNEME_OPTION_REALS = 7
};

/* The memory file's key eval_<key> may give another value for evaluation. Where one differs, the
 * host makes a second instance with the values for evaluation. */
#define MNEME_OPTION_AT_EVALUATION 1u
/* No default: the memory file must give the option. */
#define MNEME_OPTION_REQUIRED 2u
/* A number, or each entry of a list, lies between the inclusive bounds of its type. INT64_MIN and
 * INT64_MAX, and infinite reals, bound nothing. Without this flag a number is unbounded. */
#define MNEME_OPTION_BOUNDED 4u
/* Parameters and state mean something only together with this option's value (a basis, a decay).
 * The host refuses to give a tier's trained parameters or saved state to one with another value,
 * and names both values; with memory.carry = "reset" the tier starts afresh instead. Checkpoints
 * hold the values, so that another default is another value. Two tiers are the same when their
 * places in the stack and their plugins' ids agree. Not with MNEME_OPTION_AT_EVALUATION. */
#define MNEME_OPTION_TRAINED 8u

/* One option. Of the fields below `type` those are read whose comments name its type. Valid for the
 * process's life. The host reads the schema when it loads the plugin and refuses the plugin for a
 * key, type, default or flag that is not as said here. */
typedef struct mneme_option {
  uint32_t struct_size;
  uint32_t flags;  /* MNEME_OPTION_AT_EVALUATION ... */
  const char* key; /* [a-z][a-z0-9_]* */
  const char* help;
  uint32_t type;                   /* MNEME_OPTION_INTEGER ... */
  uint32_t default_count;          /* entries of default_integers or default_reals */
  int64_t default_integer;         /* INTEGER; BOOLEAN: 0 or 1 */
  double default_real;             /* REAL */
  const char* default_text;        /* TEXT, CHOICE; NULL = "" */
  const int64_t* default_integers; /* INTEGERS */
  const double* default_reals;     /* REALS */
  int64_t min_integer;             /* INTEGER, INTEGERS */
  int64_t max_integer;
  double min_real; /* REAL, REALS */
  double max_real;
  const char* const* choices; /* CHOICE: its words */
  uint32_t choice_count;
  uint32_t reserved;
} mneme_option;

/* All functions: the value of this instance's option `key`.
 * Errors: MNEME_E_INVALID_ARGUMENT for a key that the schema does not have, or has with another
 * type. */
typedef struct mneme_config_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] The value of an INTEGER. */
  mneme_status (*integer)(mneme_setup* setup, const char* key, int64_t* out, mneme_error* error);

  /* [setup] The value of a REAL. */
  mneme_status (*real)(mneme_setup* setup, const char* key, double* out, mneme_error* error);

  /* [setup] The value of a BOOLEAN: 0 or 1. */
  mneme_status (*boolean)(mneme_setup* setup, const char* key, int32_t* out, mneme_error* error);

  /* [setup] The value of a TEXT or CHOICE. The host's; valid until `create` returns. */
  mneme_status (*text)(mneme_setup* setup, const char* key, const char** out, mneme_error* error);

  /* [setup] The value of INTEGERS: *count entries at *out, the host's, valid until `create`
   * returns. */
  mneme_status (*integers)(mneme_setup* setup, const char* key, const int64_t** out,
                           uint64_t* count, mneme_error* error);

  /* [setup] The value of REALS; as `integers`. */
  mneme_status (*reals)(mneme_setup* setup, const char* key, const double** out, uint64_t* count,
                        mneme_error* error);
} mneme_config_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_CONFIG_H_ */

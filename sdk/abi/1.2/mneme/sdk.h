/* mneme/sdk.h: code that every plugin needs, for plugins in C and for the C++ layer of plugin.hpp:
 * errors, the note, the entry symbol. No part of the specification: a plugin may do all of it
 * itself. */
#ifndef MNEME_SDK_H_
#define MNEME_SDK_H_

#include "mneme/plugin.h"

/* ---- errors -------------------------------------------------------------------------------- */

/* Fills an error, unless it is NULL, with the file's name without folders, line and message, cut to
 * their fields; returns `code`. */
static inline mneme_status mneme_sdk_fail(mneme_error* error, mneme_status code, const char* file,
                                          int32_t line, const char* message) {
  size_t i = 0;
  const char* base = file;
  if (error == NULL) {
    return code;
  }
  error->code = code;
  error->line = line;
  for (i = 0; file[i] != '\0'; ++i) {
    if (file[i] == '/') {
      base = file + i + 1;
    }
  }
  for (i = 0; base[i] != '\0' && i + 1 < sizeof(error->file); ++i) {
    error->file[i] = base[i];
  }
  error->file[i] = '\0';
  for (i = 0; message[i] != '\0' && i + 1 < sizeof(error->message); ++i) {
    error->message[i] = message[i];
  }
  error->message[i] = '\0';
  return code;
}

/* A plugin's own error, with the place where it is written:
 * `return MNEME_FAIL(error, MNEME_E_SHAPE, "...")`. */
#define MNEME_FAIL(error, code, message) \
  mneme_sdk_fail((error), (code), __FILE__, __LINE__, (message))

/* ---- the note ------------------------------------------------------------------------------ */

/* What mneme_add_plugin passes on the command line; a plugin built by hand may leave them out. */
#ifndef MNEME_PLUGIN_COMMIT
#define MNEME_PLUGIN_COMMIT ""
#endif
#ifndef MNEME_PLUGIN_DIRTY
#define MNEME_PLUGIN_DIRTY 0
#endif
#ifndef MNEME_PLUGIN_CUDA_RUNTIME
#define MNEME_PLUGIN_CUDA_RUNTIME 0
#endif
#ifndef MNEME_PLUGIN_ARCHITECTURES
#define MNEME_PLUGIN_ARCHITECTURES ""
#endif
#ifndef MNEME_PLUGIN_LIBRARIES
#define MNEME_PLUGIN_LIBRARIES ""
#endif
/* The oldest ABI version that the plugin speaks, of those with the same major. An older host reads
 * only the fields of a struct that it knows: lower this version only when the others may be
 * ignored. */
#ifndef MNEME_PLUGIN_ABI_MIN
#define MNEME_PLUGIN_ABI_MIN MNEME_ABI_VERSION
#endif
#if defined(__clang__)
#define MNEME_COMPILER_NAME "clang " __clang_version__
#elif defined(__GNUC__)
#define MNEME_COMPILER_NAME "gcc " __VERSION__
#else
#define MNEME_COMPILER_NAME "unknown"
#endif

/* Defines the note. id, version and features, a list of group ids, are string literals. */
#define MNEME_PLUGIN_NOTE(id_text, version_text, features_text)                             \
  static const mneme_note_record mneme_plugin_note_record                                   \
      __attribute__((section(MNEME_NOTE_SECTION), used, aligned(4))) = {                    \
          (uint32_t)sizeof(MNEME_NOTE_NAME),                                                \
          (uint32_t)sizeof(mneme_note),                                                     \
          MNEME_NOTE_TYPE,                                                                  \
          MNEME_NOTE_NAME,                                                                  \
          {(uint32_t)sizeof(mneme_note), MNEME_PLUGIN_DIRTY ? MNEME_NOTE_DIRTY : 0u,        \
           MNEME_PLUGIN_ABI_MIN, MNEME_ABI_VERSION, MNEME_PLUGIN_CUDA_RUNTIME, 0u, id_text, \
           version_text, MNEME_SDK_VERSION, MNEME_COMPILER_NAME, MNEME_PLUGIN_COMMIT,       \
           features_text, MNEME_PLUGIN_ARCHITECTURES, MNEME_PLUGIN_LIBRARIES}}

/* ---- the entry symbol ---------------------------------------------------------------------- */

#define MNEME_EXPORT __attribute__((visibility("default")))

/* Appends text to a buffer of `size` bytes at `at`; returns the new end. Always NUL-terminated. */
static inline size_t mneme_sdk_append(char* buffer, size_t at, size_t size, const char* text) {
  while (*text != '\0' && at + 1 < size) {
    buffer[at++] = *text++;
  }
  buffer[at] = '\0';
  return at;
}

/* Appends "major.minor". */
static inline size_t mneme_sdk_append_version(char* buffer, size_t at, size_t size,
                                              uint32_t version) {
  const uint32_t parts[2] = {version >> 16, version & 0xFFFFu};
  int part = 0;
  for (part = 0; part < 2; ++part) {
    char digits[8] = {0};
    size_t n = 0;
    uint32_t rest = parts[part];
    char text[8] = {0};
    size_t i = 0;
    do {
      digits[n++] = "0123456789"[rest % 10u];
      rest /= 10u;
    } while (rest != 0u);
    for (i = 0; i < n; ++i) {
      text[i] = digits[n - 1 - i];
    }
    at = mneme_sdk_append(buffer, at, size, text);
    if (part == 0) {
      at = mneme_sdk_append(buffer, at, size, ".");
    }
  }
  return at;
}

/* Negotiates for a plugin that speaks the ABI from MNEME_PLUGIN_ABI_MIN to that of these headers.
 */
static inline mneme_status mneme_sdk_negotiate(const mneme_host_offer* offer,
                                               mneme_plugin_answer* answer,
                                               const mneme_plugin* plugin) {
  const uint32_t target = MNEME_ABI_VERSION;
  const uint32_t minimum = MNEME_PLUGIN_ABI_MIN;
  const uint32_t effective = offer->abi_current < target ? offer->abi_current : target;
  answer->abi_min = minimum;
  answer->abi_target = target;
  answer->effective = effective;
  if (effective < minimum || effective < offer->abi_min) {
    char* const reason = answer->reason;
    const size_t size = sizeof(answer->reason);
    size_t at = mneme_sdk_append(reason, 0, size, "no common ABI version: the plugin speaks ");
    at = mneme_sdk_append_version(reason, at, size, minimum);
    at = mneme_sdk_append(reason, at, size, " to ");
    at = mneme_sdk_append_version(reason, at, size, target);
    at = mneme_sdk_append(reason, at, size, ", the host ");
    at = mneme_sdk_append_version(reason, at, size, offer->abi_min);
    at = mneme_sdk_append(reason, at, size, " to ");
    mneme_sdk_append_version(reason, at, size, offer->abi_current);
    answer->plugin = NULL;
    return MNEME_E_VERSION;
  }
  answer->plugin = plugin;
  return MNEME_OK;
}

/* In one C file of a plugin: the entry symbol and the note, for a `static const mneme_plugin`. */
#define MNEME_PLUGIN_ENTRY(table, id_text, version_text, features_text)       \
  MNEME_PLUGIN_NOTE(id_text, version_text, features_text);                    \
  MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, \
                                               mneme_plugin_answer* answer) { \
    return mneme_sdk_negotiate(offer, answer, &(table));                      \
  }                                                                           \
  typedef int mneme_plugin_entry_needs_a_semicolon

#endif /* MNEME_SDK_H_ */

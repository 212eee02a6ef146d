/* mneme/note.h: the ELF note ".note.mneme" that tells the host what a file is before any of its code runs. Written by MNEME_PLUGIN_NOTE (plugin.h, plugin.hpp). */
#ifndef MNEME_NOTE_H_
#define MNEME_NOTE_H_

#include "mneme/abi.h"

#define MNEME_NOTE_SECTION ".note.mneme"
#define MNEME_NOTE_NAME "mneme"
#define MNEME_NOTE_TYPE 1u

/* Descriptor of the note. Text fields are NUL-terminated; lists are separated by single spaces. */
typedef struct mneme_note {
  uint32_t struct_size;
  uint32_t flags; /* MNEME_NOTE_DIRTY */
  uint32_t abi_min;
  uint32_t abi_target;
  uint32_t cuda_runtime; /* CUDART_VERSION that the plugin was built with, 0 = no CUDA code */
  uint32_t reserved;
  char id[96];
  char version[32];
  char sdk[32];
  char compiler[96];
  char commit[48];        /* source commit, empty = unknown */
  char features[256];     /* host groups that the plugin uses: "mneme.op/1 mneme.state/1 mneme.log/1?". Others are NULL for it; "?": it can do without this one */
  char architectures[128]; /* "sm_80 sm_90" */
  char libraries[256];    /* needed shared libraries beyond the C and C++ runtimes */
} mneme_note;

/* The plugin was built from a tree with uncommitted changes. */
#define MNEME_NOTE_DIRTY 1u

typedef struct mneme_note_record {
  uint32_t name_size;
  uint32_t descriptor_size;
  uint32_t type;
  char name[8];
  mneme_note note;
} mneme_note_record;

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
#if defined(__clang__)
#define MNEME_COMPILER_NAME "clang " __clang_version__
#elif defined(__GNUC__)
#define MNEME_COMPILER_NAME "gcc " __VERSION__
#else
#define MNEME_COMPILER_NAME "unknown"
#endif

/* Defines the note. id and version are string literals, features a string literal of group ids. */
#define MNEME_PLUGIN_NOTE(id_text, version_text, features_text)                                                                            \
  static const mneme_note_record mneme_plugin_note_record __attribute__((section(MNEME_NOTE_SECTION), used, aligned(4))) = {               \
      (uint32_t)sizeof(MNEME_NOTE_NAME),                                                                                                   \
      (uint32_t)sizeof(mneme_note),                                                                                                        \
      MNEME_NOTE_TYPE,                                                                                                                     \
      MNEME_NOTE_NAME,                                                                                                                     \
      {(uint32_t)sizeof(mneme_note), MNEME_PLUGIN_DIRTY ? MNEME_NOTE_DIRTY : 0u, MNEME_ABI_VERSION, MNEME_ABI_VERSION,                     \
       MNEME_PLUGIN_CUDA_RUNTIME, 0u, id_text, version_text, MNEME_SDK_VERSION, MNEME_COMPILER_NAME, MNEME_PLUGIN_COMMIT, features_text,   \
       MNEME_PLUGIN_ARCHITECTURES, MNEME_PLUGIN_LIBRARIES}}

#endif /* MNEME_NOTE_H_ */

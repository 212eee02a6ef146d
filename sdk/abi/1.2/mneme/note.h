/* mneme/note.h: the ELF note ".note.mneme", which tells the host what a file is before any of its
 * code runs. MNEME_PLUGIN_NOTE (sdk.h) writes it.
 *
 * A plugin has exactly one. The host refuses a file without one, with several, or with one that is
 * not as said here; `mneme plugins list` prints it. */
#ifndef MNEME_NOTE_H_
#define MNEME_NOTE_H_

#include "mneme/abi.h"

#define MNEME_NOTE_SECTION ".note.mneme"
#define MNEME_NOTE_NAME "mneme"
#define MNEME_NOTE_TYPE 1u

/* The plugin was built from a tree with uncommitted changes. */
#define MNEME_NOTE_DIRTY 1u

/* Descriptor of the note. Texts end in NUL and hold printable characters; lists are separated by
 * single spaces.
 *
 * `features` lists the host groups that the plugin uses: "mneme.op/1 mneme.state/1 mneme.log/1?".
 * A "?" behind a group says that the plugin can do without it. A host that lacks another one
 * refuses the plugin, and gives the plugin no group that is not listed. */
typedef struct mneme_note {
  uint32_t struct_size;
  uint32_t flags;   /* MNEME_NOTE_DIRTY */
  uint32_t abi_min; /* the ABI versions that the plugin speaks, 0.1 at least */
  uint32_t abi_target;
  uint32_t cuda_runtime; /* CUDART_VERSION that the plugin was built with, 0 = no CUDA code */
  uint32_t reserved;
  char id[96];      /* letters, digits, '.', '_', '-': "org.example.decayed_mean" */
  char version[32]; /* not empty */
  char sdk[32];
  char compiler[96];
  char commit[48]; /* source commit, empty = unknown */
  char features[256];
  char architectures[128]; /* of the CUDA code: "sm_80 sm_90" */
  char libraries[256];     /* needed shared libraries beyond the C and C++ runtimes */
} mneme_note;

/* The whole note, as it lies in the section. */
typedef struct mneme_note_record {
  uint32_t name_size;
  uint32_t descriptor_size;
  uint32_t type;
  char name[8];
  mneme_note note;
} mneme_note_record;

#endif /* MNEME_NOTE_H_ */

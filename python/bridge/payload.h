/* payload.h: a memory written in Python, as it lies in the section ".mneme.python" of a plugin
 * file.
 *
 * The bridge, python_memory.so, is built once and holds an empty payload. A plugin file of a memory
 * is a copy of the bridge with three changes, for which no compiler is needed:
 *   - the payload, at the one place of the file with MNEME_PAYLOAD_MAGIC, is filled as said here,
 *     from what `python -m mneme.memory describe FILE` prints;
 *   - id and version of the note (mneme/note.h) are the memory's;
 *   - nothing else: sizes and offsets of the file stay.
 *
 * Texts lie in `text`, each with its NUL. A "place" is an offset into `text`; place 0 is the empty
 * text. All numbers are little-endian. */
#ifndef MNEME_PYTHON_PAYLOAD_H_
#define MNEME_PYTHON_PAYLOAD_H_

#include <stdint.h>

#define MNEME_PAYLOAD_SECTION ".mneme.python"
#define MNEME_PAYLOAD_MAGIC "MNEME-PYTHON-001" /* 16 bytes, and no NUL in the file */

/* The note of the bridge itself. */
#define MNEME_BRIDGE_ID "org.mneme.python_memory"

#define MNEME_PAYLOAD_OPTIONS 64
#define MNEME_PAYLOAD_NUMBERS 1024
#define MNEME_PAYLOAD_FILES 64
#define MNEME_PAYLOAD_TEXT (1024 * 1024)

/* Hooks that the memory has. */
enum {
  MNEME_PAYLOAD_BEGIN = 1,
  MNEME_PAYLOAD_ABSORB = 2,
  MNEME_PAYLOAD_CONTEXT = 4,
  MNEME_PAYLOAD_RIDE = 8,
  MNEME_PAYLOAD_READ = 16,
  MNEME_PAYLOAD_FINISH = 32
};

/* One option: fields are those of mneme_option (mneme/config.h). */
typedef struct mneme_payload_option {
  uint32_t type;            /* MNEME_OPTION_* */
  uint32_t flags;           /* MNEME_OPTION_AT_EVALUATION ... */
  uint32_t key;             /* place */
  uint32_t help;            /* place */
  uint32_t default_text;    /* place: TEXT, CHOICE */
  uint32_t default_numbers; /* INTEGERS, REALS: the first of them in `integers` or `reals` */
  uint32_t default_count;
  uint32_t choices; /* place of the first word; the others follow behind its NUL */
  uint32_t choice_count;
  uint32_t reserved;
  int64_t default_integer; /* BOOLEAN: 0 or 1 */
  int64_t min_integer;
  int64_t max_integer;
  double default_real;
  double min_real;
  double max_real;
} mneme_payload_option;

/* A module of Python: the memory's own file, which is the first, and modules of the user's that it
 * imports. */
typedef struct mneme_payload_file {
  uint32_t module; /* place: "my_memory", "my_package.parts" */
  uint32_t name;   /* place: the file's name in messages, "my_memory.py", "my_package/parts.py" */
  uint32_t source; /* place: the file's text in UTF-8 */
  uint32_t is_package; /* 1 for an __init__.py */
} mneme_payload_file;

typedef struct mneme_payload {
  char magic[16];
  uint32_t hooks;        /* MNEME_PAYLOAD_*; 0 = the bridge without a memory */
  uint32_t option_count; /* of `options` */
  uint32_t file_count;   /* of `files` */
  uint32_t text_bytes;   /* of `text`, the last NUL included */
  uint32_t id;           /* places */
  uint32_t version;
  uint32_t summary;
  uint32_t losses;     /* "first|second" */
  uint32_t class_name; /* of the memory, in the first file */
  uint32_t package;    /* version of the Python package that described it */
  uint32_t reserved[6];
  mneme_payload_option options[MNEME_PAYLOAD_OPTIONS];
  int64_t integers[MNEME_PAYLOAD_NUMBERS];
  double reals[MNEME_PAYLOAD_NUMBERS];
  mneme_payload_file files[MNEME_PAYLOAD_FILES];
  char text[MNEME_PAYLOAD_TEXT];
} mneme_payload;

#endif /* MNEME_PYTHON_PAYLOAD_H_ */

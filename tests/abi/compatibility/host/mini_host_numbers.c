/* The numbers of a run, which are printed or compared with those in a file. */
#include <math.h>
#include <stdio.h>

#include "mini_host.h"

enum { kMostLines = 64 };
typedef struct line {
  char name[48];
  double values[kMostValues];
  int64_t count;
} line;
static line lines[kMostLines];
static int n_lines;
int records_numbers;

void record(const char* name, int64_t segment, int64_t layer, const double* values, int64_t count) {
  line* to = &lines[n_lines];
  if (!records_numbers) {
    return;
  }
  if (n_lines == kMostLines || count > kMostValues) {
    give_up("too many numbers", "at most 64 lines of 64", "more");
  }
  ++n_lines;
  if (layer >= 0) {
    snprintf(to->name, sizeof(to->name), "%s.%d.%d", name, (int)segment, (int)layer);
  } else {
    snprintf(to->name, sizeof(to->name), "%s.%d", name, (int)segment);
  }
  memcpy(to->values, values, (size_t)count * sizeof(double));
  to->count = count;
}

void record_tensor(const char* name, int64_t segment, int64_t layer, mneme_tensor t) {
  record(name, segment, layer, t == 0 ? NULL : tensor_at(t)->data,
         t == 0 ? 0 : tensor_at(t)->count);
}

int compare_numbers(const char* path) {
  FILE* file = fopen(path, "r");
  int failures = 0;
  int i = 0;
  if (file == NULL) {
    give_up("the file of numbers", "a file that can be read", path);
  }
  for (i = 0; i < n_lines; ++i) {
    char name[64] = "";
    long long count = -1;
    int64_t k = 0;
    if (fscanf(file, "%63s %lld", name, &count) != 2 || strcmp(name, lines[i].name) != 0 ||
        count != lines[i].count) {
      fprintf(stderr, "error: line %d: expected %s with %lld numbers, got %s with %lld\n", i + 1,
              name, count, lines[i].name, (long long)lines[i].count);
      fclose(file);
      return 1;
    }
    for (k = 0; k < lines[i].count; ++k) {
      double expected = NAN;
      const int is_read = fscanf(file, "%lf", &expected) == 1;
      const double got = lines[i].values[k];
      const double tolerance = strncmp(name, "gradient", 8) == 0 ? 1e-7 : 1e-12;
      if (!is_read || !(fabs(got - expected) <= tolerance * (1 + fabs(expected)))) {
        fprintf(stderr, "error: %s[%lld]: expected %.17g, got %.17g\n", name, (long long)k,
                expected, got);
        ++failures;
        break;
      }
    }
  }
  {
    char rest[64] = "";
    if (failures == 0 && fscanf(file, "%63s", rest) == 1) {
      fprintf(stderr, "error: the run ended before the numbers: expected %s, got nothing\n", rest);
      ++failures;
    }
  }
  fclose(file);
  return failures > 0;
}

void print_numbers(void) {
  int i = 0;
  int64_t k = 0;
  for (i = 0; i < n_lines; ++i) {
    printf("%s %lld", lines[i].name, (long long)lines[i].count);
    for (k = 0; k < lines[i].count; ++k) {
      printf(" %.17g", lines[i].values[k]);
    }
    printf("\n");
  }
}

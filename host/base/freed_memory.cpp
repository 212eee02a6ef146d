#include "host/base/freed_memory.hpp"

#include <malloc.h>

namespace mneme {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace mneme

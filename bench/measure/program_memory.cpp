// Every bench allocates as the program does, before its main().
#include "host/base/freed_memory.hpp"

namespace mneme::bench {
namespace {

[[maybe_unused]] const bool is_freed_memory_kept = [] {
  keep_freed_memory();
  ask_for_huge_pages();
  return true;
}();

}  // namespace
}  // namespace mneme::bench

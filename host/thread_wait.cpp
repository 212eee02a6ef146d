// Lets OpenMP's threads sleep soon when they wait for work.
//
// libgomp, which LibTorch computes with, lets a thread that waits look for work in a loop for
// milliseconds. Beside other programs, or where a container has fewer cores than it shows, such
// threads take the cores that the working ones need, and a program with two threads was twelve
// times slower than with one (docs/performance.md, "Threads"). libgomp reads its settings while it
// is loaded. Only functions of the section .preinit_array run before that, and there the
// environment cannot be changed for the process itself: it starts itself again. Variables of the
// user's own win.
#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstring>

// A sanitizer's own code has to run before all other.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MNEME_HAS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MNEME_HAS_SANITIZER
#endif

#ifndef MNEME_HAS_SANITIZER

namespace {

// libgomp's, and those of LLVM's and Intel's runtimes, which a LibTorch of one's own may have.
constexpr std::array kSettings = {
    "GOMP_SPINCOUNT=", "OMP_WAIT_POLICY=", "KMP_BLOCKTIME=", "KMP_LIBRARY="};
// 2,000 turns are 20 to 100 microseconds: longer than the serial work between most operations.
char spin_count[] = "GOMP_SPINCOUNT=2000";
char wait_policy[] = "OMP_WAIT_POLICY=PASSIVE";
constexpr std::size_t kMostVariables = 4096;

bool is_setting(const char* variable) {
  for (const char* const name : kSettings) {
    if (std::strncmp(variable, name, std::strlen(name)) == 0) return true;
  }
  return false;
}

// When it cannot start itself again, the process goes on as it is.
void start_with_few_spins(int, char** argv, char** environment) {
  // A program that is started by naming the loader is not what /proc/self/exe says.
  if (getauxval(AT_BASE) == 0) return;
  static std::array<char*, kMostVariables + 3> variables;
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables || is_setting(environment[count])) return;
    variables[count] = environment[count];
  }
  variables[count++] = spin_count;
  variables[count] = wait_policy;
  static std::array<char, PATH_MAX> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return;
  path[static_cast<std::size_t>(length)] = '\0';
  execve(path.data(), argv, variables.data());
}

}  // namespace

extern "C" __attribute__((section(".preinit_array"),
                          used)) void (*const mneme_before_all)(int, char**,
                                                                char**) = &start_with_few_spins;

#endif

// Threads are born with every signal blocked that can be: handlers run on the main thread alone.
//
// OpenMP's threads come and go with the number that a region asks for, inside libraries, and take
// part in oneDNN's products, which no signal handler may interrupt (host/memory/ops/
// signal_shield.hpp). Their mask can be set only where they are made. Whoever wants signals on a
// thread of his own unblocks them there.
#include <dlfcn.h>
#include <pthread.h>

#include "host/base/process.hpp"

// The sanitizers put their own function here.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MNEME_HAS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MNEME_HAS_SANITIZER
#endif

#ifndef MNEME_HAS_SANITIZER

// Found before the C library's by whatever the process loads.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attr,
                                                                     void* (*start)(void*),
                                                                     void* argument) noexcept {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  const sigset_t blocked = mneme::signals_that_can_wait();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const int result = create(thread, attr, start, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

#endif

// Starts every thread with all signals blocked, so that handlers run on the main thread only.
//
// OpenMP's threads come and go with the number that a region asks for, inside libraries, and take
// part in oneDNN's products, which no signal handler may interrupt (SignalShield in
// host/tensor/device.hpp). Their mask can be set only where they are created. Code that wants
// signals on its own thread must unblock them there.
#include <dlfcn.h>
#include <pthread.h>

#include "host/base/process/process.hpp"

// The sanitizers replace the same function.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MNEME_HAS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MNEME_HAS_SANITIZER
#endif

#ifndef MNEME_HAS_SANITIZER

// Exported, so that every library of the process calls it in place of the C library's.
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

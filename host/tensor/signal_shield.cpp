#include "host/tensor/signal_shield.hpp"

#include <pthread.h>

#include "host/base/signal_sets.hpp"

namespace mneme::tensor {

SignalShield::SignalShield() : before_{} {
  static const sigset_t set = signals_that_can_wait();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalShield::~SignalShield() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace mneme::tensor

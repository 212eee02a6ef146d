#include "host/cli/interrupt.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace mneme::cli {
namespace {

TEST(Interrupt, TheFirstSignalIsRemembered) {
  const InterruptGuard guard;
  EXPECT_NO_THROW(throw_if_interrupted());
  raise(SIGTERM);
  EXPECT_EQ(InterruptGuard::signal(), SIGTERM);
  EXPECT_THROW(throw_if_interrupted(), Interrupted);
}

TEST(Interrupt, AnotherGuardBeginsAnew) {
  {
    const InterruptGuard guard;
    raise(SIGINT);
  }
  const InterruptGuard guard;
  EXPECT_EQ(InterruptGuard::signal(), 0);
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  for (const int first : {SIGINT, SIGTERM}) {
    for (const int second : {SIGINT, SIGTERM}) {
      EXPECT_EXIT(
          {
            const InterruptGuard guard;
            raise(first);
            raise(second);
          },
          testing::KilledBySignal(second), "");
    }
  }
}

}  // namespace
}  // namespace mneme::cli

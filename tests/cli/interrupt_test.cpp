#include "host/cli/interrupt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "host/base/process/process.hpp"

namespace mneme::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

void pass_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// Sends signals to the process and waits until the waiting thread has taken them.
void send(std::initializer_list<int> signals) {
  for (const int signal : signals) ::kill(::getpid(), signal);
  sigset_t waiting = signal_set({});
  const auto is_waiting = [&] {
    sigpending(&waiting);
    for (const int signal : signals) {
      if (sigismember(&waiting, signal) == 1) return true;
    }
    return false;
  };
  while (is_waiting()) pass_a_moment();
}

void send_and_wait(int signal) {
  ::kill(::getpid(), signal);
  while (InterruptGuard::signal() == 0) pass_a_moment();
}

[[noreturn]] void wait_for_the_end() {
  for (;;) ::pause();
}

// What is written to stderr.
class ErrorText {
 public:
  ErrorText() : stderr_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~ErrorText() {
    ::dup2(stderr_, STDERR_FILENO);
    for (const int descriptor : {ends_[0], ends_[1], stderr_}) ::close(descriptor);
  }
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;

  // Everything up to the next end of a line, for which it waits.
  std::string line() const {
    std::string text;
    for (char character = 0; character != '\n'; text += character) {
      if (::read(ends_[0], &character, 1) != 1) break;
    }
    return text;
  }
  bool is_empty() const {
    pollfd waiting{ends_[0], POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 0;
  }

 private:
  int stderr_;
  std::array<int, 2> ends_{};
};

class Interrupt : public testing::Test {
 protected:
  static void SetUpTestSuite() { take_stop_signals(); }
};

TEST_F(Interrupt, TheFirstSignalIsRemembered) {
  for (const int signal : kSignals) {
    const InterruptGuard guard;
    EXPECT_NO_THROW(throw_if_interrupted());
    send_and_wait(signal);
    EXPECT_EQ(InterruptGuard::signal(), signal);
    EXPECT_THROW(throw_if_interrupted(), Interrupted);
  }
}

TEST_F(Interrupt, AnotherGuardBeginsAnew) {
  {
    const InterruptGuard guard;
    send_and_wait(SIGINT);
  }
  const InterruptGuard guard;
  EXPECT_EQ(InterruptGuard::signal(), 0);
}

TEST_F(Interrupt, RepeatsAreOneRequest) {
  const InterruptGuard guard;
  send_and_wait(SIGTERM);
  const ErrorText err;
  send({SIGTERM, SIGINT, SIGHUP});
  send({SIGTERM});
  EXPECT_EQ(InterruptGuard::signal(), SIGTERM);
  EXPECT_TRUE(err.is_empty());
}

TEST_F(Interrupt, NoThreadTakesTheSignalsByItself) {
  std::array<bool, kSignals.size()> is_blocked{};
  std::thread([&] {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      is_blocked[i] = sigismember(&mask, kSignals[i]) == 1;
    }
  }).join();
  EXPECT_THAT(is_blocked, testing::Each(true));
  const sigset_t inherited = inherited_signal_mask();
  for (const int signal : kSignals) EXPECT_EQ(sigismember(&inherited, signal), 0);
}

TEST_F(Interrupt, ItIsSaidThatAStepIsWaitedFor) {
  const InterruptGuard guard;
  const ErrorText err;
  send({SIGTERM});  // and nobody asks for it
  EXPECT_EQ(err.line(),
            "mneme: SIGTERM: mneme stops when the running step is done; a second signal ends the "
            "process at once, without saving\n");
}

TEST(InterruptDeathTest, ASecondSignalThatComesLaterEndsTheProcess) {
  for (const int first : kSignals) {
    for (const int second : {SIGINT, SIGHUP}) {
      EXPECT_EXIT(
          {
            take_stop_signals();
            const InterruptGuard guard;
            send_and_wait(first);
            std::this_thread::sleep_for(std::chrono::milliseconds(510));
            ::kill(::getpid(), second);
            wait_for_the_end();
          },
          testing::KilledBySignal(second),
          "mneme: ended at once by a second signal, " + signal_name(second));
    }
  }
}

TEST(InterruptDeathTest, WithoutAGuardTheFirstSignalEndsTheProcess) {
  for (const int signal : kSignals) {
    EXPECT_EXIT(
        {
          take_stop_signals();
          ::kill(::getpid(), signal);
          wait_for_the_end();
        },
        testing::KilledBySignal(signal), "mneme: stopped by " + signal_name(signal));
  }
}

TEST(InterruptDeathTest, WhatWasIgnoredStaysIgnored) {
  EXPECT_EXIT(
      {
        ::signal(SIGHUP, SIG_IGN);
        take_stop_signals();
        ::kill(::getpid(), SIGHUP);
        ::kill(::getpid(), SIGTERM);
        wait_for_the_end();
      },
      testing::KilledBySignal(SIGTERM), "^mneme: stopped by SIGTERM\n$");
}

}  // namespace
}  // namespace mneme::cli

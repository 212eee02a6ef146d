// A step of generation does not wait for the device; the host waits once for several tokens.
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "host/generate/generator.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"
#include "tests/generate/support.hpp"

namespace mneme::generate {
namespace {

std::map<std::string, int>* called = nullptr;

// The operations whose result, or its size, depends on a tensor's values: on a device the host has
// to wait for them.
std::unique_ptr<at::ObserverContext> count_waiting(const at::RecordFunction& function) {
  static const std::set<std::string> kWaiting = {"aten::_local_scalar_dense",
                                                 "aten::nonzero",
                                                 "aten::nonzero_numpy",
                                                 "aten::masked_select",
                                                 "aten::equal",
                                                 "aten::_unique",
                                                 "aten::_unique2",
                                                 "aten::unique_dim",
                                                 "aten::is_nonzero",
                                                 "aten::argwhere",
                                                 "aten::unique_consecutive"};
  if (kWaiting.contains(function.name())) ++(*called)[function.name()];
  return nullptr;
}

// Counts them while it lives.
class WaitingOperations {
 public:
  WaitingOperations() {
    called = &counts_;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(count_waiting));
  }
  ~WaitingOperations() {
    at::removeCallback(handle_);
    called = nullptr;
  }
  WaitingOperations(const WaitingOperations&) = delete;
  WaitingOperations& operator=(const WaitingOperations&) = delete;

  [[nodiscard]] const std::map<std::string, int>& counts() const { return counts_; }

 private:
  std::map<std::string, int> counts_;
  at::CallbackHandle handle_ = 0;
};

TEST(Waits, CountsOperationsThatWait) {
  const at::Tensor ones = at::ones({3});
  const WaitingOperations waiting;
  EXPECT_EQ(at::nonzero(ones).size(0) + ones[0].item<std::int64_t>(), 4);
  EXPECT_EQ(waiting.counts(),
            (std::map<std::string, int>{{"aten::_local_scalar_dense", 1}, {"aten::nonzero", 1}}));
}

class StepOf : public testing::TestWithParam<Memory> {};

// The model and the memory's hooks, in an open segment: nothing.
TEST_P(StepOf, AsksForNoValueOfATensor) {
  backbone::MemorySession session = session_with(GetParam(), at::kFloat);
  const at::NoGradGuard no_grad;
  TokenFeeder feeder(*session.model, session.stack);
  const auto feed = [&](std::uint64_t seed, std::int64_t tokens) {
    const at::Tensor top = feeder.feed(backbone::random_ids(seed, 1, tokens, 11), 6);
    return session.model->log_probabilities(top);
  };
  feed(1, 20);
  ASSERT_EQ(feeder.held(), 2);
  const WaitingOperations waiting;
  for (std::uint64_t i = 0; i < 3; ++i) feed(i, 1);
  EXPECT_EQ(waiting.counts(), (std::map<std::string, int>{}));
}

INSTANTIATE_TEST_SUITE_P(Memories, StepOf, testing::ValuesIn(memories()),
                         testing::PrintToStringParamName());

// Counts the warnings that LibTorch's mode for synchronisations gives.
class WaitWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    count_ += warning.msg().find("called a synchronizing CUDA operation") != std::string::npos;
  }
  [[nodiscard]] int take() { return std::exchange(count_, 0); }

 private:
  int count_ = 0;
};

// LibTorch's switch for them, c10::cuda::warning_state(), an enumeration: 0 off, 1 warn. It is a
// variable of an inline function, and the host links no CUDA library.
int* sync_debug_mode() {
  return static_cast<int*>(dlsym(RTLD_DEFAULT, "_ZZN3c104cuda13warning_stateEvE14warning_state_"));
}

class StepOnCuda : public testing::TestWithParam<Memory> {
 protected:
  void SetUp() override {
    if (error_of([&] { device_ = tensor::open_device("cuda"); }) != "") {
      GTEST_SKIP() << "there is no CUDA device";
    }
    mode_ = sync_debug_mode();
    ASSERT_NE(mode_, nullptr) << "LibTorch's switch has another name";
  }
  void TearDown() override {
    if (mode_ != nullptr) *mode_ = 0;
  }

  c10::Device device_ = c10::kCPU;
  int* mode_ = nullptr;
};

TEST_P(StepOnCuda, WaitsOnce) {
  backbone::MemorySession session = session_with(GetParam(), at::kFloat, device_);
  WaitWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  const c10::WarningUtils::WarnAlways always(true);
  Generator generator(*session.model, session.stack, {.segment = 8, .seed = 3});
  generator.prompt(random_prompt(7, 19));
  next(generator, 1);
  tensor::synchronize(device_);
  *mode_ = 1;
  static_cast<void>(at::ones({1}, at::TensorOptions(device_)).item<float>());
  ASSERT_EQ(warnings.take(), 1) << "the switch does nothing";
  for (int i = 0; i < 3; ++i) {
    next(generator, 1);
    EXPECT_EQ(warnings.take(), 1) << "token " << i;
  }
  next(generator, 15);  // 1, 2, 4 and 8 tokens at once
  EXPECT_EQ(warnings.take(), 4);
}

// Those whose kernels run on CUDA.
std::vector<Memory> real_memories() {
  std::vector<Memory> all = memories();
  std::erase_if(all, [](const Memory& m) { return m.tiers.find("test_") != std::string::npos; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, StepOnCuda, testing::ValuesIn(real_memories()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace mneme::generate

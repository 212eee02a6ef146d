// Sums between GPUs with NVIDIA's NCCL, a library that comes with LibTorch's wheel and is opened
// when it is needed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "host/ranks/communicator.hpp"

namespace mneme::ranks {

// The ranks' GPUs, one each. One thread at a time.
class Nccl {
 public:
  // Joins the GPUs that are the threads' present devices; collective. On all ranks nullptr, with
  // the reason, when the library is missing or too old, or the GPUs cannot be joined, as two ranks
  // on one GPU.
  [[nodiscard]] static std::unique_ptr<Nccl> open(Communicator& ranks, std::string& why_not);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // "2.28.9".
  [[nodiscard]] const std::string& version() const { return version_; }

  // Enqueues the sum over all ranks, in place, of numbers in the GPU's memory on a stream
  // (cudaStream_t). Every rank calls it in the same order. Error (kDevice) when NCCL refuses.
  void sum(void* numbers, std::size_t count, Number type, void* stream);

 private:
  struct Library;

  Nccl(std::unique_ptr<Library> library, void* communicator);

  std::unique_ptr<Library> library_;
  void* communicator_;
  std::string version_;
};

}  // namespace mneme::ranks

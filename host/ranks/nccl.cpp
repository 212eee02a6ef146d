#include "host/ranks/nccl.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"

namespace mneme::ranks {

// ncclUniqueId.
struct UniqueId {
  std::array<char, 128> bytes = {};
};

namespace {

// Of nccl.h, whose values are stable.
constexpr std::array kNames = {"libnccl.so.2", "libnccl.so"};
constexpr int kSuccess = 0, kSumOperation = 0;
constexpr int kInt8 = 0, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;
constexpr int kOldest = 21000;  // 2.10, the first with bf16

int type_of(Number type) {
  return type == Number::kF64 ? kFloat64 : type == Number::kF32 ? kFloat32 : kBfloat16;
}

std::string version_text(int code) {
  return str(code / 10000, '.', code / 100 % 100, '.', code % 100);
}

}  // namespace

struct Nccl::Library {
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(void**, int, UniqueId, int) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, void*, void*) = nullptr;
  int (*destroy)(void*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  std::string version;

  // "" when it can be used, else why not.
  std::string open() {
    void* handle = nullptr;
    for (const int mode : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
      for (const char* const name : kNames) {
        if (handle == nullptr) handle = ::dlopen(name, mode);
      }
    }
    if (handle == nullptr) return str("the library ", kNames.front(), " is missing");
    const auto find = [handle](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(handle, name));
      return function != nullptr;
    };
    const bool has_all =
        find(get_version, "ncclGetVersion") && find(get_unique_id, "ncclGetUniqueId") &&
        find(init_rank, "ncclCommInitRank") && find(all_reduce, "ncclAllReduce") &&
        find(reduce_scatter, "ncclReduceScatter") && find(all_gather, "ncclAllGather") &&
        find(destroy, "ncclCommDestroy") && find(error_text, "ncclGetErrorString");
    int code = 0;
    if (!has_all || get_version(&code) != kSuccess) return "the library is no NCCL";
    version = version_text(code);
    if (code < kOldest) {
      return str("NCCL ", version, " is too old: expected ", version_text(kOldest), " or newer");
    }
    return "";
  }
};

Nccl::Nccl(std::unique_ptr<Library> library, void* communicator, int rank)
    : library_(std::move(library)),
      communicator_(communicator),
      rank_(rank),
      version_(library_->version) {}

Nccl::~Nccl() { library_->destroy(communicator_); }

std::unique_ptr<Nccl> Nccl::open(Communicator& ranks, std::string& why_not) {
  constexpr Purpose kPurpose = "joining the GPUs";
  auto library = std::make_unique<Library>();
  std::string own = library->open();
  UniqueId id;
  if (own.empty() && ranks.is_first() && library->get_unique_id(&id) != kSuccess) {
    own = "NCCL found no network interface";
  }
  // All or none: a rank alone would wait for ever.
  const auto first_reason = [&](const std::string& reason) {
    const std::vector<std::string> all = ranks.all_gather(reason, kPurpose);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].empty()) return str(name_of(ranks, static_cast<int>(rank)), ": ", all[rank]);
    }
    return std::string();
  };
  why_not = first_reason(own);
  if (!why_not.empty()) return nullptr;
  ranks.broadcast(0, id.bytes.data(), id.bytes.size(), kPurpose);
  void* communicator = nullptr;
  const int status = library->init_rank(&communicator, ranks.size(), id, ranks.rank());
  own = status == kSuccess ? std::string()
                           : str("NCCL ", library->version, ": ", library->error_text(status),
                                 " (each rank needs a GPU of its own)");
  why_not = first_reason(own);
  if (why_not.empty())
    return std::unique_ptr<Nccl>(new Nccl(std::move(library), communicator, ranks.rank()));
  if (status == kSuccess) library->destroy(communicator);
  return nullptr;
}

void Nccl::check(int status) const {
  if (status == kSuccess) return;
  throw_device({.where = "NCCL " + version_,
                .failed = "the GPUs could not exchange their numbers",
                .got = library_->error_text(status),
                .hint = "NCCL_DEBUG=WARN says more"});
}

void Nccl::sum(void* numbers, std::size_t count, Number type, void* stream) {
  check(library_->all_reduce(numbers, numbers, count, type_of(type), kSumOperation, communicator_,
                             stream));
}

void Nccl::sum_scatter(void* numbers, std::size_t count, Number type, void* stream) {
  char* const own =
      static_cast<char*>(numbers) + static_cast<std::size_t>(rank_) * count * size_of(type);
  check(library_->reduce_scatter(numbers, own, count, type_of(type), kSumOperation, communicator_,
                                 stream));
}

void Nccl::share(void* bytes, std::size_t count, void* stream) {
  const char* const own = static_cast<const char*>(bytes) + static_cast<std::size_t>(rank_) * count;
  check(library_->all_gather(own, bytes, count, kInt8, communicator_, stream));
}

}  // namespace mneme::ranks

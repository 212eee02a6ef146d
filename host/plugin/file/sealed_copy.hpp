// A private copy of a plugin's file that nobody can change any more.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace mneme::plugin {

// Seals a memory file against every change. 0, or errno: EBUSY once it has been in use for
// `patience`. The kernel itself may hold a page of it for a moment (compaction, swapping, access
// sampling), which fails a seal against writing as a writable map does.
int seal(int descriptor, std::chrono::milliseconds patience);

// Holds the bytes of a library in a sealed memory file (memfd), or, where the system offers none,
// in a file of its own in a folder that only this user can enter. Everything that is read before
// loading (headers, note, checksum) is read from this copy, and the loader maps this copy, so that
// what was checked is what runs: rebuilding the original in place changes neither.
//
// The descriptor stays open as long as the object lives. An object whose library was mapped must
// live to the process's end: the dynamic loader knows libraries by name and inode, and a descriptor
// number used again would give the old library under the new name (measured).
class SealedCopy {
 public:
  enum class Backing { kMemory, kTemporaryFile };

  // Copies the file. Errors: Error(kPlugin) that starts with `where`, for a folder, a special file,
  // an empty, unreadable or world-writable file, one beyond 2 GiB, or when no copy can be made.
  SealedCopy(const std::filesystem::path& path, std::string where,
             Backing backing = Backing::kMemory);
  ~SealedCopy();
  SealedCopy(const SealedCopy&) = delete;
  SealedCopy& operator=(const SealedCopy&) = delete;

  // The copied bytes, mapped read-only for the object's life.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  // SHA-256 of bytes(), hexadecimal.
  [[nodiscard]] const std::string& sha256() const noexcept { return sha256_; }
  // What to give to dlopen: "/proc/self/fd/N" or the temporary file. Different for every live
  // object.
  [[nodiscard]] const std::string& load_path() const noexcept { return load_path_; }
  [[nodiscard]] Backing backing() const noexcept { return backing_; }
  // Removes the temporary file's name; the mapping and the descriptor stay. Call after loading.
  void forget_name() noexcept;

 private:
  void read_into(int source, std::size_t size);
  bool open_memory();
  void open_temporary();
  void map();
  void release() noexcept;

  std::string where_;
  Backing backing_ = Backing::kMemory;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string sha256_;
  std::string load_path_;
  std::string folder_;  // of the temporary file, "" when there is none
};

}  // namespace mneme::plugin

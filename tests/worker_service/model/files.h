// Files for tests of what reads them.
#ifndef BOLE_TESTS_WORKER_SERVICE_MODEL_FILES_H_
#define BOLE_TESTS_WORKER_SERVICE_MODEL_FILES_H_

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/check.h"
#include "gtest/gtest.h"

namespace bole {

// A fresh directory, removed with everything in it at the end.
class ScopedDirectory {
 public:
  ScopedDirectory() : path_(::testing::TempDir() + "/bole_XXXXXX") {
    BOLE_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~ScopedDirectory() { std::filesystem::remove_all(path_); }

  ScopedDirectory(const ScopedDirectory&) = delete;
  ScopedDirectory& operator=(const ScopedDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const {
    return path_ + "/" + std::string(name);
  }

  // Writes the file and returns its path.
  std::string Write(std::string_view name, std::string_view content) const {
    std::ofstream file(File(name), std::ios::binary);
    file << content;
    file.close();
    BOLE_CHECK(file.good());
    return File(name);
  }

 private:
  std::string path_;
};

// The content of a safetensors file with this header, taken literally.
inline std::string RawSafetensors(std::string_view header,
                                  std::string_view data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file.append(header).append(data);
}

}  // namespace bole

#endif  // BOLE_TESTS_WORKER_SERVICE_MODEL_FILES_H_

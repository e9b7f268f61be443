// Certificates that change as an operator changes them.
#ifndef BOLE_TESTS_COMMON_NET_CERTIFICATE_ROTATION_H_
#define BOLE_TESTS_COMMON_NET_CERTIFICATE_ROTATION_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole::testing {

// Whoever renames a link to a folder changes both of its files at once.
class CertificateRotation {
 public:
  explicit CertificateRotation(const std::string& path) : path_(path) {}

  void Show(const std::string& folder, const CertifiedKey& server) {
    const ScopedDirectory& directory =
        *folders_.emplace_back(std::make_unique<ScopedDirectory>());
    directory.Write("cert.pem", server.cert);
    directory.Write("key.pem", server.key);
    const std::string link = path_ + "/" + folder;
    std::filesystem::create_directory_symlink(directory.path(), link + ".new");
    std::filesystem::rename(link + ".new", link);
  }

 private:
  const std::string path_;
  std::vector<std::unique_ptr<ScopedDirectory>> folders_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_NET_CERTIFICATE_ROTATION_H_

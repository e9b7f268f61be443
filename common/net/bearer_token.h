// The token by which a client authenticates itself.
#ifndef BOLE_COMMON_NET_BEARER_TOKEN_H_
#define BOLE_COMMON_NET_BEARER_TOKEN_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace bole {

// Follows a file that holds a token; white space around it is ignored.
// Thread-safe.
class BearerToken {
 public:
  // INVALID_ARGUMENT, naming the file and never what it holds, if it cannot be
  // read or is not one word of printable ASCII.
  static absl::StatusOr<std::unique_ptr<BearerToken>> Open(
      const std::string& path);

  // "Bearer TOKEN", for the metadata "authorization". Reads the file again;
  // while it is unusable, returns its last valid token.
  std::string Authorization();

 private:
  BearerToken(std::string path, std::string authorization);

  const std::string path_;
  Mutex mutex_;
  std::string authorization_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_BEARER_TOKEN_H_

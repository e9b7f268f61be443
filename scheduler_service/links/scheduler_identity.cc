#include "scheduler_service/links/scheduler_identity.h"

#include <unistd.h>

#include <array>
#include <random>

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

constexpr size_t kMaxHostBytes = 100;

}  // namespace

SchedulerIdentity NewSchedulerIdentity(int port) {
  std::array<char, kMaxHostBytes + 1> host = {};  // Ends with a zero.
  if (gethostname(host.data(), kMaxHostBytes) != 0) host.front() = '?';
  std::random_device random;
  std::uniform_int_distribution<uint64_t> any(1);  // To the highest there is.
  return {.name = absl::StrCat(host.data(), ":", port),
          .instance = any(random)};
}

}  // namespace bole

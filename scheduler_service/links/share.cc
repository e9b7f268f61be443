#include "scheduler_service/links/share.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace bole {
namespace {

constexpr int kMaxSchedulers = 1000;

}  // namespace

absl::StatusOr<Place> ParsePlace(std::string_view text) {
  const std::string copy(text);
  const size_t slash = copy.find('/');
  int part = 0;
  int parts = 0;
  if (slash == copy.npos || !absl::SimpleAtoi(copy.substr(0, slash), &part) ||
      !absl::SimpleAtoi(copy.substr(slash + 1), &parts) || part < 1 ||
      part > parts || parts > kMaxSchedulers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", copy, "' is not K/N, such as 1/2, with K from 1 to N and N up to ",
        kMaxSchedulers));
  }
  return Place{.rank = part - 1, .of = parts};
}

}  // namespace bole

// Who asks.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace bole {

inline constexpr size_t kMaxTenantCharacters = 64;

struct Identity {
  // Shares what there is fairly with other tenants. Empty: nobody in
  // particular, which is a tenant like any other.
  std::string tenant;
};

// Who says to be `tenant`. Until there are credentials, it is believed.
// INVALID_ARGUMENT, naming the value, unless it is empty or at most
// kMaxTenantCharacters of [A-Za-z0-9._-].
absl::StatusOr<Identity> Identify(std::string_view tenant);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_

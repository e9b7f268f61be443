// What each method over gRPC needs.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_METHOD_GUARD_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_METHOD_GUARD_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "grpcpp/support/status.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/identity.h"

namespace bole {

// The scope that each method needs, by "/PACKAGE.SERVICE/METHOD": all methods
// of bole.v1 and bole.peer.v1, and of health and reflection, which need none
// but a caller that is known.
const std::map<std::string, std::optional<Scope>, std::less<>>& MethodScopes();

// Asks the door about every call, a Generate included, before its message is
// read. A method that is not in MethodScopes() is PERMISSION_DENIED to every
// caller that is known: whoever adds one says there what it needs. Counts what
// is refused. For CallGuard.
grpc::Status GuardMethod(FrontDoor& door, std::string_view method,
                         std::string_view authorization);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_METHOD_GUARD_H_

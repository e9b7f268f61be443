// The scopes that gRPC methods need.
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

// The scope that each method needs, by "/PACKAGE.SERVICE/METHOD". It has all
// methods of bole.v1 and bole.peer.v1, and those of health and reflection,
// which need no scope, but a known caller.
const std::map<std::string, std::optional<Scope>, std::less<>>& MethodScopes();

// Checks every call with the door, Generate included, before its message is
// read. A method that is not in MethodScopes() is PERMISSION_DENIED to every
// known caller, so a new method has to be added there. Counts the refusals. For
// CallGuard.
grpc::Status GuardMethod(FrontDoor& door, std::string_view method,
                         std::string_view authorization);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_METHOD_GUARD_H_

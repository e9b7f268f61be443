#include "scheduler_service/door/grpc/method_guard.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "google/protobuf/descriptor.h"
#include "proto/bole.pb.h"
#include "proto/peers.pb.h"
#include "scheduler_service/door/grpc/refusal_status.h"

namespace bole {
namespace {

using Table = std::map<std::string, std::optional<Scope>, std::less<>>;

void AddService(const google::protobuf::FileDescriptor& file,
                const std::string& name, Scope scope, Table& table) {
  const auto* service = file.FindServiceByName(name);
  BOLE_CHECK(service != nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    table[absl::StrCat("/", service->full_name(), "/",
                       service->method(i)->name())] = scope;
  }
}

Table MakeTable() {
  Table table = {
      {"/grpc.health.v1.Health/Check", std::nullopt},
      {"/grpc.health.v1.Health/Watch", std::nullopt},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
       std::nullopt}};
  const auto& bole = *v1::GenerateRequest::descriptor()->file();
  AddService(bole, "BoleService", Scope::kGenerate, table);
  AddService(bole, "Admin", Scope::kAdmin, table);
  AddService(*peer::v1::PingRequest::descriptor()->file(), "Peers",
             Scope::kAdmin, table);
  return table;
}

}  // namespace

const Table& MethodScopes() {
  static const Table* const table = new Table(MakeTable());
  return *table;
}

grpc::Status GuardMethod(FrontDoor& door, std::string_view method,
                         std::string_view authorization) {
  const auto rule = MethodScopes().find(method);
  const bool is_known = rule != MethodScopes().end();
  std::optional<Refusal> refusal =
      door.Authorize({.authorization = std::string(authorization)},
                     is_known ? rule->second : std::nullopt);
  if (!refusal && !is_known) {
    refusal = Refusal{.reason = RefusalReason::kForbidden,
                      .message = "no token is enough for this method"};
  }
  if (!refusal) return grpc::Status::OK;
  door.metrics().Denied(refusal->reason);
  return {CodeOf(refusal->reason), refusal->message};
}

}  // namespace bole

// Counts calls over gRPC by how they ended.
#ifndef BOLE_COMMON_NET_HANDLED_CALLS_H_
#define BOLE_COMMON_NET_HANDLED_CALLS_H_

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/registry.h"

namespace bole {

// bole_grpc_server_handled_total{method,code}: `method` is one that a service
// of the server has, "bole.v1.BoleService/Generate", and `code` the name of a
// gRPC status. Calls that a guard refuses, and those of methods that no service
// has, are not counted.
//
// An interceptor sees the end of a call, but costs each of its messages another
// pass through a completion queue. So streams of many messages are counted by
// the code that ends them, and other calls by interceptors.
//
// Thread-safe.
class HandledCalls {
 public:
  // `registry` must outlive this. `streams` are the full names,
  // "/bole.v1.BoleService/Generate", of methods that Count() is called for;
  // they have a series from the start.
  HandledCalls(prometheus::Registry& registry, std::set<std::string> streams);

  // A call of `method`, a full name, has ended. COST: a look-up under a mutex.
  void Count(std::string_view method, grpc::StatusCode code);

  // Interceptors that count every call except those of `streams`. This must
  // outlive the server that it is given to.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  Interceptors();

 private:
  class Counter;
  class Factory;

  prometheus::Counter& SeriesOf(std::string_view method, grpc::StatusCode code);

  prometheus::Family<prometheus::Counter>& family_;
  const std::set<std::string> streams_;
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_HANDLED_CALLS_H_

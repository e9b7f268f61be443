// Whole workers that a test starts, and what workers say of themselves.
#ifndef BOLE_TESTS_WORKER_SERVICE_SERVING_STARTED_WORKER_H_
#define BOLE_TESTS_WORKER_SERVICE_SERVING_STARTED_WORKER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "proto/worker.grpc.pb.h"
#include "worker_service/ranks/ranked_model.h"
#include "worker_service/serving/worker_server.h"

namespace bole::testing {

// The test program ends if there is an error.
inline std::unique_ptr<WorkerServer> StartOrDie(
    const WorkerServerOptions& options) {
  absl::StatusOr<std::unique_ptr<WorkerServer>> server =
      WorkerServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  BOLE_CHECK(server.ok());
  return *std::move(server);
}

// A worker whose only rank is on `backend`.
inline absl::StatusOr<std::unique_ptr<WorkerServer>> StartOn(
    std::unique_ptr<Backend> backend, const WorkerServerOptions& options) {
  const auto take = [&](const RankedModelOptions&,
                        const std::shared_ptr<Communicator>&) {
    return std::move(backend);
  };
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<RankedModel> model,
                        RankedModel::LoadOn(take, options.model));
  return WorkerServer::StartWith(std::move(model), options);
}

inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}
inline std::shared_ptr<grpc::Channel> ChannelTo(const WorkerServer& server) {
  return ChannelTo(server.address().ToString());
}

// The test fails if the worker does not answer.
inline worker::v1::DescribeResponse DescriptionOver(
    const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  worker::v1::DescribeResponse response;
  const grpc::Status status =
      worker::v1::Worker::NewStub(channel)->Describe(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_SERVING_STARTED_WORKER_H_

// A worker's service on loopback, with a HeldEngine in the place of a model.
#ifndef BOLE_TESTS_WORKER_SERVICE_SERVING_SERVED_WORKER_H_
#define BOLE_TESTS_WORKER_SERVICE_SERVING_SERVED_WORKER_H_

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/check.h"
#include "common/net/service_host.h"
#include "common/step.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "prometheus/text_serializer.h"
#include "tests/worker_service/loop/held_engine.h"
#include "worker_service/serving/worker_metrics.h"
#include "worker_service/serving/worker_service.h"

namespace bole::testing {

// Its engine and what happens at a failure replace those of the options.
class ServedWorker {
 public:
  explicit ServedWorker(WorkerServiceOptions options) {
    options.step = [this](const StepPlan& plan, const OnRound& on_round) {
      return engine.Step(plan, on_round);
    };
    options.on_failure = [this](const absl::Status& why) {
      failure.set_value(why);
    };
    service_ = std::make_unique<WorkerService>(std::move(options), metrics_);
    grpc::Service* services[] = {service_.get()};
    auto host = ServiceHost::Start({}, services);
    BOLE_CHECK(host.ok());
    host_ = *std::move(host);
    channel_ =
        grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  }

  std::string address() const { return host_->address().ToString(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  WorkerService& service() { return *service_; }
  std::string MetricsText() const {
    return prometheus::TextSerializer().Serialize(
        metrics_.registry()->Collect());
  }

  HeldEngine engine;
  std::promise<absl::Status> failure;

 private:
  WorkerMetrics metrics_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<ServiceHost> host_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_SERVING_SERVED_WORKER_H_

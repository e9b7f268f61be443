#include "scheduler_service/scheduler_server.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/metrics_endpoint.h"
#include "proto/service_host.h"
#include "scheduler_service/grpc_worker_client.h"
#include "scheduler_service/inference_service.h"
#include "scheduler_service/metrics.h"
#include "scheduler_service/model_text.h"
#include "scheduler_service/worker_presence.h"

namespace bole {
namespace {

constexpr char kServiceName[] = "bole.v1.BoleService";

// Calls that Stop() has ended still send their status.
constexpr std::chrono::seconds kShutdownGrace(1);

// A client whose requests are too many for the server hears so at once, also on
// a single connection: its calls do not wait on its own side. These are for
// everything but Generate.
constexpr size_t kOtherCallsPerConnection = 128;

InferenceServiceOptions ServiceOptions(const SchedulerServerOptions& options) {
  return {.worker_address = options.worker_address,
          .speculation = options.scheduler.speculation,
          .admission = options.scheduler.admission,
          .door = options.door};
}

int MaxCallsPerConnection(const DoorLimits& door) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(
      std::min(kMost, door.max_open_requests + kOtherCallsPerConnection));
}

}  // namespace

// Later members use earlier ones.
struct SchedulerServer::Parts {
  Parts(const SchedulerServerOptions& options, ModelText model_text)
      : text(std::move(model_text)),
        loop(options.scheduler, *text.tokenizer, metrics),
        service(ServiceOptions(options), text, presence, loop,
                *metrics.registry()) {}

  absl::Status Listen(const SchedulerServerOptions& options);
  void Connect(const SchedulerServerOptions& options);
  void UpdateHealth();

  const ModelText text;
  Metrics metrics;
  WorkerPresence presence;
  SchedulerLoop loop;
  InferenceService service;
  std::unique_ptr<ServiceHost> host;
  std::unique_ptr<MetricsEndpoint> metrics_endpoint;  // May be null.
  std::unique_ptr<GrpcWorkerClient> worker;           // Until Stop().

  Mutex health_mutex;
  bool draining ABSL_GUARDED_BY(health_mutex) = false;
  Mutex stop_mutex;  // A second Stop() waits for the first.
  bool stopped ABSL_GUARDED_BY(stop_mutex) = false;
};

absl::Status SchedulerServer::Parts::Listen(
    const SchedulerServerOptions& options) {
  grpc::Service* services[] = {&service};
  BOLE_ASSIGN_OR_RETURN(
      host, ServiceHost::Start({.address = options.address,
                                .reach = options.reach,
                                .max_message_bytes = options.max_message_bytes,
                                .max_calls_per_connection =
                                    MaxCallsPerConnection(options.door)},
                               services));
  host->SetServing(kServiceName, false);
  if (options.metrics_address.empty()) return absl::OkStatus();
  BOLE_ASSIGN_OR_RETURN(
      metrics_endpoint,
      MetricsEndpoint::Start(options.metrics_address, options.reach,
                             metrics.registry()));
  return absl::OkStatus();
}

void SchedulerServer::Parts::Connect(const SchedulerServerOptions& options) {
  worker = std::make_unique<GrpcWorkerClient>(
      GrpcWorkerClientOptions{.address = options.worker_address,
                              .worker_timeout = options.worker_timeout},
      [this, sink = loop.worker_sink()](WorkerEvent event) {
        const bool is_outcome = std::holds_alternative<WorkerOutcome>(event);
        if (is_outcome) {
          sink(std::move(event));
          return;
        }
        sink(event);
        presence.Note(event);
        UpdateHealth();
      });
  loop.Start(*worker);
}

void SchedulerServer::Parts::UpdateHealth() {
  MutexLock lock(health_mutex);
  host->SetServing(kServiceName, presence.Get().ready() && !draining);
}

absl::StatusOr<std::unique_ptr<SchedulerServer>> SchedulerServer::Start(
    const SchedulerServerOptions& options) {
  BOLE_ASSIGN_OR_RETURN(ModelText text, LoadModelText(options.model_directory));
  auto parts = std::make_unique<Parts>(options, std::move(text));
  BOLE_RETURN_IF_ERROR(parts->Listen(options));
  parts->Connect(options);
  return std::unique_ptr<SchedulerServer>(
      new SchedulerServer(std::move(parts)));
}

SchedulerServer::SchedulerServer(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

SchedulerServer::~SchedulerServer() { Stop(); }

const ListenAddress& SchedulerServer::address() const {
  return parts_->host->address();
}

int SchedulerServer::metrics_port() const {
  return parts_->metrics_endpoint ? parts_->metrics_endpoint->address().port
                                  : 0;
}

SchedulerLoop& SchedulerServer::loop() { return parts_->loop; }

bool SchedulerServer::Drain(std::chrono::steady_clock::time_point deadline) {
  {
    MutexLock lock(parts_->health_mutex);
    parts_->draining = true;
  }
  parts_->UpdateHealth();
  parts_->service.Drain();
  return parts_->loop.Drain(deadline) &&
         parts_->service.AwaitDelivery(deadline);
}

void SchedulerServer::Stop() {
  MutexLock lock(parts_->stop_mutex);
  if (parts_->stopped) return;
  parts_->stopped = true;
  parts_->service.Drain();
  // Drain() then returns, whenever it was called.
  parts_->loop.Drain(std::chrono::steady_clock::now());
  parts_->loop.Stop();
  parts_->service.StopWaiting();
  parts_->host->Shutdown(std::chrono::steady_clock::now() + kShutdownGrace);
  parts_->worker.reset();
}

}  // namespace bole

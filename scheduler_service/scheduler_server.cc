#include "scheduler_service/scheduler_server.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "common/net/metrics_endpoint.h"
#include "common/net/service_host.h"
#include "common/status_macros.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/grpc/admin_service.h"
#include "scheduler_service/door/grpc/inference_service.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "scheduler_service/links/scheduler_identity.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/links/worker_pool.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/models/worker_presence.h"
#include "scheduler_service/watch/metrics.h"

namespace bole {
namespace {

constexpr char kServiceName[] = "bole.v1.BoleService";

// Calls that Stop() has ended still send their status.
constexpr std::chrono::seconds kShutdownGrace(1);

// A client whose requests are too many for the server hears so at once, also on
// a single connection: its calls do not wait on its own side. These are for
// everything but Generate.
constexpr size_t kOtherCallsPerConnection = 128;

int MaxCallsPerConnection(const DoorLimits& door) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(
      std::min(kMost, door.max_open_requests + kOtherCallsPerConnection));
}

}  // namespace

// Later members use earlier ones.
struct SchedulerServer::Parts {
  Parts(const SchedulerServerOptions& options, ModelCatalog served)
      : catalog(std::move(served)),
        loop(options.scheduler, catalog, metrics),
        door(options.door, models, loop, *metrics.registry()),
        service(door, loop),
        admin(loop) {}

  absl::Status Listen(const SchedulerServerOptions& options);
  absl::Status Connect(const SchedulerServerOptions& options);
  // News of a worker, on a thread of its client.
  void Note(WorkerEvent event);
  void UpdateHealth();

  const ModelCatalog catalog;
  Metrics metrics;
  WorkerPresence presence{catalog};
  const AskedModels models{catalog, presence};
  SchedulerLoop loop;
  FrontDoor door;
  InferenceService service;
  AdminService admin;
  std::unique_ptr<ServiceHost> host;
  std::unique_ptr<MetricsEndpoint> metrics_endpoint;  // May be null.
  std::unique_ptr<WorkerPool> workers;                // Until Stop().

  Mutex health_mutex;
  bool draining ABSL_GUARDED_BY(health_mutex) = false;
  Mutex stop_mutex;  // A second Stop() waits for the first.
  bool stopped ABSL_GUARDED_BY(stop_mutex) = false;
};

absl::Status SchedulerServer::Parts::Listen(
    const SchedulerServerOptions& options) {
  grpc::Service* services[] = {&service, &admin};
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

absl::Status SchedulerServer::Parts::Connect(
    const SchedulerServerOptions& options) {
  loop.Start([this](WorkerId worker) { return workers->LetGo(worker); });
  const GrpcWorkerClientOptions client{
      .address = {},
      .scheduler = NewSchedulerIdentity(host->address().port),
      .worker_timeout = options.worker_timeout};
  BOLE_ASSIGN_OR_RETURN(
      workers, WorkerPool::Start(
                   {.workers = options.workers, .client = client},
                   [this](WorkerEvent event) { Note(std::move(event)); },
                   [this](const absl::Status& why) { presence.Note(why); }));
  return absl::OkStatus();
}

void SchedulerServer::Parts::Note(WorkerEvent event) {
  if (std::holds_alternative<WorkerOutcome>(event.news)) {
    loop.Post(std::move(event));
    return;
  }
  loop.Post(event);
  presence.Note(event);
  UpdateHealth();
}

void SchedulerServer::Parts::UpdateHealth() {
  MutexLock lock(health_mutex);
  host->SetServing(kServiceName, presence.IsAnyReady() && !draining);
}

absl::StatusOr<std::unique_ptr<SchedulerServer>> SchedulerServer::Start(
    const SchedulerServerOptions& options) {
  BOLE_ASSIGN_OR_RETURN(
      ModelCatalog catalog,
      ModelCatalog::Load(options.models, options.allow_synthetic));
  auto parts = std::make_unique<Parts>(options, std::move(catalog));
  BOLE_RETURN_IF_ERROR(parts->Listen(options));
  BOLE_RETURN_IF_ERROR(parts->Connect(options));
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
  parts_->door.Drain();
  return parts_->loop.Drain(deadline) &&
         parts_->door.open_calls().AwaitNone(deadline);
}

void SchedulerServer::Stop() {
  MutexLock lock(parts_->stop_mutex);
  if (parts_->stopped) return;
  parts_->stopped = true;
  parts_->door.Drain();
  // Drain() then returns, whenever it was called.
  parts_->loop.Drain(std::chrono::steady_clock::now());
  parts_->loop.Stop();
  parts_->door.open_calls().StopWaiting();
  parts_->host->Shutdown(std::chrono::steady_clock::now() + kShutdownGrace);
  parts_->workers.reset();
}

}  // namespace bole

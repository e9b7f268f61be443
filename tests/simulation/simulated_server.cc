#include "tests/simulation/simulated_server.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/cost_table.h"
#include "common/net/handled_calls.h"
#include "common/net/http/otlp_exporter.h"
#include "common/net/http/server_tls.h"
#include "common/net/metrics_endpoint.h"
#include "common/net/service_host.h"
#include "common/status_macros.h"
#include "common/trace/span_exporter.h"
#include "common/version.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/number_spoiler.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/serving/worker_metrics.h"
#include "worker_service/serving/worker_service.h"

namespace bole::simulation {
namespace {

constexpr char kServiceName[] = "bole.worker.v1.Worker";
constexpr size_t kMaxMessageBytes = 16 << 20;  // As the real worker's.
constexpr std::chrono::milliseconds kShutdownGrace(500);

WorkerInfo InfoOf(const SimulatedServerOptions& options) {
  const SimulatedEngineOptions& engine = options.runner.engine;
  WorkerInfo info{.model = options.model,
                  .device = "simulated",
                  .version = kVersion,
                  .limits = engine.limits,
                  .has_drafter = !engine.accept.empty(),
                  .synthetic = true,
                  .stop_tokens = engine.text.stop_tokens,
                  .slot_bytes = engine.slot_bytes,
                  .page_bytes = engine.page_bytes};
  // Greedy, so that a client who asks for nothing knows what to expect.
  info.temperature = 0;
  if (options.tells_costs) {
    info.cost_table =
        ToJson({.of = info.MeasuredWith(), .costs = options.runner.costs});
  }
  return info;
}

}  // namespace

// Later members use earlier ones.
struct SimulatedServer::Parts {
  explicit Parts(StepRunnerOptions options) : runner(std::move(options)) {}

  StepRunner runner;
  WorkerMetrics metrics;
  std::unique_ptr<SpanExporter> spans;  // May be null.
  HandledCalls handled{*metrics.registry(), {ExecuteStream::kMethod}};
  std::unique_ptr<WorkerService> service;
  std::unique_ptr<ServiceHost> host;
  std::unique_ptr<MetricsEndpoint> metrics_endpoint;  // May be null.
};

absl::StatusOr<std::unique_ptr<SimulatedServer>> SimulatedServer::Start(
    const SimulatedServerOptions& options) {
  const SimulatedEngineOptions& engine = options.runner.engine;
  BOLE_RETURN_IF_ERROR(Validate(engine));
  StepRunnerOptions runner = options.runner;
  const bool spoils = std::any_of(
      runner.faults.begin(), runner.faults.end(),
      [](auto& fault) { return fault.kind == FaultKind::kGarbage; });
  if (spoils) {
    InstallNumberSpoiler();
    runner.spoil_number = SpoilNextNumber;
  }
  auto parts = std::make_unique<Parts>(std::move(runner));
  parts->metrics.SetSizes(engine.limits, MemoryPlan{});
  BOLE_ASSIGN_OR_RETURN(
      parts->spans,
      StartOtlpExporter(options.collector, "bole-worker",
                        *parts->metrics.registry(), /*note=*/nullptr));
  parts->service = std::make_unique<WorkerService>(
      WorkerServiceOptions{
          .info = InfoOf(options),
          .step = [&runner = parts->runner](const StepPlan& plan,
                                            const OnRound& on_round)
              -> absl::Status { return runner.Step(plan, on_round); },
          .spans = parts->spans.get(),
          .handled = &parts->handled,
          .heartbeat_interval = options.heartbeat_interval,
          .scheduler_timeout = options.scheduler_timeout,
          .on_failure = {}},
      parts->metrics);
  grpc::Service* services[] = {parts->service.get()};
  BOLE_ASSIGN_OR_RETURN(
      parts->host,
      ServiceHost::Start({.address = options.address,
                          .reach = options.reach,
                          .max_message_bytes = kMaxMessageBytes,
                          .tls = options.tls,
                          .handled = &parts->handled,
                          .health_address = options.health_address},
                         services));
  parts->host->SetServing(kServiceName, true);
  if (!options.metrics_address.empty()) {
    BOLE_ASSIGN_OR_RETURN(std::shared_ptr<ServerTls> tls,
                          ServerTls::Open({.files = options.tls}));
    BOLE_ASSIGN_OR_RETURN(
        parts->metrics_endpoint,
        MetricsEndpoint::Start({.address = options.metrics_address,
                                .reach = options.reach,
                                .tls = std::move(tls)},
                               parts->metrics.Page(options.tls.cert)));
  }
  return std::unique_ptr<SimulatedServer>(
      new SimulatedServer(std::move(parts)));
}

SimulatedServer::SimulatedServer(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

SimulatedServer::~SimulatedServer() { Stop(); }

const ListenAddress& SimulatedServer::address() const {
  return parts_->host->address();
}

int SimulatedServer::health_port() const { return parts_->host->health_port(); }

int SimulatedServer::metrics_port() const {
  return parts_->metrics_endpoint ? parts_->metrics_endpoint->address().port
                                  : 0;
}

bool SimulatedServer::Drain(std::chrono::steady_clock::time_point deadline) {
  parts_->host->SetServing(kServiceName, false);
  return parts_->service->WaitUntilDrained(deadline);
}

void SimulatedServer::Stop() {
  parts_->runner.Interrupt();
  parts_->service->Stop();
  parts_->host->Shutdown(std::chrono::steady_clock::now() + kShutdownGrace);
}

}  // namespace bole::simulation

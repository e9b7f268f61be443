#include "worker_service/serving/worker_server.h"

#include <cstdio>
#include <functional>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cost_table.h"
#include "common/model_fingerprint.h"
#include "common/net/handled_calls.h"
#include "common/net/http/otlp_exporter.h"
#include "common/net/http/server_tls.h"
#include "common/net/metrics_endpoint.h"
#include "common/net/service_host.h"
#include "common/status_macros.h"
#include "common/trace/span_exporter.h"
#include "common/version.h"
#include "worker_service/engine/engine_options.h"
#include "worker_service/engine/round_shape.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/loop/recorder.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/synthetic_spec.h"
#include "worker_service/serving/worker_admin_service.h"
#include "worker_service/serving/worker_metrics.h"
#include "worker_service/serving/worker_service.h"

namespace bole {
namespace {

constexpr char kServiceName[] = "bole.worker.v1.Worker";

// A plan may have thousands of requests with long page tables.
constexpr size_t kMaxMessageBytes = 16 << 20;

// The time for sending the last messages of calls that were ended.
constexpr std::chrono::milliseconds kShutdownGrace(500);

}  // namespace

// Later members use earlier ones.
struct WorkerServer::Parts {
  Parts(std::unique_ptr<RankedModel> loaded, std::optional<Recorder> opened)
      : ranked(std::move(loaded)), recorder(std::move(opened)) {}
  ~Parts() { ranked->WatchRanks(nullptr); }

  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const std::unique_ptr<RankedModel> ranked;
  std::optional<Recorder> recorder;  // Used by the compute loop's thread.
  WorkerMetrics metrics;
  std::function<void(const std::string&)> note;  // May be null.
  std::unique_ptr<SpanExporter> spans;           // May be null.
  HandledCalls handled{*metrics.registry(), {ExecuteStream::kMethod}};
  std::unique_ptr<WorkerService> service;
  std::unique_ptr<WorkerAdminService> admin;
  std::unique_ptr<ServiceHost> host;
  std::unique_ptr<MetricsEndpoint> metrics_endpoint;  // May be null.

  // Called before the model is loaded, which may take minutes, so that a wrong
  // path is reported early.
  static absl::StatusOr<std::optional<Recorder>> OpenRecording(
      const WorkerServerOptions& options);
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(
      std::unique_ptr<RankedModel> model, std::optional<Recorder> recorder,
      const WorkerServerOptions& options);
  absl::StatusOr<WorkerInfo> Describe(const WorkerServerOptions& options) const;
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);
  void Note(const std::string& what) const {
    if (note) note(what);
  }
  // Ends the recording, but not the worker, if `written` is an error.
  void CheckRecording(const absl::Status& written);
  static absl::Status LoadCosts(const std::string& path, WorkerInfo& info);
  absl::Status Listen(const WorkerServerOptions& options);
  absl::Status ListenForMetrics(const WorkerServerOptions& options);
};

absl::StatusOr<WorkerInfo> WorkerServer::Parts::Describe(
    const WorkerServerOptions& options) const {
  const std::string& name = options.model.name;
  ModelFingerprint fingerprint;  // Empty for a synthetic model.
  if (!IsSynthetic(name)) {
    BOLE_ASSIGN_OR_RETURN(fingerprint, FingerprintOf(name));
  }
  const LoadedModel& model = ranked->loaded();
  const EngineOptions& sizes = ranked->sizes();
  const SamplingParams defaults = SamplingDefaults(model.generation);
  // Only launches in graphs are sized by buckets.
  const bool pads = ranked->keeps_graphs();
  const MoeConfig moe = model.config.moe.value_or(MoeConfig());
  return WorkerInfo{
      .model = ModelName(name),
      .device = ranked->device(),
      .version = kVersion,
      .limits = ranked->limits(),
      .has_drafter = ranked->has_drafter(),
      .synthetic = IsSynthetic(name),
      .fingerprint = std::move(fingerprint),
      .stop_tokens = model.stop_tokens,
      .temperature = defaults.temperature,
      .top_k = defaults.top_k,
      .top_p = defaults.top_p,
      .min_p = defaults.min_p,
      .repetition_penalty = defaults.repetition_penalty,
      .row_buckets = pads ? RowBuckets(sizes.max_nodes) : std::vector<int>(),
      .request_buckets =
          pads ? RequestBuckets(sizes.max_requests) : std::vector<int>(),
      .experts = {.count = moe.num_experts, .per_token = moe.experts_per_token},
      .slot_bytes = ranked->memory().slot_bytes(),
      .page_bytes = ranked->memory().page_bytes()};
}

absl::Status WorkerServer::Parts::Step(const StepPlan& plan,
                                       const OnRound& on_round) {
  const OnRound report = [&](StepResult result) {
    if (recorder) CheckRecording(recorder->WriteResult(result));
    on_round(std::move(result));
  };
  if (recorder) CheckRecording(recorder->WritePlan(plan));
  absl::Status status = ranked->Step(plan, report);
  metrics.SetGraphMisses(ranked->graph_misses());
  return status;
}

void WorkerServer::Parts::CheckRecording(const absl::Status& written) {
  if (written.ok()) return;
  Note(absl::StrCat("the recording ends here: ", written.ToString()));
  recorder.reset();
}

absl::Status WorkerServer::Parts::LoadCosts(const std::string& path,
                                            WorkerInfo& info) {
  if (path.empty()) return absl::OkStatus();
  BOLE_ASSIGN_OR_RETURN(const CostTable table, LoadCostTable(path));
  const absl::Status same = CheckMeasuredWith(table, info.MeasuredWith());
  if (!same.ok()) {
    return absl::Status(
        same.code(), absl::StrCat("--cost-table ", path, ": ", same.message(),
                                  "; measure it anew with "
                                  "bole-calibrate"));
  }
  info.cost_table = ToJson(table);
  return absl::OkStatus();
}

absl::Status WorkerServer::Parts::Listen(const WorkerServerOptions& options) {
  BOLE_ASSIGN_OR_RETURN(WorkerInfo info, Describe(options));
  BOLE_RETURN_IF_ERROR(LoadCosts(options.cost_table_path, info));
  BOLE_ASSIGN_OR_RETURN(spans,
                        StartOtlpExporter(options.collector, "bole-worker",
                                          *metrics.registry(), options.note));
  // A scheduler may connect, and a plan may fail, before ServiceHost::Start()
  // has returned, so a failure has to wait for the host.
  std::promise<ServiceHost*> started;
  service = std::make_unique<WorkerService>(
      WorkerServiceOptions{
          .info = std::move(info),
          .step = [this](const StepPlan& plan, const OnRound& on_round)
              -> absl::Status { return Step(plan, on_round); },
          .step_timeout = options.step_timeout.value_or(
              ranked->on_gpu() ? kGpuStepTimeout
                               : std::chrono::milliseconds(0)),
          .flight = options.flight,
          .spans = spans.get(),
          .handled = &handled,
          .heartbeat_interval = options.heartbeat_interval,
          .scheduler_timeout = options.scheduler_timeout,
          .on_failure =
              [started_host = started.get_future().share(),
               tell = options.on_failure](const absl::Status& why) {
                started_host.get()->SetServing(kServiceName, false);
                if (tell) tell(why);
              }},
      metrics);
  admin = std::make_unique<WorkerAdminService>(options.flight);
  grpc::Service* services[] = {service.get(), admin.get()};
  BOLE_ASSIGN_OR_RETURN(
      host, ServiceHost::Start({.address = options.address,
                                .reach = options.reach,
                                .max_message_bytes = kMaxMessageBytes,
                                .tls = options.tls,
                                .handled = &handled,
                                .health_address = options.health_address},
                               services));
  host->SetServing(kServiceName, true);
  started.set_value(host.get());
  ranked->WatchRanks([this](const absl::Status& why) { service->Lose(why); });
  return ListenForMetrics(options);
}

absl::Status WorkerServer::Parts::ListenForMetrics(
    const WorkerServerOptions& options) {
  if (options.metrics_address.empty()) return absl::OkStatus();
  const auto note = [](const std::string& what) {
    std::fprintf(stderr, "bole-worker: %s\n", what.c_str());
  };
  BOLE_ASSIGN_OR_RETURN(std::shared_ptr<ServerTls> tls,
                        ServerTls::Open({.files = options.tls, .note = note}));
  BOLE_ASSIGN_OR_RETURN(
      metrics_endpoint,
      MetricsEndpoint::Start({.address = options.metrics_address,
                              .reach = options.reach,
                              .tls = std::move(tls)},
                             metrics.Page(options.tls.cert)));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Recorder>> WorkerServer::Parts::OpenRecording(
    const WorkerServerOptions& options) {
  if (options.record_path.empty()) return std::nullopt;
  BOLE_ASSIGN_OR_RETURN(Recorder recorder,
                        Recorder::Create(options.record_path));
  return recorder;
}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Parts::Start(
    std::unique_ptr<RankedModel> model, std::optional<Recorder> recorder,
    const WorkerServerOptions& options) {
  auto parts = std::make_unique<Parts>(std::move(model), std::move(recorder));
  parts->note = options.note;
  for (const std::string& text : parts->ranked->loaded().notes) {
    parts->Note(text);
  }
  parts->metrics.SetSizes(parts->ranked->limits(), parts->ranked->memory());
  BOLE_RETURN_IF_ERROR(parts->Listen(options));
  return std::unique_ptr<WorkerServer>(new WorkerServer(std::move(parts)));
}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    const WorkerServerOptions& options) {
  BOLE_ASSIGN_OR_RETURN(std::optional<Recorder> recorder,
                        Parts::OpenRecording(options));
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<RankedModel> model,
                        RankedModel::Load(options.model));
  return Parts::Start(std::move(model), std::move(recorder), options);
}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::StartWith(
    std::unique_ptr<RankedModel> model, const WorkerServerOptions& options) {
  BOLE_ASSIGN_OR_RETURN(std::optional<Recorder> recorder,
                        Parts::OpenRecording(options));
  return Parts::Start(std::move(model), std::move(recorder), options);
}

WorkerServer::WorkerServer(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

WorkerServer::~WorkerServer() { Stop(); }

const ListenAddress& WorkerServer::address() const {
  return parts_->host->address();
}

int WorkerServer::metrics_port() const {
  return parts_->metrics_endpoint ? parts_->metrics_endpoint->address().port
                                  : 0;
}

int WorkerServer::health_port() const { return parts_->host->health_port(); }

const RankedModel& WorkerServer::model() const { return *parts_->ranked; }

bool WorkerServer::Drain(std::chrono::steady_clock::time_point deadline) {
  parts_->host->SetServing(kServiceName, false);
  return parts_->service->WaitUntilDrained(deadline);
}

void WorkerServer::Stop() {
  parts_->service->Stop();
  parts_->host->Shutdown(std::chrono::steady_clock::now() + kShutdownGrace);
}

}  // namespace bole

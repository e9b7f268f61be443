#include "scheduler_service/scheduler_server.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/ids.h"
#include "common/mutex.h"
#include "common/net/bearer_token.h"
#include "common/net/client_credentials.h"
#include "common/net/service_host.h"
#include "common/status_macros.h"
#include "scheduler_service/door/access.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/grpc/admin_service.h"
#include "scheduler_service/door/grpc/generate_call.h"
#include "scheduler_service/door/grpc/inference_service.h"
#include "scheduler_service/door/grpc/method_guard.h"
#include "scheduler_service/door/http/http_service.h"
#include "scheduler_service/http_listeners.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "scheduler_service/links/peer_group.h"
#include "scheduler_service/links/peer_table.h"
#include "scheduler_service/links/peers_service.h"
#include "scheduler_service/links/scheduler_identity.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/links/worker_pool.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/models/worker_presence.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/scheduler_page.h"
#include "scheduler_service/watch/share_metrics.h"

namespace bole {
namespace {

constexpr char kServiceName[] = "bole.v1.BoleService";

// Time for calls that Stop() has ended to send their status.
constexpr std::chrono::seconds kStatusGrace(1);
// After this time, open calls are cut off. It is short, because gRPC cancels
// calls that reach a server which shuts down, and their clients would not know
// why.
constexpr std::chrono::milliseconds kShutdownGrace(100);

// The limit of calls per connection is high enough that a client with too many
// requests is refused at once, even on a single connection, instead of queueing
// calls on its own side. This is the share of all calls except Generate.
constexpr size_t kOtherCallsPerConnection = 128;

int MaxCallsPerConnection(const DoorLimits& door) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(
      std::min(kMost, door.max_open_requests + kOtherCallsPerConnection));
}

bool IsShared(const SchedulerServerOptions& options) {
  return options.share || !options.peers.empty();
}

SchedulerOptions LoopOptions(const SchedulerServerOptions& options) {
  SchedulerOptions scheduler = options.scheduler;
  scheduler.frees_workers_early = IsShared(options);
  return scheduler;
}

Peer SelfOf(const SchedulerIdentity& identity, const ModelCatalog& catalog) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  Peer self{.instance = identity.instance,
            .started_us = now.count(),
            .name = identity.name};
  for (int i = 0; i < catalog.size(); ++i) {
    self.models.push_back(catalog.at(ModelId(i)).name);
  }
  return self;
}

absl::StatusOr<std::unique_ptr<Access>> OpenAccess(
    const SchedulerServerOptions& options, prometheus::Registry& registry) {
  if (options.tokens_path.empty()) return nullptr;
  return Access::Open({.path = options.tokens_path, .note = options.note},
                      registry);
}

}  // namespace

// Later members use earlier ones.
struct SchedulerServer::Parts {
  Parts(const SchedulerServerOptions& options, ModelCatalog served)
      : catalog(std::move(served)),
        prefix_cache(options.scheduler.prefix_cache),
        note(options.note),
        watcher(RequestWatcher::Start(options.watch, *metrics.registry(),
                                      options.note)),
        loop(LoopOptions(options), catalog, metrics),
        access(OpenAccess(options, *metrics.registry())),
        door(options.door, models, loop, *metrics.registry(),
             access.ok() ? access->get() : nullptr,
             watcher.ok() ? watcher->get() : nullptr),
        service(door, loop, handled),
        page(MakeSchedulerPage(
            metrics,
            {.certificates = {{"server", options.tls.cert},
                              {"worker_client", options.worker_tls.cert},
                              {"peer_client", options.peer_tls.cert}},
             .vllm_names = options.vllm_metric_names})),
        http_service(door, loop, *page),
        admin(loop, options.scheduler.flight.recorder) {}

  absl::Status Listen(const SchedulerServerOptions& options);
  absl::Status Connect(const SchedulerServerOptions& options);
  absl::StatusOr<SharedPoolOptions> Share(const SchedulerServerOptions& options,
                                          const SchedulerIdentity& identity);
  PlaceOf PlaceAmongPeers(uint64_t instance);
  // Notes the peers if they have changed.
  void NotePeers(const PeerView& view);
  // Tells peers and claims that this scheduler leaves.
  void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(stop_mutex);
  // Takes news of a worker, on a thread of its client.
  void Note(WorkerEvent event);
  // Notes which worker was connected, and that its prefix cache begins cold.
  void NoteWorker(const WorkerEvent& event);
  void UpdateHealth();

  const ModelCatalog catalog;
  const bool prefix_cache;
  const std::function<void(const std::string&)> note;  // May be null.
  Metrics metrics;
  // Checked before anything is served. Outlives all requests.
  const absl::StatusOr<std::unique_ptr<RequestWatcher>> watcher;
  // The next two are for shared workers.
  std::unique_ptr<ShareMetrics> share_metrics;
  std::string noted_peers;
  Mutex names_mutex;
  std::map<WorkerId, std::string> worker_names ABSL_GUARDED_BY(names_mutex);
  WorkerPresence presence{catalog};
  const AskedModels models{catalog, presence};
  SchedulerLoop loop;
  // Null without tokens; checked before anything is served.
  const absl::StatusOr<std::unique_ptr<Access>> access;
  FrontDoor door;
  HandledCalls handled{*metrics.registry(), {GenerateCall::kMethod}};
  InferenceService service;
  const std::shared_ptr<prometheus::Collectable> page;
  HttpService http_service;
  AdminService admin;
  PeersService peers_service;
  std::unique_ptr<ServiceHost> host;
  HttpListeners http;
  std::unique_ptr<BearerToken> peer_token;  // May be null.
  std::unique_ptr<PeerGroup> peers;     // Null without any, or after Stop().
  std::unique_ptr<WorkerPool> workers;  // Until Stop().

  Mutex health_mutex;
  bool draining ABSL_GUARDED_BY(health_mutex) = false;
  Mutex stop_mutex;  // A second Stop() waits for the first.
  bool stopped ABSL_GUARDED_BY(stop_mutex) = false;
};

absl::Status SchedulerServer::Parts::Listen(
    const SchedulerServerOptions& options) {
  BOLE_RETURN_IF_ERROR(access.status());
  BOLE_RETURN_IF_ERROR(watcher.status());
  CallGuard guard;
  if (*access != nullptr) {
    guard = [this](std::string_view method, std::string_view authorization) {
      return GuardMethod(door, method, authorization);
    };
  }
  std::vector<grpc::Service*> services = {&service, &admin};
  if (IsShared(options)) services.push_back(&peers_service);
  BOLE_ASSIGN_OR_RETURN(
      host, ServiceHost::Start({.address = options.address,
                                .reach = options.reach,
                                .max_message_bytes = options.max_message_bytes,
                                .max_calls_per_connection =
                                    MaxCallsPerConnection(options.door),
                                .tls = options.tls,
                                .guard = std::move(guard),
                                .handled = &handled,
                                .health_address = options.health_address},
                               services));
  host->SetServing(kServiceName, false);
  BOLE_ASSIGN_OR_RETURN(
      http, HttpListeners::Start(
                {.http_address = options.http_address,
                 .metrics_address = options.metrics_address,
                 .reach = options.reach,
                 .tls = options.tls,
                 .limits = {.max_connections = options.max_http_connections,
                            .max_body_bytes = options.max_message_bytes,
                            .max_bodies_bytes = options.max_http_bodies_bytes,
                            .write_time = options.door.stalled_reader},
                 .note = options.note},
                http_service, page));
  return absl::OkStatus();
}

absl::Status SchedulerServer::Parts::Connect(
    const SchedulerServerOptions& options) {
  loop.Start([this](WorkerId worker) { return workers->LetGo(worker); });
  BOLE_ASSIGN_OR_RETURN(const ClientCredentials worker_credentials,
                        ClientCredentials::Open(options.worker_tls));
  WorkerPoolOptions pool{
      .workers = options.workers,
      .client = {.address = {},
                 .scheduler = NewSchedulerIdentity(host->address().port),
                 .credentials = worker_credentials,
                 .worker_timeout = options.worker_timeout}};
  if (IsShared(options)) {
    BOLE_ASSIGN_OR_RETURN(pool.shared, Share(options, pool.client.scheduler));
  }
  BOLE_ASSIGN_OR_RETURN(
      workers, WorkerPool::Start(
                   pool, [this](WorkerEvent event) { Note(std::move(event)); },
                   [this](const absl::Status& why) { presence.Note(why); }));
  if (!IsShared(options)) return absl::OkStatus();
  peers_service.Open(
      {.peers = peers.get(), .shares = [this] { return workers->shares(); }});
  return absl::OkStatus();
}

absl::StatusOr<SharedPoolOptions> SchedulerServer::Parts::Share(
    const SchedulerServerOptions& options, const SchedulerIdentity& identity) {
  share_metrics = std::make_unique<ShareMetrics>(*metrics.registry());
  SharedPoolOptions shared{
      .place_of = nullptr, .model_of = nullptr, .note = options.note};
  shared.model_of =
      [this](const WorkerDescription& worker) -> absl::StatusOr<std::string> {
    BOLE_ASSIGN_OR_RETURN(const ModelId id, catalog.ModelOf(worker));
    return catalog.at(id).name;
  };
  shared.on_shares = [this](const PoolShares& shares) {
    const PeerView view = peers ? peers->view() : PeerView();
    share_metrics->Set(shares, view);
    if (note && view.settled) NotePeers(view);
  };
  if (options.share) {
    shared.place_of = [place = *options.share](const std::string&) {
      return std::optional<Place>(place);
    };
    return shared;
  }
  PeerGroupOptions group{.names = options.peers,
                         .self = SelfOf(identity, catalog)};
  BOLE_ASSIGN_OR_RETURN(group.credentials,
                        ClientCredentials::Open(options.peer_tls));
  if (!options.peer_token_path.empty()) {
    BOLE_ASSIGN_OR_RETURN(peer_token,
                          BearerToken::Open(options.peer_token_path));
    group.authorization = [this] { return peer_token->Authorization(); };
  }
  BOLE_ASSIGN_OR_RETURN(
      peers,
      PeerGroup::Start(std::move(group), [this](const absl::Status& why) {
        if (note) {
          note(absl::StrCat("looks for peers: ", why.ToString()));
        }
      }));
  shared.place_of = PlaceAmongPeers(identity.instance);
  return shared;
}

PlaceOf SchedulerServer::Parts::PlaceAmongPeers(uint64_t instance) {
  return [this, instance](const std::string& model) {
    return PlaceIn(peers->view(), instance, model);
  };
}

void SchedulerServer::Parts::NotePeers(const PeerView& view) {
  std::string text = ToString(view);
  if (text == noted_peers) return;
  noted_peers = std::move(text);
  note(noted_peers);
}

void SchedulerServer::Parts::Leave() {
  if (peers) peers->Leave();
  if (workers) workers->Leave();
}

void SchedulerServer::Parts::Note(WorkerEvent event) {
  if (auto* outcome = std::get_if<WorkerOutcome>(&event.news)) {
    loop.PostOutcome(event.worker, std::move(*outcome));
    return;
  }
  NoteWorker(event);
  // The door is told before the loop, so that no client that has seen a worker
  // in the loop's status is told that there is none.
  presence.Note(event);
  loop.Post(event);
  UpdateHealth();
}

void SchedulerServer::Parts::NoteWorker(const WorkerEvent& event) {
  MutexLock lock(names_mutex);
  if (const auto* added = std::get_if<WorkerAdded>(&event.news)) {
    worker_names[event.worker] = added->name;
  } else if (std::holds_alternative<WorkerRemoved>(event.news)) {
    worker_names.erase(event.worker);
  } else if (const auto* made = std::get_if<WorkerConnected>(&event.news)) {
    const WorkerDescription& worker = made->description;
    if (!note || !catalog.ModelOf(worker).ok()) return;
    const bool has_cache = prefix_cache && CopiesMemory(worker);
    note(absl::StrCat("worker ", worker_names[event.worker], " is connected",
                      has_cache ? ", its prefix cache is cold" : ""));
  }
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
  return parts_->http.metrics_port();
}

int SchedulerServer::health_port() const { return parts_->host->health_port(); }

int SchedulerServer::http_port() const { return parts_->http.http_port(); }

SchedulerLoop& SchedulerServer::loop() { return parts_->loop; }

bool SchedulerServer::Drain(std::chrono::steady_clock::time_point deadline) {
  {
    MutexLock lock(parts_->health_mutex);
    parts_->draining = true;
  }
  parts_->UpdateHealth();
  parts_->door.Drain();
  parts_->http.Drain();
  {
    MutexLock lock(parts_->stop_mutex);
    parts_->Leave();
  }
  return parts_->loop.Drain(deadline) &&
         parts_->door.open_calls().AwaitNone(deadline);
}

void SchedulerServer::Stop() {
  MutexLock lock(parts_->stop_mutex);
  if (parts_->stopped) return;
  parts_->stopped = true;
  parts_->door.Drain();
  parts_->Leave();
  // After this, Drain() returns no matter when it was called.
  parts_->loop.Drain(std::chrono::steady_clock::now());
  parts_->loop.Stop();
  // New calls are refused meanwhile.
  parts_->door.open_calls().AwaitNone(std::chrono::steady_clock::now() +
                                      kStatusGrace);
  parts_->door.open_calls().StopWaiting();
  parts_->http.Stop();
  parts_->host->Shutdown(std::chrono::steady_clock::now() + kShutdownGrace);
  parts_->peers_service.Close();
  parts_->workers.reset();
  parts_->peers.reset();
}

}  // namespace bole

// Both services in one process, talking over loopback.
#ifndef BOLE_TESTS_E2E_SYSTEM_H_
#define BOLE_TESTS_E2E_SYSTEM_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/bole.grpc.pb.h"
#include "scheduler_service/door/door_limits.h"
#include "scheduler_service/scheduler_server.h"
#include "tests/e2e/tcp_relay.h"
#include "worker_service/ranks/ranked_model_options.h"
#include "worker_service/serving/worker_server.h"

namespace bole::e2e {

struct SystemOptions {
  std::string model_directory = "models/demo";
  EngineOptions engine = {.max_requests = 8,
                          .max_nodes = 320,
                          .max_nodes_per_tree = 128,
                          .max_prefill_tokens = 512,
                          .max_draft = {.top_k = 4, .depth = 8},
                          .num_slots = 8,
                          .num_pages = 256,
                          .page_size = 64,
                          .max_context = 8192};
  int num_workers = 1;  // All alike.
  SchedulerOptions scheduler;
  // A worker that is silent for this time is lost.
  std::chrono::milliseconds worker_timeout{10000};
  std::chrono::milliseconds heartbeat_interval{1000};
  int num_threads = 1;  // The engine's. Tests run side by side.
  int num_ranks = 1;    // Each worker cuts the model into so many.
  RankKind rank_kind = RankKind::kAuto;
  // As the scheduler's --model; empty: model_directory.
  std::string scheduler_model = {};
  DoorLimits door = {};
  bool metrics = false;
  std::string cost_table_path = {};  // The worker's, if it has one.
};

// Waits until `condition` holds, for at most 120 s, and returns whether it
// does. It looks every millisecond: nothing announces a change of what it looks
// at.
bool Eventually(const std::function<bool()>& condition);

// From its construction on the workers are connected.
class System {
 public:
  explicit System(const SystemOptions& options = {});
  ~System();

  System(const System&) = delete;
  System& operator=(const System&) = delete;

  WorkerServer& worker(int i = 0) { return *workers_[i].server; }
  SchedulerServer& scheduler() { return *scheduler_; }
  SchedulerLoop& loop() { return scheduler_->loop(); }
  // Between the scheduler and the first worker.
  TcpRelay& worker_line() { return *workers_[0].line; }

  // Over a connection that all calls of the test share.
  v1::BoleService::Stub& stub() { return *stub_; }

  // A connection of its own, to the scheduler or to `port`.
  std::shared_ptr<grpc::Channel> NewChannel(
      grpc::ChannelArguments arguments = {}, int port = 0) const;

  // Ends a worker, or starts another one at its address.
  void StopWorker(int i = 0);
  void StartWorker(int i = 0);
  // The same of the scheduler. What loop() and scheduler() return goes with it.
  void StopScheduler();
  void StartScheduler();

  // Waits until these numbers of requests run and wait.
  bool WaitForLoad(int running, int waiting);

  // Waits until no request is left, and expects that all they had is free.
  void ExpectIdle();

 private:
  struct Worker {
    int port = 0;
    std::unique_ptr<WorkerServer> server = nullptr;
    std::unique_ptr<TcpRelay> line = nullptr;
  };

  const SystemOptions options_;
  std::vector<Worker> workers_;
  int scheduler_port_ = 0;
  std::unique_ptr<SchedulerServer> scheduler_;
  std::unique_ptr<v1::BoleService::Stub> stub_;
};

}  // namespace bole::e2e

#endif  // BOLE_TESTS_E2E_SYSTEM_H_

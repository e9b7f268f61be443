#include "tests/e2e/system.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"

namespace bole::e2e {
namespace {

using std::chrono::steady_clock;

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

std::string Loopback(int port) { return "127.0.0.1:" + std::to_string(port); }

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

System::System(const SystemOptions& options)
    : options_(options), workers_(options.num_workers) {
  for (int i = 0; i < options.num_workers; ++i) {
    StartWorker(i);
    workers_[i].line = std::make_unique<TcpRelay>(workers_[i].port);
  }
  StartScheduler();
  stub_ = v1::BoleService::NewStub(NewChannel());
}

System::~System() = default;

std::shared_ptr<grpc::Channel> System::NewChannel(
    grpc::ChannelArguments arguments, int port) const {
  // Channels with equal arguments share a connection unless told otherwise.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      Loopback(port == 0 ? scheduler_->port() : port),
      grpc::InsecureChannelCredentials(), arguments);
}

void System::StopScheduler() {
  scheduler_->Stop();
  scheduler_.reset();
}

void System::StartScheduler() {
  SchedulerServerOptions scheduler;
  scheduler.address = Loopback(scheduler_port_);
  scheduler.models = {options_.scheduler_model.empty()
                          ? options_.model_directory
                          : options_.scheduler_model};
  for (const Worker& worker : workers_) {
    scheduler.workers.push_back(Loopback(worker.line->port()));
  }
  scheduler.scheduler = options_.scheduler;
  scheduler.allow_synthetic = true;
  scheduler.worker_timeout = options_.worker_timeout;
  scheduler.door = options_.door;
  if (options_.metrics) scheduler.metrics_address = Loopback(0);
  scheduler_ = ValueOrDie(SchedulerServer::Start(scheduler));
  scheduler_port_ = scheduler_->port();
  BOLE_CHECK(Eventually([this] {
    return loop().status().num_connected() == options_.num_workers;
  }));
}

void System::StopWorker(int i) {
  workers_[i].server->Stop();
  workers_[i].server.reset();
}

void System::StartWorker(int i) {
  WorkerServerOptions worker;
  worker.model.name = options_.model_directory;
  worker.address = Loopback(workers_[i].port);
  worker.model.num_threads = options_.num_threads;
  worker.model.num_ranks = options_.num_ranks;
  worker.model.rank_kind = options_.rank_kind;
  // This program is none that a rank can run.
  worker.model.rank_program = "worker_service/bole-worker";
  worker.model.engine = options_.engine;
  worker.heartbeat_interval = options_.heartbeat_interval;
  worker.cost_table_path = options_.cost_table_path;
  workers_[i].server = ValueOrDie(WorkerServer::Start(worker));
  workers_[i].port = workers_[i].server->port();
}

bool System::WaitForLoad(int running, int waiting) {
  return Eventually([&] {
    const SchedulerStatus status = loop().status();
    return status.running == running && status.waiting == waiting;
  });
}

void System::ExpectIdle() {
  // A call is admitted before the loop knows of it.
  EXPECT_TRUE(Eventually([&] { return loop().load().requests == 0; }));
  EXPECT_TRUE(WaitForLoad(0, 0));
  const SchedulerStatus status = loop().status();
  EXPECT_EQ(status.audit, "");
  EXPECT_EQ(status.slots.free, status.slots.total);
  EXPECT_EQ(status.pages.free, status.pages.total);
  const int connected = status.num_connected();
  EXPECT_EQ(status.slots.total, connected * options_.engine.num_slots);
  EXPECT_EQ(status.pages.total, connected * options_.engine.num_pages);
  const AdmissionLoad load = loop().load();
  EXPECT_EQ(load.requests, 0);
  EXPECT_EQ(load.tokens, 0);
  EXPECT_EQ(load.bytes, 0);
}

}  // namespace bole::e2e

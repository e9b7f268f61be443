// A scheduler server and a simulated worker, without a model, over loopback.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_TINY_SYSTEM_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_TINY_SYSTEM_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/check.h"
#include "common/mutex.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/bole.grpc.pb.h"
#include "proto/health.grpc.pb.h"
#include "scheduler_service/scheduler_server.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/links/fake_worker.h"
#include "tests/scheduler_service/served_model.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/worker_service/model/files.h"

namespace bole::testing {

// Answers plans as the simulated model would; between Hold() and Release() only
// as many as AnswerOne() was called.
class SimulatedService {
 public:
  explicit SimulatedService(const StepLimits& limits,
                            const std::string& model = "tiny")
      : limits_(limits),
        worker_(Description(limits, model),
                [this](FakeExecute& call) { return Run(call); }) {}

  static WorkerDescription Description(const StepLimits& limits,
                                       const std::string& model = "tiny") {
    WorkerDescription description = TinyWorker();
    description.model = model;
    description.limits = limits;
    description.has_drafter = true;
    description.stop_tokens = {1};
    // As SimulatedOutput() is.
    description.temperature = 0;
    description.repetition_penalty = 1;
    return description;
  }

  std::string address() const { return worker_.address(); }

  void Hold() { SetHeld(true); }
  void Release() { SetHeld(false); }
  void AnswerOne() {
    MutexLock lock(mutex_);
    ++num_allowed_;
    changed_.NotifyAll();
  }
  // Heartbeats say so from the next plan on.
  void Drain() { draining_ = true; }
  // Ends the connection instead of an answer, and refuses others.
  void Leave() {
    MutexLock lock(mutex_);
    left_ = true;
    changed_.NotifyAll();
  }

 private:
  void SetHeld(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.NotifyAll();
  }

  grpc::Status Run(FakeExecute& call) {
    if (has_left()) return Left();
    SimulatedWorker engine(limits_);
    engine.Connect();
    call.Open();
    worker::v1::ExecuteRequest request;
    while (call.Read(request)) {
      const absl::StatusOr<StepPlan> plan = DecodePlan(request.plan());
      BOLE_CHECK(plan.ok());
      engine.Send(engine.epoch(), request.sequence(), *plan, /*trace=*/{});
      {
        MutexLock lock(mutex_);
        while (held_ && num_allowed_ == 0 && !left_) changed_.Wait(mutex_);
        if (left_) return Left();
        if (held_) --num_allowed_;
      }
      if (draining_) call.Beat(/*draining=*/true);
      call.Answer(request.sequence(), *engine.Run().result, 0);
    }
    return grpc::Status::OK;
  }
  bool has_left() {
    MutexLock lock(mutex_);
    return left_;
  }
  static grpc::Status Left() {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it left");
  }

  const StepLimits limits_;
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int num_allowed_ ABSL_GUARDED_BY(mutex_) = 0;  // Answers while held.
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> draining_{false};
  FakeWorker worker_;  // Its threads use the rest: last.
};

// Looks every millisecond, for at most 20 s; nothing announces the change.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct TinySystem {
  // Without a worker nothing listens where the scheduler looks for one. Models
  // and workers that the options name come before these. `token` is needed if
  // the options name a file of tokens: one of these.
  explicit TinySystem(SchedulerServerOptions options = {},
                      bool with_worker = true,
                      const StepLimits& limits = SimulatedWorker::SmallLimits(),
                      std::string token = "")
      : token(std::move(token)), worker(limits) {
    directory.Write("tokenizer.json", TinyTokenizerJson());
    directory.Write("chat_template.jinja", kTinyTemplate);
    options.models.push_back("tiny=" + directory.path());
    options.workers.push_back(with_worker ? worker.address() : "127.0.0.1:1");
    auto started = SchedulerServer::Start(options);
    BOLE_CHECK(started.ok());
    server = *std::move(started);
    channel = grpc::CreateChannel(server->address().ToString(),
                                  grpc::InsecureChannelCredentials());
    stub = v1::BoleService::NewStub(channel);
    admin = v1::Admin::NewStub(channel);
    // The loop hears of its workers after the server has begun to answer.
    BOLE_CHECK(Eventually([&] {
      return with_worker ? Health() == "1"
                         : !server->loop().status().workers.empty();
    }));
  }
  ~TinySystem() {
    worker.Release();
    server->Stop();
  }

  // What grpc.health.v1 says: a number of its enum, or the code of the error.
  std::string Health(const std::string& service = "bole.v1.BoleService") {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status =
        grpc::health::v1::Health::NewStub(channel)->Check(&context, request,
                                                          &response);
    return status.ok() ? std::to_string(response.status())
                       : "error " + std::to_string(status.error_code());
  }

  bool AwaitLoad(int running, int waiting) {
    return Eventually([&] {
      const SchedulerStatus status = server->loop().status();
      return status.running == running && status.waiting == waiting &&
             status.audit.empty();
    });
  }

  const std::string token;
  ScopedDirectory directory;
  SimulatedService worker;
  std::unique_ptr<SchedulerServer> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::BoleService::Stub> stub;
  std::unique_ptr<v1::Admin::Stub> admin;
};

// A Generate call that a test reads when it likes.
class OpenCall {
 public:
  OpenCall(
      TinySystem& system, const v1::GenerateRequest& request,
      std::chrono::milliseconds timeout = std::chrono::seconds(60),
      const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    for (const auto& [key, value] : metadata) context_.AddMetadata(key, value);
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    reader_ = system.stub->Generate(&context_, request);
  }

  // All that comes, and how it ended.
  grpc::Status Finish() {
    v1::GenerateResponse response;
    while (reader_->Read(&response)) {
      request_id = response.request_id();
      model = response.model();
      if (response.has_complete()) {
        complete = response.complete();
        completes[complete.index()] = complete;
        ++num_complete;
      } else {
        chunks[response.chunk().index()].push_back(response.chunk());
        ++num_chunks;
        text += response.chunk().text();
        ids.insert(ids.end(), response.chunk().token_ids().begin(),
                   response.chunk().token_ids().end());
        usage = response.chunk().usage();
      }
    }
    return reader_->Finish();
  }
  void Cancel() { context_.TryCancel(); }

  std::string request_id;
  std::string model;
  int num_chunks = 0;
  int num_complete = 0;
  // By the number of the choice.
  std::map<uint32_t, std::vector<v1::GenerateChunk>> chunks;
  std::map<uint32_t, v1::GenerateComplete> completes;
  std::string text;  // `text`, `ids` and `usage` are those of all chunks.
  std::vector<int32_t> ids;
  v1::Usage usage;
  v1::GenerateComplete complete;

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_TINY_SYSTEM_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/mutex.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/step_codec.h"
#include "proto/worker.grpc.pb.h"
#include "scheduler_service/scheduler_server.h"
#include "tests/bench/canned_worker.h"
#include "tests/bench/rounds.h"
#include "tests/bench/samples.h"
#include "tests/e2e/system.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

// Listens, answers every plan after a step's time, and measures until the next.
class CannedService final : public worker::v1::Worker::Service {
 public:
  explicit CannedService(Samples& round_trip) : round_trip_(round_trip) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    BOLE_CHECK(server_ != nullptr);
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Waits until everything has been measured. Returns one of the plans.
  worker::v1::ExecuteRequest Wait() { return done_.get_future().get(); }

  grpc::Status Describe(grpc::ServerContext*,
                        const worker::v1::DescribeRequest*,
                        worker::v1::DescribeResponse* response) override {
    const WorkerDescription description = CannedWorker::Description();
    response->set_model(description.model);
    response->set_device(description.device);
    response->set_version(description.version);
    response->set_protocol_version(description.protocol_version);
    response->set_has_drafter(description.has_drafter);
    response->mutable_defaults()->set_temperature(description.temperature);
    response->mutable_defaults()->set_top_k(description.top_k);
    response->mutable_defaults()->set_top_p(description.top_p);
    EncodeLimits(description.limits, *response->mutable_limits());
    return grpc::Status::OK;
  }

  grpc::Status Execute(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<worker::v1::ExecuteResponse,
                               worker::v1::ExecuteRequest>* stream) override {
    worker::v1::ExecuteRequest request;
    BOLE_CHECK(stream->Read(&request));
    worker::v1::ExecuteResponse response;
    response.set_epoch(request.epoch());
    response.mutable_opened()->set_heartbeat_interval_ms(0);
    BOLE_CHECK(stream->Write(response) && stream->Read(&request));
    for (int round = 0; round < kBenchRounds - kLastRounds; ++round) {
      Answer(request, response);
      std::this_thread::sleep_for(kBenchStep);
      const auto start = steady_clock::now();
      if (!stream->Write(response) || !stream->Read(&request)) break;
      if (round < kWarmUpRounds) continue;
      round_trip_.Add(Microseconds(start, steady_clock::now()));
    }
    done_.set_value(request);
    return grpc::Status::OK;
  }

 private:
  void Answer(const worker::v1::ExecuteRequest& request,
              worker::v1::ExecuteResponse& response) {
    const absl::StatusOr<StepPlan> plan = DecodePlan(request.plan());
    BOLE_CHECK(plan.ok());
    worker::v1::StepOutcome& outcome = *response.mutable_outcome();
    outcome.set_sequence(request.sequence());
    EncodeResult(worker_.Answer(*plan), *outcome.mutable_result(),
                 ResultForm::kRaw);
  }

  Samples& round_trip_;
  CannedWorker worker_;
  std::promise<worker::v1::ExecuteRequest> done_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Answers every result at once with the same bytes.
class Echo final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Echo(grpc::GenericStub& stub, const worker::v1::ExecuteRequest& plan)
      : plan_(BufferOf(plan)) {
    stub.PrepareBidiStreamingCall(&context_, "/bole.worker.v1.Worker/Execute",
                                  grpc::StubOptions(), this);
    StartRead(&read_);
    StartWrite(&plan_);
    StartCall();
  }

  void Wait() { done_.get_future().wait(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    StartRead(&read_);
    MutexLock lock(mutex_);
    ++num_read_;
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (ok) WriteNext();
  }
  void OnDone(const grpc::Status&) override { done_.set_value(); }

 private:
  static grpc::ByteBuffer BufferOf(const worker::v1::ExecuteRequest& plan) {
    const grpc::Slice slice(plan.SerializeAsString());
    return {&slice, 1};
  }

  // One write at a time; gRPC may tell of a read before the write before it.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || num_read_ == 0) return;
    writing_ = true;
    --num_read_;
    StartWrite(&plan_);
  }

  grpc::ClientContext context_;
  const grpc::ByteBuffer plan_;
  grpc::ByteBuffer read_;
  Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;
  int num_read_ ABSL_GUARDED_BY(mutex_) = 0;  // And not answered.
  std::promise<void> done_;
};

}  // namespace

void RunOverGrpc() {
  Samples with_scheduler("through the scheduler");
  Samples with_nothing("the same messages, nothing between");
  worker::v1::ExecuteRequest plan;
  {
    CannedService service(with_scheduler);
    SchedulerServerOptions options;
    options.models = {"models/demo"};
    options.workers = {service.address()};
    options.scheduler.speculation = {
        .mode = SpeculationMode::kTree, .shape = kCannedShape, .nodes = 32};
    const auto server = SchedulerServer::Start(options);
    BOLE_CHECK(server.ok());
    SchedulerLoop& loop = (*server)->loop();
    BOLE_CHECK(e2e::Eventually([&] { return loop.status().connected(); }));
    for (auto& request : CannedRequests(kBenchRounds)) {
      BOLE_CHECK(!loop.Submit({&request, 1}).has_value());
    }
    plan = service.Wait();
    (*server)->Stop();
  }
  {
    CannedService service(with_nothing);
    grpc::GenericStub stub(grpc::CreateChannel(
        service.address(), grpc::InsecureChannelCredentials()));
    Echo echo(stub, plan);
    service.Wait();
    echo.Wait();
  }
  std::printf("over gRPC, from writing a result to having read a plan\n");
  with_scheduler.Print();
  with_nothing.Print();
}

}  // namespace bole

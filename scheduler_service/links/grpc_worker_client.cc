#include "scheduler_service/links/grpc_worker_client.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/status_macros.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/grpc_status.h"
#include "scheduler_service/links/worker_description_codec.h"

namespace bole {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

// Results with many logprobs are longer than gRPC's default of 4 MiB.
constexpr int kMaxResultBytes = 256 << 20;

// Every attempt has a connection of its own, because gRPC's pauses between
// attempts would be added to ours.
std::unique_ptr<worker::v1::Worker::Stub> NewStub(
    const GrpcWorkerClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxResultBytes);
  return worker::v1::Worker::NewStub(
      options.credentials.ChannelTo(options.address, arguments));
}

uint64_t NextEpoch(uint64_t last) {
  const auto now = std::chrono::duration_cast<microseconds>(
      system_clock::now().time_since_epoch());
  return std::max(static_cast<uint64_t>(now.count()), last + 1);
}

}  // namespace

GrpcWorkerClient::GrpcWorkerClient(const GrpcWorkerClientOptions& options,
                                   std::function<void(WorkerNews)> sink)
    : options_(options),
      sink_(std::move(sink)),
      random_(std::random_device()()),
      backoff_(options.min_backoff),
      thread_([this] { Run(); }) {}

GrpcWorkerClient::~GrpcWorkerClient() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (describing_ != nullptr) describing_->TryCancel();
    if (stream_ != nullptr) {
      stream_->Cancel(absl::CancelledError("the scheduler is stopping"));
    }
    changed_.NotifyAll();
  }
  thread_.join();
}

void GrpcWorkerClient::Connect() {
  MutexLock lock(mutex_);
  asked_ = true;
  changed_.NotifyAll();
}

void GrpcWorkerClient::Send(uint64_t epoch, uint64_t plan_number,
                            const StepPlan& plan, const PlanTrace& trace) {
  MutexLock lock(mutex_);
  if (stream_ == nullptr || stream_->epoch() != epoch) return;
  stream_->Send(plan_number, plan, trace);
}

void GrpcWorkerClient::EndSpans(uint64_t epoch,
                                const std::vector<SpanId>& spans) {
  MutexLock lock(mutex_);
  if (stream_ == nullptr || stream_->epoch() != epoch) return;
  stream_->EndSpans(spans);
}

void GrpcWorkerClient::Close(uint64_t epoch) {
  MutexLock lock(mutex_);
  if (stream_ != nullptr && stream_->epoch() == epoch) stream_->Close();
}

void GrpcWorkerClient::Disconnect(uint64_t epoch, const absl::Status& why) {
  MutexLock lock(mutex_);
  if (stream_ != nullptr && stream_->epoch() == epoch) stream_->Cancel(why);
}

void GrpcWorkerClient::Run() {
  uint64_t epoch = 0;
  absl::Status why;
  do {
    if (IsToConnect()) {
      epoch = NextEpoch(epoch);
      closed_ = false;
      why = RunConnection(epoch);
      sink_(WorkerLost{epoch, why, closed_});
    } else {
      why = Look();
    }
  } while (WaitBeforeRetry(why));
}

bool GrpcWorkerClient::IsToConnect() {
  if (!options_.on_look) return true;
  MutexLock lock(mutex_);
  return std::exchange(asked_, false);
}

absl::Status GrpcWorkerClient::Look() {
  const absl::StatusOr<WorkerDescription> description =
      Describe(*NewStub(options_));
  options_.on_look(description);
  return description.status();
}

absl::Status GrpcWorkerClient::RunConnection(uint64_t epoch) {
  const std::unique_ptr<worker::v1::Worker::Stub> stub = NewStub(options_);
  BOLE_ASSIGN_OR_RETURN(WorkerDescription description, Describe(*stub));
  WorkerStream stream(options_.scheduler, epoch, std::move(description), sink_);
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("the scheduler is stopping");
    stream.Start(*stub);
    stream_ = &stream;
  }
  absl::Status why = stream.AwaitEnd(options_.worker_timeout);
  MutexLock lock(mutex_);
  stream_ = nullptr;
  closed_ = stream.closed();
  if (stream.opened()) backoff_ = options_.min_backoff;
  return why;
}

absl::StatusOr<WorkerDescription> GrpcWorkerClient::Describe(
    worker::v1::Worker::Stub& stub) {
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + options_.worker_timeout);
  {
    MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("the scheduler is stopping");
    describing_ = &context;
  }
  worker::v1::DescribeResponse response;
  const grpc::Status status =
      stub.Describe(&context, worker::v1::DescribeRequest(), &response);
  {
    MutexLock lock(mutex_);
    describing_ = nullptr;
  }
  if (!status.ok()) return FromGrpcStatus(status);
  return DecodeDescription(response);
}

milliseconds GrpcWorkerClient::PauseAfter(const absl::Status& why) {
  if (why.ok()) {  // The look succeeded.
    backoff_ = options_.min_backoff;
    return options_.look_interval;
  }
  const milliseconds pause = backoff_;
  backoff_ = std::min(2 * backoff_, options_.max_backoff);
  return absl::IsAborted(why) && !options_.on_look ? options_.aborted_backoff
                                                   : pause;
}

bool GrpcWorkerClient::WaitBeforeRetry(const absl::Status& why) {
  const milliseconds longest = PauseAfter(why);
  std::uniform_real_distribution<double> share(0.5, 1);
  const auto retry_at =
      steady_clock::now() +
      std::chrono::duration_cast<microseconds>(longest * share(random_));
  MutexLock lock(mutex_);
  while (!stopping_ && !asked_ && steady_clock::now() < retry_at) {
    changed_.WaitUntil(mutex_, retry_at);
  }
  return !stopping_;
}

}  // namespace bole

#include "clients/bench/load_client.h"

#include <string>
#include <utility>

#include "clients/call_error.h"
#include "common/check.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "proto/grpc_status.h"

namespace bole::bench {

// One call. gRPC calls its methods one after another.
class LoadClient::Stream final
    : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Stream(LoadClient& client, uint64_t id, v1::GenerateRequest request)
      : client_(client), request_(std::move(request)) {
    ended_.id = id;
  }

  void Start(v1::BoleService::Stub& stub) {
    if (client_.timeout_seconds_) {
      context_.set_deadline(
          std::chrono::system_clock::now() +
          std::chrono::duration_cast<std::chrono::system_clock::duration>(
              std::chrono::duration<double>(*client_.timeout_seconds_)));
    }
    ended_.sent = client_.Now();
    stub.async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const double now = client_.Now();
    if (response_.has_chunk()) {
      const auto& ids = response_.chunk().token_ids();
      ended_.ids.insert(ended_.ids.end(), ids.begin(), ids.end());
      ended_.text += response_.chunk().text();
    }
    if (response_.has_chunk() && response_.chunk().token_ids_size() > 0) {
      if (ended_.arrivals.empty()) ++client_.num_streaming_;
      const int tokens = response_.chunk().token_ids_size();
      ended_.arrivals.push_back({.seconds = now, .tokens = tokens});
      client_.num_tokens_ += tokens;
    }
    if (response_.has_complete()) {
      ended_.complete = std::move(*response_.mutable_complete());
      has_complete_ = true;
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    ended_.end = client_.Now();
    ended_.status = FromGrpcStatus(status);
    if (status.ok() && !has_complete_) {
      ended_.status = absl::InternalError("the answer has no end");
    }
    CallError error = ReadError(status);
    ended_.reason = std::move(error.reason);
    if (error.retry_after) {
      ended_.retry_after_seconds =
          std::chrono::duration<double>(*error.retry_after).count();
    }
    if (!ended_.arrivals.empty()) --client_.num_streaming_;
    client_.OnEnd(std::move(ended_));  // Destroys this.
  }

 private:
  LoadClient& client_;
  const v1::GenerateRequest request_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  EndedCall ended_;
  bool has_complete_ = false;
};

LoadClient::LoadClient(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    Clock::time_point start, std::optional<double> timeout_seconds)
    : start_(start), timeout_seconds_(timeout_seconds) {
  BOLE_CHECK(!channels.empty());
  for (const std::shared_ptr<grpc::Channel>& channel : channels) {
    stubs_.push_back(v1::BoleService::NewStub(channel));
  }
}

LoadClient::~LoadClient() {
  CancelAll();
  MutexLock lock(mutex_);
  while (num_open_ > 0) changed_.Wait(mutex_);
}

double LoadClient::Now() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void LoadClient::Send(uint64_t id, v1::GenerateRequest request) {
  auto stream = std::make_unique<Stream>(*this, id, std::move(request));
  Stream& started = *stream;
  v1::BoleService::Stub* stub = nullptr;
  {
    MutexLock lock(mutex_);
    BOLE_CHECK(streams_.emplace(id, std::move(stream)).second);
    ++num_open_;
    stub = stubs_[next_stub_].get();
    next_stub_ = (next_stub_ + 1) % stubs_.size();
  }
  started.Start(*stub);
}

void LoadClient::OnEnd(EndedCall ended) {
  std::unique_ptr<Stream> stream;
  {
    MutexLock lock(mutex_);
    const auto found = streams_.find(ended.id);
    BOLE_CHECK(found != streams_.end());
    stream = std::move(found->second);
    streams_.erase(found);
  }
  // Before the end is known: then the process may exit, and a call that lives
  // on would outlive gRPC.
  stream.reset();
  MutexLock lock(mutex_);
  --num_open_;
  ended_.push_back(std::move(ended));
  changed_.NotifyAll();
}

std::vector<EndedCall> LoadClient::TakeEnded(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  while (ended_.empty() && !woken_ && changed_.WaitUntil(mutex_, deadline)) {
  }
  woken_ = false;
  return std::exchange(ended_, {});
}

void LoadClient::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

void LoadClient::CancelAll() {
  MutexLock lock(mutex_);
  for (const auto& [id, stream] : streams_) stream->Cancel();
}

}  // namespace bole::bench

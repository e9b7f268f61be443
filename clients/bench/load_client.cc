#include "clients/bench/load_client.h"

#include <utility>

namespace bole::bench {

LoadClient::LoadClient(std::shared_ptr<Transport> transport,
                       Clock::time_point start,
                       std::optional<double> timeout_seconds)
    : start_(start),
      transport_(std::move(transport)),
      timeout_seconds_(timeout_seconds) {}

LoadClient::~LoadClient() {
  CancelAll();
  MutexLock lock(mutex_);
  while (num_open_ > 0) changed_.Wait(mutex_);
}

double LoadClient::Now() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void LoadClient::Take(const v1::GenerateResponse& response, EndedCall& call) {
  if (response.has_complete()) call.complete = response.complete();
  const auto& ids = response.chunk().token_ids();
  call.text += response.chunk().text();
  if (ids.empty()) return;
  if (call.arrivals.empty()) ++num_streaming_;
  call.ids.insert(call.ids.end(), ids.begin(), ids.end());
  call.arrivals.push_back({.seconds = Now(), .tokens = ids.size()});
  num_tokens_ += ids.size();
}

void LoadClient::Send(uint64_t id, v1::GenerateRequest request) {
  // One thread after another uses it.
  auto call = std::make_shared<EndedCall>();
  call->id = id;
  call->sent = Now();
  {
    MutexLock lock(mutex_);
    ++num_open_;
  }
  std::shared_ptr<TransportCall> sent =
      transport_->Send(std::move(request), timeout_seconds_,
                       {.on_response =
                            [this, call](const v1::GenerateResponse& response) {
                              Take(response, *call);
                            },
                        .on_end =
                            [this, call](CallEnd end) {
                              OnEnd(std::move(end), std::move(*call));
                            }});
  MutexLock lock(mutex_);
  if (ended_early_.erase(id) == 0) open_.emplace(id, std::move(sent));
}

void LoadClient::OnEnd(CallEnd end, EndedCall ended) {
  ended.end = Now();
  ended.status = std::move(end.status);
  ended.reason = std::move(end.reason);
  ended.retry_after_seconds = end.retry_after_seconds;
  if (!ended.arrivals.empty()) --num_streaming_;
  MutexLock lock(mutex_);
  if (open_.erase(ended.id) == 0) ended_early_.insert(ended.id);
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
  for (const auto& [id, call] : open_) call->Cancel();
}

}  // namespace bole::bench

#include "clients/bench/load_client.h"

#include <cmath>
#include <utility>

#include "clients/sdk/call_error.h"
#include "common/check.h"

namespace bole::bench {

LoadClient::LoadClient(std::vector<std::shared_ptr<Client>> clients,
                       Clock::time_point start,
                       std::optional<double> timeout_seconds)
    : start_(start), clients_(std::move(clients)) {
  BOLE_CHECK(!clients_.empty());
  if (!timeout_seconds) return;
  options_.timeout = std::chrono::milliseconds(
      static_cast<int64_t>(std::ceil(*timeout_seconds * 1000)));
}

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
  Client* client = nullptr;
  {
    MutexLock lock(mutex_);
    ++num_open_;
    client = clients_[next_client_].get();
    next_client_ = (next_client_ + 1) % clients_.size();
  }
  auto generation = client->GenerateAsync(
      std::move(request),
      {.on_event =
           [this, call](const v1::GenerateResponse& response) {
             Take(response, *call);
           },
       .on_done =
           [this, call](const absl::Status& status, const GenerationStats&) {
             OnEnd(status, std::move(*call));
           }},
      options_);
  MutexLock lock(mutex_);
  if (ended_early_.erase(id) == 0) open_.emplace(id, std::move(generation));
}

void LoadClient::OnEnd(const absl::Status& status, EndedCall ended) {
  ended.end = Now();
  ended.status = status;
  CallError error = ReadError(status);
  ended.reason = std::move(error.reason);
  if (error.retry_after) {
    ended.retry_after_seconds =
        std::chrono::duration<double>(*error.retry_after).count();
  }
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
  for (const auto& [id, generation] : open_) generation->Cancel();
}

}  // namespace bole::bench

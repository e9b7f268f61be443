#include "tests/bench/load/stream_clients.h"

#include <chrono>
#include <utility>

#include "common/sampling_params.h"
#include "scheduler_service/jobs/request.h"

namespace bole {
namespace {

SamplingParams Greedy(int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  return sampling;
}

}  // namespace

StreamClients::StreamClients(SchedulerLoop& loop, int num_streams)
    : loop_(loop), clients_(num_streams) {}

void StreamClients::Start() {
  thread_ = std::thread([this] { Run(); });
}

void StreamClients::Finish() {
  finishing_ = true;
  thread_.join();
}

std::string StreamClients::first_wrong() const {
  MutexLock lock(mutex_);
  return first_wrong_;
}

void StreamClients::Run() {
  for (size_t i = 0; i < clients_.size(); ++i) Ask(i);
  size_t num_open = clients_.size();
  while (num_open > 0) {
    std::vector<size_t> ready;
    {
      MutexLock lock(mutex_);
      while (ready_.empty()) changed_.Wait(mutex_);
      ready.swap(ready_);
    }
    for (const size_t index : ready) {
      if (!Read(clients_[index])) continue;
      if (finishing_) {
        --num_open;
      } else {
        Ask(index);
      }
    }
  }
}

void StreamClients::Ask(size_t index) {
  Client& client = clients_[index];
  client.prompt.resize(64 + rng_() % 385);
  for (int32_t& token : client.prompt) {
    token = static_cast<int32_t>('a' + rng_() % 26);
  }
  client.max_tokens = static_cast<int>(16 + rng_() % 97);
  client.tokens.clear();
  auto request = std::make_unique<Request>();
  request->prompt = client.prompt;
  request->sampling = Greedy(client.max_tokens);
  request->arrival = std::chrono::steady_clock::now();
  request->stream = std::make_shared<TokenStream>([this, index] {
    MutexLock lock(mutex_);
    ready_.push_back(index);
    if (ready_.size() == 1) changed_.NotifyAll();
  });
  client.stream = request->stream;
  if (const auto refusal = loop_.Submit({&request, 1})) {
    client.stream->Finish(absl::ResourceExhaustedError(refusal->message));
  }
}

bool StreamClients::Read(Client& client) {
  const TokenDelta delta = client.stream->Take();
  for (const EmittedToken& token : delta.tokens) {
    client.tokens.push_back(token.token);
  }
  num_tokens_ += std::ssize(delta.tokens);
  if (!delta.end) return false;
  const std::vector<int32_t> want = simulation::ExpectedOutput(
      text_, client.prompt, Greedy(client.max_tokens), client.max_tokens);
  if (!delta.end->ok()) {
    Blame(delta.end->status().ToString());
  } else if (client.tokens != want) {
    Blame("a text is wrong");
  } else {
    ++num_right_;
  }
  return true;
}

void StreamClients::Blame(const std::string& what) {
  if (num_wrong_++ > 0) return;
  MutexLock lock(mutex_);
  first_wrong_ = what;
}

}  // namespace bole

#include "clients/sdk/async_generation.h"

#include <chrono>
#include <utility>

#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

namespace bole {

// One call. gRPC calls its methods one after another.
class AsyncGeneration::Attempt final
    : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  explicit Attempt(AsyncGeneration& owner) : owner_(owner) {
    owner_.channel_.Prepare(context_, owner_.deadline_);
  }

  void Start() {
    owner_.stub_.async()->Generate(&context_, &owner_.generation_.request(),
                                   this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (owner_.generation_.Take(response_)) {
      owner_.handlers_.on_event(response_);
    } else if (!owner_.generation_.status().ok()) {
      context_.TryCancel();
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    owner_.End(status);  // Destroys this.
  }

 private:
  AsyncGeneration& owner_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
};

AsyncGeneration::AsyncGeneration(const ServerChannel& channel,
                                 v1::BoleService::Stub& stub,
                                 Generation generation,
                                 std::optional<Generation::TimePoint> deadline,
                                 GenerateHandlers handlers,
                                 std::function<void(AsyncGeneration*)> on_ended)
    : channel_(channel),
      stub_(stub),
      deadline_(deadline),
      handlers_(std::move(handlers)),
      on_ended_(std::move(on_ended)),
      generation_(std::move(generation)) {}

AsyncGeneration::~AsyncGeneration() = default;

void AsyncGeneration::Start() { Begin(); }

void AsyncGeneration::Begin() {
  generation_.Begin(std::chrono::steady_clock::now());
  auto attempt = std::make_unique<Attempt>(*this);
  Attempt& started = *attempt;
  {
    MutexLock lock(mutex_);
    attempt_ = std::move(attempt);
    if (cancelled_) started.Cancel();
  }
  started.Start();
}

void AsyncGeneration::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  if (attempt_ != nullptr) attempt_->Cancel();
  alarm_.Cancel();
}

void AsyncGeneration::End(const grpc::Status& status) {
  bool cancelled = false;
  std::unique_ptr<Attempt> ended;
  {
    MutexLock lock(mutex_);
    ended = std::move(attempt_);
    cancelled = cancelled_;
  }
  // The attempt's own may go with it.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const grpc::Status kept = status;
  // Before the end is known: then the process may exit, and a call that lives
  // on would outlive gRPC.
  ended.reset();
  const auto delay =
      generation_.End(kept, cancelled, std::chrono::steady_clock::now());
  if (!delay) return Done();
  {
    MutexLock lock(mutex_);
    cancelled = cancelled_;
    if (!cancelled) {
      alarm_.Set(std::chrono::system_clock::now() + *delay,
                 [this](bool /*ok*/) { Wake(); });
    }
  }
  if (cancelled) Wake();
}

void AsyncGeneration::Wake() {
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    cancelled = cancelled_;
  }
  if (!cancelled) return Begin();
  generation_.Cancel();
  Done();
}

void AsyncGeneration::Done() {
  {
    const GenerateHandlers handlers = std::move(handlers_);
    handlers.on_done(generation_.status(), generation_.stats());
  }
  on_ended_(this);
}

}  // namespace bole

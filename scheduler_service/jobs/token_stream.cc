#include "scheduler_service/jobs/token_stream.h"

#include <iterator>
#include <utility>

namespace bole {
namespace {

size_t BytesOf(const std::vector<EmittedToken>& tokens,
               const std::string& text) {
  size_t bytes = tokens.size() * sizeof(EmittedToken) + text.size();
  for (const EmittedToken& token : tokens) {
    bytes += token.top.size() * sizeof(TokenLogprob);
  }
  return bytes;
}

void Merge(std::vector<EmittedToken> tokens, std::string text, size_t bytes,
           TokenDelta& delta) {
  if (delta.tokens.empty()) {
    delta.tokens = std::move(tokens);
  } else {
    delta.tokens.insert(delta.tokens.end(),
                        std::make_move_iterator(tokens.begin()),
                        std::make_move_iterator(tokens.end()));
  }
  if (delta.text.empty()) {
    delta.text = std::move(text);
  } else {
    delta.text += text;
  }
  delta.bytes += bytes;
}

}  // namespace

void TokenStream::Append(std::vector<EmittedToken> tokens, std::string text,
                         std::vector<EmittedToken> prompt_logprobs) {
  if (tokens.empty() && text.empty()) return;
  const size_t prompt_bytes = BytesOf(prompt_logprobs, "");
  const size_t output_bytes = BytesOf(tokens, text);
  const size_t bytes = output_bytes + prompt_bytes;
  bool tell = false;
  bool overflows = false;
  {
    MutexLock lock(mutex_);
    if (discarding_) return;
    tell = deltas_.empty();
    overflows =
        !tell && *all_waiting_ + output_bytes > limits_.max_waiting_bytes;
    if (overflows) {
      discarding_ = true;
      overflowed_.store(true, std::memory_order_release);
    } else {
      if (deltas_.empty() ||
          deltas_.back().bytes + bytes > limits_.max_delta_bytes) {
        deltas_.emplace_back();
      }
      Merge(std::move(tokens), std::move(text), bytes, deltas_.back());
      waiting_bytes_ += bytes;
      *all_waiting_ += output_bytes;
      if (prompt_bytes > 0) {
        deltas_.back().prompt_logprobs = std::move(prompt_logprobs);
        prompt_bytes_ = prompt_bytes;
      }
    }
  }
  if (overflows) Cancel();
  if (tell || overflows) on_ready_();
}

void TokenStream::Finish(absl::StatusOr<Completion> end) {
  bool tell = false;
  {
    MutexLock lock(mutex_);
    finished_ = true;
    on_cancel_ = nullptr;
    tell = deltas_.empty();
    if (tell) deltas_.emplace_back();
    deltas_.back().end = std::move(end);
  }
  if (tell) on_ready_();
}

void TokenStream::SetCancelHook(std::function<void()> hook) {
  MutexLock lock(mutex_);
  if (finished_) return;
  if (cancelled()) {
    hook();
  } else {
    on_cancel_ = std::move(hook);
  }
}

void TokenStream::Cancel() {
  if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
  MutexLock lock(mutex_);
  if (on_cancel_) std::exchange(on_cancel_, nullptr)();
}

TokenDelta TokenStream::Take() {
  MutexLock lock(mutex_);
  if (deltas_.empty()) return {};
  TokenDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
  waiting_bytes_ -= delta.bytes;
  // Log probabilities of the prompt were in the first delta.
  *all_waiting_ -= delta.bytes - std::exchange(prompt_bytes_, 0);
  return delta;
}

void TokenStream::Discard() {
  std::deque<TokenDelta> dropped;  // Freed after the lock.
  MutexLock lock(mutex_);
  discarding_ = true;
  dropped.swap(deltas_);
  *all_waiting_ -=
      std::exchange(waiting_bytes_, 0) - std::exchange(prompt_bytes_, 0);
}

size_t TokenStream::waiting_bytes() const {
  MutexLock lock(mutex_);
  return waiting_bytes_;
}

}  // namespace bole

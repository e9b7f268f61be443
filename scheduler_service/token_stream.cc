#include "scheduler_service/token_stream.h"

#include <iterator>
#include <utility>

namespace bole {

void TokenStream::Append(std::vector<EmittedToken> tokens, std::string text) {
  if (tokens.empty() && text.empty()) return;
  bool was_empty = false;
  {
    MutexLock lock(mutex_);
    was_empty = pending_.empty();
    if (pending_.tokens.empty()) {
      pending_.tokens = std::move(tokens);
    } else {
      pending_.tokens.insert(pending_.tokens.end(),
                             std::make_move_iterator(tokens.begin()),
                             std::make_move_iterator(tokens.end()));
    }
    if (pending_.text.empty()) {
      pending_.text = std::move(text);
    } else {
      pending_.text += text;
    }
  }
  if (was_empty) on_ready_();
}

void TokenStream::Finish(absl::StatusOr<Completion> end) {
  bool was_empty = false;
  {
    MutexLock lock(mutex_);
    was_empty = pending_.empty();
    pending_.end = std::move(end);
  }
  if (was_empty) on_ready_();
}

TokenDelta TokenStream::Take() {
  MutexLock lock(mutex_);
  return std::exchange(pending_, {});
}

}  // namespace bole

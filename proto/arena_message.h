// A message of many parts that is read again and again.
#ifndef BOLE_PROTO_ARENA_MESSAGE_H_
#define BOLE_PROTO_ARENA_MESSAGE_H_

#include <cstddef>
#include <memory>

#include "google/protobuf/arena.h"

namespace bole {

// Holds one message, whose parts lie in memory that the next one uses again.
template <typename Message>
class ArenaMessage {
 public:
  // Parts beyond `bytes` together are allocated for each message anew; strings
  // always are.
  explicit ArenaMessage(size_t bytes)
      : block_(std::make_unique<char[]>(bytes)),
        arena_(OptionsFor(block_.get(), bytes)) {
    Renew();
  }

  ArenaMessage(const ArenaMessage&) = delete;
  ArenaMessage& operator=(const ArenaMessage&) = delete;

  // Drops the message for an empty one.
  void Renew() {
    arena_.Reset();
    message_ = google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

  Message& operator*() const { return *message_; }
  Message* operator->() const { return message_; }

 private:
  static google::protobuf::ArenaOptions OptionsFor(char* block, size_t bytes) {
    google::protobuf::ArenaOptions options;
    options.initial_block = block;
    options.initial_block_size = bytes;
    return options;
  }

  const std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;
  Message* message_;  // In the arena.
};

}  // namespace bole

#endif  // BOLE_PROTO_ARENA_MESSAGE_H_

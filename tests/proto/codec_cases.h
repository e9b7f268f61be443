// Messages on their way through a codec, good ones and bad ones.
#ifndef BOLE_TESTS_PROTO_CODEC_CASES_H_
#define BOLE_TESTS_PROTO_CODEC_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole::testing {

// Through bytes, as on the wire.
template <typename Message>
Message Reparse(const Message& message) {
  Message parsed;
  EXPECT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
  return parsed;
}

template <typename Message>
struct BadCase {
  const char* name;
  std::function<void(Message&)> spoil;
  const char* message;  // A part of the error's.
};

template <typename Message, typename Decode>
void ExpectRefused(const std::vector<BadCase<Message>>& cases,
                   const Message& good, Decode decode) {
  ASSERT_EQ(decode(good).status(), absl::OkStatus());
  for (const BadCase<Message>& bad : cases) {
    SCOPED_TRACE(bad.name);
    Message message = good;
    bad.spoil(message);

    const absl::Status status = decode(message).status();

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(bad.message),
              std::string::npos)
        << status;
  }
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_PROTO_CODEC_CASES_H_

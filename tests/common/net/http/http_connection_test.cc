// What a connection writes, write by write.
#include "common/net/http/http_connection.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "boost/asio/io_context.hpp"
#include "boost/asio/post.hpp"
#include "common/net/http/http_handler.h"
#include "common/net/http/http_message.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using boost::system::error_code;

// A client that has sent its requests, and takes what is written when the test
// lets it.
class HeldStream : public HttpStream {
 public:
  struct Wire {
    std::string to_read;
    std::vector<std::string> writes;
    Done written;  // Of the write under way.
  };

  HeldStream(boost::asio::io_context& io, Wire& wire) : io_(io), wire_(wire) {}

  boost::asio::any_io_executor executor() override {
    return io_.get_executor();
  }
  void Handshake(Done done) override {
    boost::asio::post(io_, [done] { done(error_code(), 0); });
  }
  void ReadSome(boost::asio::mutable_buffer buffer, Done done) override {
    const size_t size = std::min(buffer.size(), wire_.to_read.size());
    if (size == 0) {
      reading_ = std::move(done);
      return;
    }
    std::copy_n(wire_.to_read.data(), size, static_cast<char*>(buffer.data()));
    wire_.to_read.erase(0, size);
    boost::asio::post(io_, [done, size] { done(error_code(), size); });
  }
  void Write(const Parts& parts, Done done) override {
    EXPECT_FALSE(wire_.written) << "a write before the last one ended";
    std::string bytes;
    for (const boost::asio::const_buffer& part : parts) {
      bytes.append(static_cast<const char*>(part.data()), part.size());
    }
    wire_.writes.push_back(bytes);
    wire_.written = std::move(done);
  }
  void EndSending(Done done) override {
    boost::asio::post(io_, [done] { done(error_code(), 0); });
  }
  void Close() override {
    if (reading_ == nullptr) return;
    boost::asio::post(io_, [done = std::exchange(reading_, nullptr)] {
      done(boost::asio::error::operation_aborted, 0);
    });
  }

 private:
  boost::asio::io_context& io_;
  Wire& wire_;
  Done reading_;
};

// Keeps the exchange for the test.
class KeepingHandler : public HttpHandler, public HttpCall {
 public:
  std::optional<HttpAnswer> Refuse(const HttpRequest&) override {
    return std::nullopt;
  }
  std::shared_ptr<HttpCall> Handle(
      HttpRequest, std::shared_ptr<HttpExchange> given) override {
    exchange = std::move(given);
    return std::shared_ptr<HttpCall>(this, [](HttpCall*) {});
  }
  void OnWritten(bool ok) override { num_written += ok ? 1 : 0; }
  void OnGone() override {}
  void OnDone() override { ++num_done; }

  std::shared_ptr<HttpExchange> exchange;
  int num_written = 0;
  int num_done = 0;
};

class HttpConnectionTest : public ::testing::Test {
 protected:
  HttpConnectionTest()
      : context_{.limits = {},
                 .handler = handler_,
                 .io = std::make_shared<boost::asio::io_context>()} {}
  ~HttpConnectionTest() override {
    connection_->Close();
    Turn();
    handler_.exchange.reset();
    connection_.reset();
  }

  // A connection over which `requests` have come.
  void Connect(const std::string& requests) {
    wire_.to_read = requests;
    connection_ = std::make_shared<HttpConnection>(
        std::make_unique<HeldStream>(*context_.io, wire_), context_, [] {});
    connection_->Start();
    Turn();
  }

  // Does all that can be done now.
  void Turn() {
    context_.io->restart();
    context_.io->poll();
  }
  void EndWrite() {
    const HttpStream::Done done = std::exchange(wire_.written, nullptr);
    ASSERT_TRUE(done);
    done(error_code(), 0);
    Turn();
  }

  KeepingHandler handler_;
  HttpConnectionContext context_;
  HeldStream::Wire wire_;
  std::shared_ptr<HttpConnection> connection_;
};

constexpr char kRequest[] = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

int CountHeads(const std::vector<std::string>& writes) {
  int count = 0;
  for (const std::string& bytes : writes) {
    for (size_t at = 0; (at = bytes.find("HTTP/1.1 200 OK", at)) != bytes.npos;
         ++at) {
      ++count;
    }
  }
  return count;
}

TEST_F(HttpConnectionTest, TheHeadOfAStreamIsWrittenOnceWithTheFirstBytes) {
  Connect(kRequest);
  ASSERT_NE(handler_.exchange, nullptr);
  handler_.exchange->Begin({.content_type = "text/event-stream"});
  Turn();
  EXPECT_TRUE(wire_.writes.empty());

  handler_.exchange->Write("one", /*last=*/false);
  Turn();
  ASSERT_EQ(wire_.writes.size(), 1u);
  EXPECT_EQ(wire_.writes[0].find("HTTP/1.1 200 OK\r\n"), 0u);
  EXPECT_TRUE(wire_.writes[0].ends_with("\r\n\r\n3\r\none\r\n"));
  EXPECT_EQ(handler_.num_written, 0);

  EndWrite();
  EXPECT_EQ(handler_.num_written, 1);
  handler_.exchange->Write("and two", /*last=*/true);
  Turn();
  ASSERT_EQ(wire_.writes.size(), 2u);
  EXPECT_EQ(wire_.writes[1], "7\r\nand two\r\n0\r\n\r\n");
  EXPECT_EQ(CountHeads(wire_.writes), 1);
  EXPECT_EQ(handler_.num_done, 0);
  EndWrite();
  EXPECT_EQ(handler_.num_done, 1);
}

TEST_F(HttpConnectionTest, AStreamOfOneWriteIsOneWrite) {
  Connect(kRequest);
  handler_.exchange->Begin({.content_type = "text/event-stream"});
  handler_.exchange->Write("all", /*last=*/true);
  Turn();

  ASSERT_EQ(wire_.writes.size(), 1u);
  EXPECT_EQ(CountHeads(wire_.writes), 1);
  EXPECT_TRUE(wire_.writes[0].ends_with("\r\n\r\n3\r\nall\r\n0\r\n\r\n"));
  EndWrite();
}

TEST_F(HttpConnectionTest, TheHeadSaysWhatTheConnectionDoes) {
  Connect(std::string(kRequest) + kRequest);
  handler_.exchange->Begin({});
  Turn();
  // What was said before the drain stays true of this answer.
  context_.draining = true;
  handler_.exchange->Write("x", /*last=*/true);
  Turn();
  EXPECT_NE(wire_.writes[0].find("Connection: keep-alive"), std::string::npos);
  EndWrite();

  handler_.exchange->Begin({});
  handler_.exchange->Write("y", /*last=*/true);
  Turn();
  ASSERT_EQ(wire_.writes.size(), 2u);
  EXPECT_NE(wire_.writes[1].find("Connection: close"), std::string::npos);
  EndWrite();
}

}  // namespace
}  // namespace bole

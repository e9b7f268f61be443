// One call of OpenAI's API over a connection of its own.
#ifndef BOLE_CLIENTS_BENCH_OPENAI_CALL_H_
#define BOLE_CLIENTS_BENCH_OPENAI_CALL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/bench/client_stream.h"
// The stream comes first because of what it includes.
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "clients/bench/completion_body.h"
#include "clients/bench/openai_reader.h"
#include "clients/bench/transport.h"

namespace bole::bench {

// The server, and the idle connections to it. Calls use it only on the
// context's thread.
struct OpenAiPeer {
  boost::asio::io_context io;
  std::vector<boost::asio::ip::tcp::endpoint> endpoints;
  std::optional<boost::asio::ssl::context> tls;  // Absent: in the clear.
  std::string host;
  std::string authority;      // For the Host header.
  std::string path;           // Precedes that of a call: "" or "/a/b".
  std::string authorization;  // The header's value; empty: none.
  std::vector<std::unique_ptr<ClientStream>> idle;
};

// Sends the body and reads the events of the answer. Cancellation closes the
// connection, and so does the deadline. The call lives until it has ended, even
// if nobody holds a reference to it. Thread-safe.
class OpenAiCall final : public TransportCall,
                         public std::enable_shared_from_this<OpenAiCall> {
 public:
  // The peer outlives it.
  OpenAiCall(OpenAiPeer& peer, const CompletionBody& body,
             CallHandlers handlers);

  // Call this once, before everything else.
  void Start(std::optional<double> timeout_seconds);
  void Cancel() override;

 private:
  using Parser =
      boost::beast::http::response_parser<boost::beast::http::string_body>;

  // This and everything below runs on the context's thread.
  void Begin(bool may_reuse);
  void Connect();
  void Write();
  void Read();
  void OnRead(boost::system::error_code error, size_t num_bytes);
  // Consumes the part of the body that has arrived.
  void TakeBody();
  void OnBroken(boost::system::error_code error);
  void OnMessageEnd();
  CallEnd EndOfRefusal() const;
  void End(CallEnd end);

  OpenAiPeer& peer_;
  std::string request_;  // As it goes over the wire.
  CallHandlers handlers_;
  boost::asio::steady_timer deadline_;
  std::unique_ptr<ClientStream> stream_;
  bool reused_ = false;    // The connection has served a call before.
  bool answered_ = false;  // The header of the answer has arrived.
  bool ended_ = false;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  OpenAiReader reader_;
  std::string refusal_;  // The body of an answer with another status than 200.
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_OPENAI_CALL_H_

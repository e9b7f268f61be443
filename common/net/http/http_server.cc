#include "common/net/http/http_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/net/http/http_connection.h"
// The connection comes first because of what its streams include.
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/strand.hpp"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace bole {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
// After an error such as too many open files, which would come again at once.
constexpr std::chrono::milliseconds kAcceptPause(100);

int NumThreads(const HttpServerOptions& options) {
  if (options.num_threads > 0) return options.num_threads;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 4, 2, 4);
}

// Whatever the system refuses of this, the connection works without it.
void Configure(tcp::socket& socket, const HttpLimits& limits) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(boost::asio::socket_base::keep_alive(true), ignored);
  socket.set_option(
      boost::asio::socket_base::send_buffer_size(limits.send_buffer_bytes),
      ignored);
  const auto set = [&](int option, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value,
               sizeof(value));
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 10);
  set(TCP_KEEPCNT, 3);
}

// A client that waits for a handshake could not read it.
void TurnAway(tcp::socket socket, bool tls) {
  if (tls) return;
  const HttpAnswer answer =
      HttpError(503, "too_many_connections", "too many connections are open");
  const std::string bytes =
      EncodeHead(answer, Framing::kLength, /*close=*/true) + answer.body;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(boost::asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace

struct HttpServer::Parts {
  Parts(const HttpServerOptions& from, HttpHandler& handler)
      : options(from),
        context{.limits = from.limits,
                .handler = handler,
                .io = std::make_shared<boost::asio::io_context>()} {}

  absl::Status Listen();
  void Accept();
  void Open(tcp::socket socket);
  void OnEnd(uint64_t id);
  void Stop();

  const HttpServerOptions options;
  ListenAddress address;
  HttpConnectionContext context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.io->get_executor()};
  // The acceptor's strand has it and the timer.
  tcp::acceptor acceptor{boost::asio::make_strand(*context.io)};
  boost::asio::steady_timer pause{acceptor.get_executor()};

  mutable Mutex mutex;
  CondVar changed;
  uint64_t next_id ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::unordered_map<uint64_t, std::weak_ptr<HttpConnection>> connections
      ABSL_GUARDED_BY(mutex);
  Mutex stop_mutex;
  std::vector<std::thread> threads ABSL_GUARDED_BY(stop_mutex);
};

absl::Status HttpServer::Parts::Listen() {
  BOLE_ASSIGN_OR_RETURN(address,
                        ParseListenAddress(options.address, options.reach));
  error_code error;
  const auto host = boost::asio::ip::make_address(address.host, error);
  const tcp::endpoint endpoint(host, static_cast<uint16_t>(address.port));
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address.ToString(), ": ", error.message()));
  }
  address.port = acceptor.local_endpoint().port();
  return absl::OkStatus();
}

void HttpServer::Parts::Accept() {
  acceptor.async_accept(boost::asio::make_strand(*context.io),
                        [this](error_code error, tcp::socket peer) {
                          if (!acceptor.is_open()) return;
                          if (!error) {
                            Open(std::move(peer));
                            return Accept();
                          }
                          pause.expires_after(kAcceptPause);
                          pause.async_wait([this](error_code cancelled) {
                            if (!cancelled && acceptor.is_open()) Accept();
                          });
                        });
}

void HttpServer::Parts::Open(tcp::socket socket) {
  Configure(socket, options.limits);
  std::shared_ptr<HttpConnection> connection;
  std::optional<tcp::socket> refused;
  {
    MutexLock lock(mutex);
    if (stopping) return;
    if (connections.size() >= options.limits.max_connections) {
      refused = std::move(socket);
    } else {
      const uint64_t id = next_id++;
      connection = std::make_shared<HttpConnection>(
          HttpStream::Create(std::move(socket),
                             options.tls ? options.tls->context() : nullptr),
          context, [this, id] { OnEnd(id); });
      connections.emplace(id, connection);
    }
  }
  if (refused) return TurnAway(*std::move(refused), options.tls != nullptr);
  connection->Start();
}

void HttpServer::Parts::OnEnd(uint64_t id) {
  MutexLock lock(mutex);
  connections.erase(id);
  changed.NotifyAll();
}

void HttpServer::Parts::Stop() {
  std::vector<std::shared_ptr<HttpConnection>> open;
  {
    MutexLock lock(mutex);
    stopping = true;
    for (const auto& [id, weak] : connections) {
      if (auto connection = weak.lock()) open.push_back(std::move(connection));
    }
  }
  for (const auto& connection : open) connection->Close();
  open.clear();
  {
    MutexLock lock(mutex);
    while (!connections.empty()) changed.Wait(mutex);
  }
  work.reset();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, HttpHandler& handler) {
  auto parts = std::make_unique<Parts>(options, handler);
  BOLE_RETURN_IF_ERROR(parts->Listen());
  parts->Accept();
  {
    MutexLock lock(parts->stop_mutex);
    for (int i = 0; i < NumThreads(options); ++i) {
      parts->threads.emplace_back([&io = *parts->context.io] { io.run(); });
    }
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(parts)));
}

HttpServer::HttpServer(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

HttpServer::~HttpServer() { Stop(); }

const ListenAddress& HttpServer::address() const { return parts_->address; }

size_t HttpServer::num_connections() const {
  MutexLock lock(parts_->mutex);
  return parts_->connections.size();
}

size_t HttpServer::body_bytes() const {
  return parts_->context.body_bytes.load();
}

void HttpServer::Drain() {
  parts_->context.draining.store(true);
  boost::asio::post(parts_->acceptor.get_executor(), [parts = parts_.get()] {
    error_code ignored;
    parts->acceptor.close(ignored);
    parts->pause.cancel();
  });
}

void HttpServer::Stop() {
  MutexLock lock(parts_->stop_mutex);
  if (parts_->threads.empty()) return;
  Drain();
  parts_->Stop();
  for (std::thread& thread : parts_->threads) thread.join();
  parts_->threads.clear();
}

}  // namespace bole

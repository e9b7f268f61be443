#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "tests/bench/rounds.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole {
namespace {

constexpr int kTokens = 200;

// The page of a metrics endpoint.
std::string Scrape(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  BOLE_CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address)) == 0);
  const std::string request =
      "GET /metrics HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  BOLE_CHECK(send(fd, request.data(), request.size(), 0) ==
             static_cast<ssize_t>(request.size()));
  std::string page;
  std::array<char, 4096> buffer;
  for (ssize_t size; (size = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
    page.append(buffer.data(), size);
  }
  close(fd);
  return page;
}

// The value of a metric for `phase`. There is only one model.
double ValueOf(const std::string& page, const std::string& name,
               const std::string& phase) {
  const std::string label = "phase=\"" + phase + "\"} ";
  const size_t family = page.find("\n" + name + "{");
  BOLE_CHECK(family != std::string::npos);
  const size_t at = page.find(label, family);
  BOLE_CHECK(at != std::string::npos);
  return std::strtod(page.c_str() + at + label.size(), nullptr);
}

double SecondsOf(const std::string& page, const std::string& phase) {
  return ValueOf(page, "bole_round_seconds_sum", phase);
}

// Sends all requests at once, each from its own thread and with its own stream.
// They decode greedily.
void Generate(e2e::System& system, int num_requests) {
  std::vector<std::thread> clients;
  clients.reserve(num_requests);
  for (int i = 0; i < num_requests; ++i) {
    clients.emplace_back([&system, i] {
      const e2e::Generation got = e2e::Generate(
          system.stub(),
          e2e::GreedyRequest("def f" + std::to_string(i) + "(", kTokens));
      BOLE_CHECK(got.status.ok());
    });
  }
  for (std::thread& client : clients) client.join();
}

void Run(SpeculationMode mode, const char* name, int num_requests) {
  e2e::SystemOptions options;
  options.engine.max_requests = num_requests;
  options.engine.num_slots = num_requests;
  options.engine.max_nodes = num_requests * 33;
  options.num_threads = 0;
  options.scheduler.speculation.mode = mode;
  options.metrics = true;
  e2e::System system(options);
  Generate(system, num_requests);
  const std::string before = Scrape(system.scheduler().metrics_port());

  Generate(system, num_requests);

  const std::string after = Scrape(system.scheduler().metrics_port());
  const auto spent = [&](const char* phase) {
    return SecondsOf(after, phase) - SecondsOf(before, phase);
  };
  const std::string count = "bole_round_seconds_count";
  const double rounds =
      ValueOf(after, count, "engine") - ValueOf(before, count, "engine");
  const double engine = spent("engine") / rounds;
  const double wire = spent("wire") / rounds;
  const double host = spent("host") / rounds;
  std::printf(
      "  %-5s %2d requests: engine %7.0f us, wire %4.0f us, host %4.0f "
      "us a round; split %.1f %%\n",
      name, num_requests, engine * 1e6, wire * 1e6, host * 1e6,
      100 * (wire + host) / (engine + wire + host));
}

}  // namespace

void RunDemoModel() {
  std::printf("demo model, mean of all rounds\n");
  for (const int num_requests : {1, 16}) {
    Run(SpeculationMode::kOff, "off", num_requests);
    Run(SpeculationMode::kChain, "chain", num_requests);
    Run(SpeculationMode::kTree, "tree", num_requests);
  }
}

}  // namespace bole

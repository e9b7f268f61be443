// Clients that always have a request open, and know its text.
#ifndef BOLE_TESTS_BENCH_LOAD_STREAM_CLIENTS_H_
#define BOLE_TESTS_BENCH_LOAD_STREAM_CLIENTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/scheduler_loop.h"
#include "tests/simulation/simulated_text.h"

namespace bole {

// Asks for the simulated text of small letters, with prompts of 64 to 448
// tokens and 16 to 112 tokens of output, and asks anew when a request has
// ended. One thread reads all streams. Start and stop once each.
class StreamClients {
 public:
  StreamClients(SchedulerLoop& loop, int num_streams);

  void Start();
  // Asks no more, and waits until all streams have ended.
  void Finish();

  int64_t num_right() const { return num_right_; }
  int64_t num_tokens() const { return num_tokens_; }
  // Failed, refused, or with a wrong text; and the first of these.
  int64_t num_wrong() const { return num_wrong_; }
  std::string first_wrong() const;

 private:
  struct Client {
    std::vector<int32_t> prompt;
    int max_tokens = 0;
    std::shared_ptr<TokenStream> stream;
    std::vector<int32_t> tokens;
  };

  void Run();
  void Ask(size_t index);
  // Returns whether the request has ended.
  bool Read(Client& client);
  void Blame(const std::string& what);

  SchedulerLoop& loop_;
  const simulation::TextOptions text_ = simulation::LetterText();
  std::vector<Client> clients_;  // The thread's.
  std::mt19937 rng_{1};
  std::atomic<int64_t> num_right_{0};
  std::atomic<int64_t> num_tokens_{0};
  std::atomic<int64_t> num_wrong_{0};
  std::atomic<bool> finishing_{false};

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<size_t> ready_ ABSL_GUARDED_BY(mutex_);
  std::string first_wrong_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace bole

#endif  // BOLE_TESTS_BENCH_LOAD_STREAM_CLIENTS_H_

#ifndef BOLE_COMMON_THREAD_POOL_H_
#define BOLE_COMMON_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace bole {

// A fixed team of threads for short loops: ParallelFor costs about a
// microsecond. Workers spin for some microseconds between loops, then sleep.
// One thread at a time may call ParallelFor; it takes part in the loop.
class ThreadPool {
 public:
  // REQUIRES: num_threads >= 1, the calling thread included.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Runs body(i) once for every i in [0, count) and returns when all are done.
  // The order, and which thread runs what, is unspecified. With one thread, or
  // count < 2, everything runs here.
  template <typename Body>
  void ParallelFor(int count, const Body& body) {
    if (threads_.empty() || count < 2) {
      for (int i = 0; i < count; ++i) body(i);
      return;
    }
    Run(
        count, [](const void* b, int i) { (*static_cast<const Body*>(b))(i); },
        &body);
  }

 private:
  using Call = void (*)(const void* body, int index);

  void Run(int count, Call call, const void* body);
  void TakeIndices();
  void WorkerLoop();

  std::vector<std::thread> threads_;
  Call call_ = nullptr;
  const void* body_ = nullptr;
  int count_ = 0;
  std::atomic<int> next_{0};
  std::atomic<int> working_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace bole

#endif  // BOLE_COMMON_THREAD_POOL_H_

#ifndef BOLE_WORKER_SERVICE_LOADING_DEFAULT_THREADS_H_
#define BOLE_WORKER_SERVICE_LOADING_DEFAULT_THREADS_H_

#include <algorithm>
#include <thread>

namespace bole {

// With more threads than this, they wait for each other longer than they
// compute.
inline constexpr int kMaxDefaultThreads = 16;

// `num_threads`, or one for each processor if that is 0.
inline int ThreadsOrDefault(int num_threads) {
  if (num_threads > 0) return num_threads;
  const int num_processors =
      static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(num_processors, 1, kMaxDefaultThreads);
}

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_DEFAULT_THREADS_H_

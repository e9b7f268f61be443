#include "common/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bole {
namespace {

// About 50 microseconds: longer than the gaps between the loops of one forward.
constexpr int kSpins = 2000;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  for (int i = 1; i < num_threads; ++i) {
    threads_.emplace_back([this] { WorkerLoop(); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(int count, Call call, const void* body) {
  call_ = call;
  body_ = body;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  working_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  TakeIndices();
  for (int spins = 0; working_.load(std::memory_order_acquire) != 0;) {
    if (++spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::TakeIndices() {
  for (int i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    call_(body_, i);
  }
}

void ThreadPool::WorkerLoop() {
  uint32_t seen = 0;
  while (true) {
    for (int spins = 0;
         spins < kSpins && generation_.load(std::memory_order_acquire) == seen;
         ++spins) {
      Pause();
    }
    generation_.wait(seen, std::memory_order_acquire);
    if (stopping_) return;
    ++seen;
    TakeIndices();
    working_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace bole

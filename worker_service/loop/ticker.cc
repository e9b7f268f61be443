#include "worker_service/loop/ticker.h"

#include <algorithm>
#include <utility>

namespace bole {

using Clock = std::chrono::steady_clock;

Ticker::Ticker(std::chrono::milliseconds interval,
               std::function<void()> on_tick)
    : interval_(interval),
      on_tick_(std::move(on_tick)),
      thread_([this] { Run(); }) {}

Ticker::~Ticker() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stopped_.NotifyAll();
  }
  thread_.join();
}

void Ticker::Run() {
  Clock::time_point next = Clock::now() + interval_;
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && Clock::now() < next) {
        stopped_.WaitUntil(mutex_, next);
      }
      if (stopping_) return;
    }
    on_tick_();
    next = std::max(next + interval_, Clock::now());
  }
}

}  // namespace bole

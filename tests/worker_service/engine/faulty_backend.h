// A device that fails or hangs when it is told to, and a plan for it.
#ifndef BOLE_TESTS_WORKER_SERVICE_ENGINE_FAULTY_BACKEND_H_
#define BOLE_TESTS_WORKER_SERVICE_ENGINE_FAULTY_BACKEND_H_

#include <atomic>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/step.h"
#include "kernels/communicator.h"
#include "kernels/reference/reference_backend.h"

namespace bole::testing {

// Computes on the CPU like its base class, and minds which thread drives it as
// a GPU does.
class FaultyBackend final : public ReferenceBackend {
 public:
  // kDiffer: computes something else.
  enum class Fault { kError, kHang, kDiffer };

  // A rank of several, or the only one.
  explicit FaultyBackend(std::shared_ptr<Communicator> ranks = nullptr)
      : ReferenceBackend(/*num_threads=*/1, std::move(ranks)) {}

  // Sample() works so many times, once in a step, and then no more.
  void BreakAfter(int good_steps, Fault fault) {
    MutexLock lock(mutex_);
    good_steps_ = good_steps;
    fault_ = fault;
  }
  // From now on everything works again, and what hangs goes on.
  void Mend() {
    MutexLock lock(mutex_);
    good_steps_ = std::numeric_limits<int>::max();
    mended_.NotifyAll();
  }

  // Calls by a thread that was not bound.
  int num_unbound_calls() const { return num_unbound_calls_; }
  std::thread::id bound_thread() const { return bound_thread_; }
  int num_uploads() const { return num_uploads_; }

  absl::Status BindThread() override {
    bound_thread_ = std::this_thread::get_id();
    return absl::OkStatus();
  }
  absl::Status Upload(void* device, const void* host, size_t bytes) override {
    ++num_uploads_;
    CheckThread();
    return ReferenceBackend::Upload(device, host, bytes);
  }
  absl::Status AwaitMark(int mark) override {
    CheckThread();
    return ReferenceBackend::AwaitMark(mark);
  }
  absl::Status Sample(const SampleParams& params) override {
    CheckThread();
    bool differs = false;
    {
      MutexLock lock(mutex_);
      if (good_steps_ == 0 && fault_ == Fault::kError) {
        return absl::InternalError("work on the GPU: cudaErrorIllegalAddress");
      }
      while (good_steps_ == 0 && fault_ == Fault::kHang) mended_.Wait(mutex_);
      differs = good_steps_ == 0;
      if (!differs) --good_steps_;
    }
    absl::Status status = ReferenceBackend::Sample(params);
    if (differs) params.emitted[params.path_row[params.path_first[0]]] ^= 1;
    return status;
  }

 private:
  void CheckThread() {
    if (std::this_thread::get_id() != bound_thread_) ++num_unbound_calls_;
  }

  std::atomic<std::thread::id> bound_thread_{std::this_thread::get_id()};
  std::atomic<int> num_unbound_calls_{0};
  std::atomic<int> num_uploads_{0};
  Mutex mutex_;
  CondVar mended_;
  int good_steps_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int>::max();
  Fault fault_ ABSL_GUARDED_BY(mutex_) = Fault::kError;
};

// A plan of one step for any model: the prompt 1, 2, 3.
inline StepPlan SmallPlan() {
  PrefillPlan prefill{.sequence = {.slot = SlotId(0),
                                   .pages = {PageId(0), PageId(1)},
                                   .prompt_length = 3},
                      .tokens = {1, 2, 3}};
  StepPlan plan;
  plan.prefills.push_back(std::move(prefill));
  return plan;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_ENGINE_FAULTY_BACKEND_H_

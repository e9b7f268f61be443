#include "worker_service/serving/scheduler_seat.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace bole {

std::string ToString(const SchedulerHello& hello) {
  return absl::StrFormat("scheduler %s (instance %x, epoch %d)",
                         hello.name.empty() ? "without a name" : hello.name,
                         hello.instance, hello.epoch);
}

absl::Status SchedulerSeat::Take(const SchedulerHello& hello, Time now) {
  if (hello.instance == last_.instance) {
    if (hello.epoch <= last_.epoch) {
      return absl::FailedPreconditionError(
          absl::StrCat("epoch ", hello.epoch, " is not higher than ",
                       last_.epoch, ", which this scheduler has had here"));
    }
  } else if (held_ && now - heard_ <= patience_) {
    return absl::UnavailableError(
        absl::StrCat("the worker obeys ", Holder(now),
                     "; it is free when that one has left or was silent for ",
                     std::chrono::duration<double>(patience_).count(), " s"));
  }
  last_ = hello;
  held_ = true;
  heard_ = now;
  return absl::OkStatus();
}

std::string SchedulerSeat::Holder(Time now) const {
  const std::chrono::duration<double> silence = now - heard_;
  return absl::StrFormat("%s, heard %.1f s ago", ToString(last_),
                         silence.count());
}

}  // namespace bole

#include "clients/bench/runner.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "clients/bench/partial_answer.h"
#include "common/check.h"
#include "common/sha256.h"

namespace bole::bench {
namespace {

// Another worker takes over within seconds.
constexpr double kBrokenSeconds = 0.5;

// gRPC itself cancels a call that reaches a server just as that stops.
bool CameTooLate(const EndedCall& ended) {
  return absl::IsCancelled(ended.status) && ended.reason.empty() &&
         ended.arrivals.empty();
}

// When to ask again, in seconds; never if that would not help. `resumes`: the
// next call can go on from what came.
std::optional<double> RetryDelay(const EndedCall& ended, bool resumes) {
  if (!ended.arrivals.empty() && !resumes) return std::nullopt;
  if (ended.arrivals.empty() && ended.retry_after_seconds) {
    return ended.retry_after_seconds;
  }
  if (absl::IsUnavailable(ended.status) || CameTooLate(ended)) {
    return kBrokenSeconds;
  }
  return std::nullopt;
}

RequestRecord RecordOf(const ScheduledTurn& turn, int resumes,
                       EndedCall& ended) {
  const v1::GenerateComplete& complete = ended.complete;
  return {.instance = turn.instance,
          .turn = turn.turn,
          .retries = turn.attempt - resumes,
          .resumes = resumes,
          .scheduled = turn.scheduled,
          .sent = ended.sent,
          .end = ended.end,
          .arrivals = std::move(ended.arrivals),
          .output_sha256 = Sha256Hex(absl::StrJoin(ended.ids, ",")),
          .status = std::move(ended.status),
          .reason = std::move(ended.reason),
          .prompt_tokens = static_cast<int>(complete.usage().prompt_tokens()),
          .cached_tokens = static_cast<int>(complete.usage().cached_tokens()),
          .speculation = complete.speculation()};
}

}  // namespace

// A run, in the thread that called Run().
class Runner::State {
 public:
  State(const RunnerOptions& options, const Workload& workload,
        ScheduleOptions schedule)
      : options_(options),
        workload_(workload),
        schedule_(workload, std::move(schedule)),
        start_(Clock::now()),
        client_(options.transport, start_, options.timeout_seconds) {}

  LoadClient& client() { return client_; }

  bool done() const { return schedule_.done(); }

  // Sends what is due, then waits for what comes next.
  void Step() {
    for (const ScheduledTurn& turn : schedule_.Take(Now())) Send(turn);
    double until = next_progress_;
    if (const auto due = schedule_.NextDue()) until = std::min(until, *due);
    const auto wait = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(until));
    for (EndedCall& ended : client_.TakeEnded(start_ + wait)) End(ended);
    if (Now() < next_progress_) return;
    ShowProgress();
    next_progress_ = Now() + options_.progress_seconds;
  }

  void Stop() {
    stopped_ = true;
    schedule_.Stop();
    client_.CancelAll();
  }

  RunResult TakeResult() {
    return {.records = std::move(records_),
            .num_dropped = schedule_.num_dropped()};
  }

 private:
  double Now() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  const std::vector<Turn>& TurnsOf(int instance) const {
    const size_t session =
        static_cast<size_t>(instance) % workload_.sessions.size();
    return workload_.sessions[session].turns;
  }

  const Turn& TurnOf(const ScheduledTurn& turn) const {
    return TurnsOf(turn.instance)[static_cast<size_t>(turn.turn)];
  }

  void Send(const ScheduledTurn& turn) {
    const uint64_t id = next_id_++;
    Conversation& conversation =
        conversations_.try_emplace(turn.instance, options_.conversation)
            .first->second;
    // A retry asks the same again.
    if (turn.attempt == 0) conversation.Extend(TurnOf(turn));
    in_flight_.emplace(id, turn);
    v1::GenerateRequest request = conversation.Request(TurnOf(turn));
    if (turn.attempt > 0) partial_[turn.instance].Resume(request);
    client_.Send(id, std::move(request));
  }

  void End(EndedCall& ended) {
    const auto found = in_flight_.find(ended.id);
    BOLE_CHECK(found != in_flight_.end());
    const ScheduledTurn turn = found->second;
    in_flight_.erase(found);
    const std::optional<double> delay =
        RetryDelay(ended, options_.transport->resumes());
    if (delay && !stopped_ && turn.attempt < options_.max_retries) {
      partial_[turn.instance].Add(ended);
      schedule_.Retry(turn, Now(), *delay);
      return;
    }
    const auto part = partial_.extract(turn.instance);
    if (part) part.mapped().PutBefore(ended);
    const bool succeeded = ended.status.ok();
    const bool last =
        static_cast<size_t>(turn.turn) + 1 == TurnsOf(turn.instance).size();
    if (succeeded && !last) {
      conversations_.at(turn.instance)
          .Answer(TurnOf(turn), ended.text, ended.ids);
    } else {
      conversations_.erase(turn.instance);
    }
    num_failed_ += succeeded ? 0 : 1;
    schedule_.Ended(turn, ended.end, succeeded);
    const int resumes = part ? part.mapped().num_resumes() : 0;
    records_.push_back(RecordOf(turn, resumes, ended));
  }

  void ShowProgress() const {
    options_.on_progress({.seconds = Now(),
                          .num_ended = static_cast<int>(records_.size()),
                          .num_failed = num_failed_,
                          .in_flight = schedule_.in_flight(),
                          .streaming = client_.num_streaming(),
                          .tokens = client_.num_tokens()});
  }

  const RunnerOptions& options_;
  const Workload& workload_;
  Schedule schedule_;
  std::unordered_map<int, Conversation> conversations_;  // By instance.
  std::unordered_map<uint64_t, ScheduledTurn> in_flight_;
  // What came so far of the turns that are asked again, by their instance.
  std::unordered_map<int, PartialAnswer> partial_;
  std::vector<RequestRecord> records_;
  int num_failed_ = 0;
  bool stopped_ = false;
  uint64_t next_id_ = 0;
  double next_progress_ = 0;
  const Clock::time_point start_;
  LoadClient client_;  // Its threads use nothing above.
};

Runner::Runner(RunnerOptions options) : options_(std::move(options)) {}

RunResult Runner::Run(const Workload& workload, ScheduleOptions schedule) {
  State state(options_, workload, std::move(schedule));
  {
    MutexLock lock(mutex_);
    client_ = &state.client();
    if (interrupted_) client_->Wake();
  }
  bool stopped = false;
  while (!state.done()) {
    state.Step();
    MutexLock lock(mutex_);
    if (!interrupted_ || stopped) continue;
    stopped = true;
    state.Stop();
  }
  MutexLock lock(mutex_);
  client_ = nullptr;
  RunResult result = state.TakeResult();
  result.interrupted = interrupted_;
  return result;
}

void Runner::Interrupt() {
  MutexLock lock(mutex_);
  interrupted_ = true;
  if (client_ != nullptr) client_->Wake();
}

}  // namespace bole::bench

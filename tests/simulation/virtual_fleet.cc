#include "tests/simulation/virtual_fleet.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/scheduler_service/catalogs.h"

namespace bole::simulation {
namespace {

SamplingParams Greedy(int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  return sampling;
}

bool IsRight(const Answer& answer, const TextOptions& text) {
  const Question& asked = answer.question;
  const std::vector<int32_t> want = ExpectedOutput(
      text, asked.prompt, Greedy(asked.max_tokens), asked.max_tokens);
  if (answer.status.ok()) return answer.tokens == want;
  return answer.tokens.size() <= want.size() &&
         std::equal(answer.tokens.begin(), answer.tokens.end(), want.begin());
}

}  // namespace

VirtualFleet::VirtualFleet(VirtualFleetOptions options)
    : options_(std::move(options)),
      catalog_(testing::TinyCatalog({"simulated"})),
      mailbox_(options_.scheduler.admission, [this] { return now_; }),
      scheduler_(std::make_unique<Scheduler>(
          options_.scheduler, catalog_, metrics_,
          [this](const Request& request, bool runs) {
            mailbox_.Release(request, runs);
          },
          [](WorkerId /*worker*/) { return true; })) {
  for (const VirtualWorkerOptions& worker : options_.workers) {
    BOLE_CHECK(Validate(worker.engine).ok());
    const WorkerId id(num_workers());
    workers_.push_back(std::make_unique<VirtualWorker>(
        worker,
        VirtualWorld{.after =
                         [this](std::chrono::nanoseconds delay, auto action) {
                           At(now_ + delay, std::move(action));
                         },
                     .tell =
                         [this, id](WorkerNews news) {
                           At(now_,
                              [this, event = WorkerEvent{
                                         .worker = id,
                                         .news = std::move(news)}]() mutable {
                                mailbox_.Post(std::move(event));
                              });
                         }}));
    Add(num_workers() - 1);
  }
}

void VirtualFleet::Add(int worker) {
  At(now_, [this, worker] {
    mailbox_.Post({.worker = WorkerId(worker),
                   .news = WorkerAdded{.name = absl::StrCat("virtual ", worker),
                                       .client = workers_[worker].get()}});
    workers_[worker]->Join();
  });
}

void VirtualFleet::Remove(int worker) {
  workers_[worker]->Leave();
  At(now_, [this, worker] {
    mailbox_.Post({.worker = WorkerId(worker), .news = WorkerRemoved()});
  });
}

void VirtualFleet::At(TimePoint time, std::function<void()> action) {
  events_.emplace(std::pair(std::max(time, now_), ++num_events_),
                  std::move(action));
}

void VirtualFleet::RunUntil(TimePoint end) {
  while (Step(end)) continue;
  now_ = std::max(now_, end);
}

void VirtualFleet::RunUntilIdle(TimePoint end) {
  while (num_open() > 0 && Step(end)) continue;
}

bool VirtualFleet::Step(TimePoint end) {
  TimePoint next = scheduler_->NextWakeup();
  if (!events_.empty()) next = std::min(next, events_.begin()->first.first);
  if (next > end) return false;
  now_ = std::max(now_, next);
  while (!events_.empty() && events_.begin()->first.first <= now_) {
    events_.extract(events_.begin()).mapped()();
  }
  Turn();
  return true;
}

void VirtualFleet::Turn() {
  ++num_turns_;
  scheduler_->Handle(mailbox_.Take(TimePoint::min()), now_);
  if (options_.audit && audit_.empty()) audit_ = scheduler_->status().audit;
  for (const uint64_t id : std::exchange(ready_, {})) Read(id);
}

std::shared_ptr<TokenStream> VirtualFleet::Ask(Question question,
                                               OnEnd on_end) {
  const uint64_t id = ++num_asked_;
  auto request = std::make_unique<Request>();
  request->tenant = question.tenant;
  request->cache_salt = question.cache_salt;
  request->priority = question.priority;
  request->prompt = question.prompt;
  request->sampling = Greedy(question.max_tokens);
  request->arrival = now_;
  request->deadline = question.deadline;
  request->targets = question.targets;
  request->stream =
      std::make_shared<TokenStream>([this, id] { ready_.push_back(id); });
  std::shared_ptr<TokenStream> stream = request->stream;
  if (mailbox_.Submit({&request, 1}).has_value()) return nullptr;
  open_.emplace(id, Open{.answer = {.question = std::move(question),
                                    .arrival = now_,
                                    .first_token = {},
                                    .end = {},
                                    .tokens = {},
                                    .status = {}},
                         .stream = stream,
                         .on_end = std::move(on_end)});
  return stream;
}

void VirtualFleet::Read(uint64_t id) {
  Open& open = open_.at(id);
  Answer& answer = open.answer;
  TokenDelta delta = open.stream->Take();
  for (const EmittedToken& token : delta.tokens) {
    answer.tokens.push_back(token.token);
  }
  if (!answer.tokens.empty() && !answer.first_token) answer.first_token = now_;
  if (!delta.end) return;
  answer.end = now_;
  answer.status = delta.end->status();
  answer.is_right = IsRight(answer, options_.text);
  const Open ended = std::move(open);
  open_.erase(id);
  ended.on_end(ended.answer);
}

int64_t VirtualFleet::num_rounds() const {
  int64_t rounds = 0;
  for (const auto& worker : workers_) rounds += worker->num_rounds();
  return rounds;
}

std::string VirtualFleet::problem() const {
  if (!audit_.empty()) return audit_;
  for (const auto& worker : workers_) {
    if (worker->num_problems() > 0) return worker->last_problem();
  }
  return "";
}

}  // namespace bole::simulation

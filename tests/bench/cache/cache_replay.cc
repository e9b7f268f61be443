#include "tests/bench/cache/cache_replay.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "clients/bench/arrivals.h"
#include "common/check.h"
#include "scheduler_service/replicas/worker_memory.h"

namespace bole::bench {
namespace {

void AppendTokens(const Segment& segment, uint64_t clone,
                  std::vector<int32_t>& tokens) {
  // Every position gets a distinct token, so that texts are equal only on
  // purpose.
  const uint64_t seed = segment.seed == 0 ? 0 : segment.seed + (clone << 40);
  for (int i = 0; i < segment.length; ++i) {
    uint64_t bits = (seed + static_cast<uint64_t>(i)) * 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 32)) * 0xbf58476d1ce4e5b9;
    tokens.push_back(static_cast<int32_t>(bits >> 33));
  }
}

int LengthOf(const std::vector<Segment>& segments) {
  int length = 0;
  for (const Segment& segment : segments) length += segment.length;
  return length;
}

double PrefillSeconds(const CacheMachine& machine, int from, int to) {
  const double tokens = to - from;
  return machine.prefill_seconds * tokens *
         (1 + machine.context_cost * (from + tokens / 2));
}

PrefixCacheOptions OptionsOf(const CacheMachine& machine) {
  return {.page_size = machine.page_size,
          .slot_bytes = machine.slot_bytes,
          .page_bytes = machine.page_bytes,
          .context_cost = machine.context_cost,
          .eviction = machine.eviction};
}

std::vector<double> ArrivalsOf(const CacheLoad& load) {
  return MakeArrivals({.rate = load.sessions_per_second, .seed = load.seed},
                      load.num_sessions);
}

// Draws the conversation of each session.
std::vector<int> Draw(const std::vector<Conversation>& conversations,
                      const CacheLoad& load) {
  std::mt19937_64 rng(load.seed);
  std::vector<int> drawn(load.num_sessions);
  for (int& index : drawn) {
    index = static_cast<int>(rng() % conversations.size());
  }
  return drawn;
}

// A change in the slots and pages that conversations hold.
struct Change {
  double time;
  int slots;
  int pages;
};

WorkingSet SumOf(std::vector<Change> changes,
                 const std::vector<double>& arrivals,
                 const CacheMachine& machine) {
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time < b.time; });
  WorkingSet set;
  int slots = 0;
  int pages = 0;
  double sum = 0;
  double last = arrivals.front();
  for (const Change& change : changes) {
    const double until = std::min(change.time, arrivals.back());
    sum += (slots * machine.slot_bytes + pages * machine.page_bytes) *
           (until - last);
    last = until;
    slots += change.slots;
    pages += change.pages;
    set.slots = std::max(set.slots, slots);
    set.pages = std::max(set.pages, pages);
  }
  set.mean = sum / (arrivals.back() - arrivals.front());
  return set;
}

class Replayer {
 public:
  Replayer(const std::vector<Conversation>& conversations,
           const CacheLoad& load, const CacheMachine& machine)
      : conversations_(conversations),
        load_(load),
        machine_(machine),
        drawn_(Draw(conversations, load)),
        memory_(machine.num_slots, machine.num_pages),
        cache_(std::in_place, memory_, OptionsOf(machine)) {}

  CacheReplay Run();

 private:
  struct Request {
    int session;
    int turn;
    double arrival;
    int prompt_length = 0;
    std::vector<int32_t> tokens = {};  // With the answer.
    PrefixCache::Match match = {};
    std::optional<SlotLease> slot = {};
    std::optional<PageLease> pages = {};
  };
  struct Event {
    double time;
    int64_t order;
    enum class Kind { kArrival, kPrefilled, kEnd } kind;
    std::shared_ptr<Request> request;

    bool operator<(const Event& other) const {
      return std::pair(other.time, other.order) < std::pair(time, order);
    }
  };

  const Conversation& ConversationOf(const Request& request) const {
    return conversations_[drawn_[request.session]];
  }
  void Post(double time, Event::Kind kind, std::shared_ptr<Request> request) {
    events_.push({time, ++num_posted_, kind, std::move(request)});
  }
  // Returns false if there is no room for it.
  bool Start(const std::shared_ptr<Request>& request, double now);
  void StartWaiting(double now);
  void Keep(const std::shared_ptr<Request>& request, double now);
  void End(Request& request, double now);
  void Count(const Request& request, double now);

  const std::vector<Conversation>& conversations_;
  const CacheLoad& load_;
  const CacheMachine& machine_;
  const std::vector<int> drawn_;
  WorkerMemory memory_;
  std::optional<PrefixCache> cache_;
  std::priority_queue<Event> events_;
  int64_t num_posted_ = 0;
  std::deque<std::shared_ptr<Request>> waiting_;
  int num_running_ = 0;
  CacheReplay result_;
};

CacheReplay Replayer::Run() {
  const std::vector<double> arrivals = ArrivalsOf(load_);
  for (int i = 0; i < load_.num_sessions; ++i) {
    Post(arrivals[i], Event::Kind::kArrival,
         std::make_shared<Request>(
             Request{.session = i, .turn = 0, .arrival = arrivals[i]}));
  }
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    switch (event.kind) {
      case Event::Kind::kArrival:
        waiting_.push_back(event.request);
        break;
      case Event::Kind::kPrefilled:
        Keep(event.request, event.time);
        break;
      case Event::Kind::kEnd:
        End(*event.request, event.time);
        break;
    }
    StartWaiting(event.time);
  }
  BOLE_CHECK(waiting_.empty());
  result_.evicted = cache_->num_evicted();
  return result_;
}

void Replayer::StartWaiting(double now) {
  while (!waiting_.empty() && num_running_ < machine_.max_running &&
         Start(waiting_.front(), now)) {
    waiting_.pop_front();
  }
}

bool Replayer::Start(const std::shared_ptr<Request>& request, double now) {
  const CacheTurn& turn = ConversationOf(*request)[request->turn];
  if (request->tokens.empty()) {
    const auto clone = static_cast<uint64_t>(request->session);
    for (const Segment& segment : turn.prompt) {
      AppendTokens(segment, clone, request->tokens);
    }
    request->prompt_length = static_cast<int>(request->tokens.size());
    AppendTokens(turn.answer, clone, request->tokens);
  }
  const int length = static_cast<int>(request->tokens.size());
  const int needed = (length + machine_.page_size - 1) / machine_.page_size;
  const CacheQuery query = {
      .key = "",
      .tokens = std::span(request->tokens).first(request->prompt_length),
      .prompt_length = request->prompt_length};
  request->match = cache_->Look(query);
  PrefixCache::Hit hit = cache_->Take(query);
  PageLease pages(memory_);
  if (hit.pages) pages.Append(hit.pages->Share(hit.first_written));
  if (!cache_->FreePages(needed - pages.size()) || !cache_->FreeSlots(1)) {
    BOLE_CHECK(num_running_ > 0);
    return false;
  }
  BOLE_CHECK(pages.GrowTo(needed));
  request->slot = memory_.TakeSlot();
  request->pages.emplace(std::move(pages));
  ++num_running_;
  if (request->session >= load_.num_ignored) Count(*request, now);
  Post(now + PrefillSeconds(machine_, request->match.position,
                            request->prompt_length),
       Event::Kind::kPrefilled, request);
  return true;
}

void Replayer::Count(const Request& request, double now) {
  ++result_.requests;
  result_.prompt_tokens += request.prompt_length;
  const int hit = request.match.position;
  result_.hit_tokens += hit;
  result_.saved_seconds += PrefillSeconds(machine_, 0, hit);
  result_.prefill_seconds +=
      PrefillSeconds(machine_, hit, request.prompt_length);
  result_.wait_seconds += now - request.arrival;
  ++result_.misses[static_cast<size_t>(request.match.reason)];
}

void Replayer::Keep(const std::shared_ptr<Request>& request, double now) {
  int known = request->match.position;
  const int prompt_length = request->prompt_length;
  for (const int position :
       CheckpointsOf(known, prompt_length, request->match.wish)) {
    std::optional<SlotLease> slot = cache_->SlotFor(known, position);
    if (!slot) continue;
    cache_->Add("", request->tokens, *request->pages, *std::move(slot),
                {.position = position, .prompt_length = prompt_length});
    known = position;
    ++result_.checkpoints;
  }
  const double output =
      static_cast<double>(std::ssize(request->tokens)) - prompt_length;
  Post(now + output * machine_.output_seconds, Event::Kind::kEnd, request);
}

void Replayer::End(Request& request, double now) {
  // The last token is pending: neither state nor pages contain it.
  const int committed = static_cast<int>(request.tokens.size()) - 1;
  cache_->Add("", request.tokens, *request.pages, *std::move(request.slot),
              {.position = committed, .prompt_length = request.prompt_length});
  ++result_.checkpoints;
  request.pages.reset();
  request.slot.reset();
  --num_running_;
  const Conversation& conversation = ConversationOf(request);
  const int next = request.turn + 1;
  if (next == std::ssize(conversation)) return;
  const double arrival = now + conversation[next].think_seconds;
  Post(arrival, Event::Kind::kArrival,
       std::make_shared<Request>(Request{
           .session = request.session, .turn = next, .arrival = arrival}));
}

}  // namespace

WorkingSet WorkingSetOf(const std::vector<Conversation>& conversations,
                        const CacheLoad& load, const CacheMachine& machine,
                        std::optional<double> window_seconds) {
  const std::vector<int> drawn = Draw(conversations, load);
  const std::vector<double> arrivals = ArrivalsOf(load);
  std::vector<Change> changes;
  for (int i = 0; i < load.num_sessions; ++i) {
    double now = arrivals[i];
    int held = 0;
    int known = 0;
    for (const CacheTurn& turn : conversations[drawn[i]]) {
      if (known > 0) {
        if (window_seconds && turn.think_seconds > *window_seconds) {
          changes.push_back({now + *window_seconds, -1, -held});
          held = 0;
        }
        now += turn.think_seconds;
      }
      const int prompt = LengthOf(turn.prompt);
      const int length = prompt + turn.answer.length;
      const int needs = length / machine.page_size + 1;
      changes.push_back({now, held == 0 ? 1 : 0, needs - held});
      held = needs;
      now += PrefillSeconds(machine, std::min(known, prompt), prompt) +
             turn.answer.length * machine.output_seconds;
      known = length;
    }
    changes.push_back({now + window_seconds.value_or(0), -1, -held});
  }
  return SumOf(std::move(changes), arrivals, machine);
}

CacheReplay Replay(const std::vector<Conversation>& conversations,
                   const CacheLoad& load, const CacheMachine& machine) {
  return Replayer(conversations, load, machine).Run();
}

}  // namespace bole::bench

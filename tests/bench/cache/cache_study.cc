// Measures which share of an unlimited cache's hits a cache in a worker's
// memory reaches, for the models of the paper and their machines:
//   bazel run -c opt //tests/bench/cache:cache_study -- --data DIR --out FILE
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/bench/workload.h"
#include "clients/bench/workload_reader.h"
#include "common/chart.h"
#include "common/command_line.h"
#include "common/status_macros.h"
#include "tests/bench/cache/cache_replay.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/published_sizes.h"

namespace bole::bench {
namespace {

constexpr double kGiB = 1 << 30;
// The share of a device's memory that a worker may use.
constexpr double kMemoryFraction = 0.9;
constexpr int kPageSize = 64;
constexpr double kMeanThinkSeconds = 20;
// In Mooncake's trace, a request that comes this long or longer after the last
// one of its conversation begins another conversation.
constexpr double kMostThinkSeconds = 600;
// The window is chosen so that this share of follow-up turns come within it.
constexpr double kWindowShare = 0.99;

// A deployment of the paper. Its memory tables say how much memory speculation
// needs in addition to weights and drafter, at 128 nodes and 4 requests:
// SGLang-Tree keeps a state for every node, Bole keeps factors.
struct Deployment {
  const char* size;
  double parameters;  // 1e9
  double active;      // 1e9
  double device_gib;
  double teraflops;
  double ours_gib;
  double snapshots_gib;
};
constexpr Deployment kDeployments[] = {
    {"4B", 4.2, 4.2, 80, 312, 1.53, 8.72},
    {"9B", 9, 9, 80, 312, 1.55, 8.74},
    {"27B", 27, 27, 119.2, 256, 2.42, 24.00},
    {"122B-A10B", 122, 10, 320, 4 * 312, 6.52, 28.04},
};

// The machine of a deployment. The numbers of slots and pages are not set yet.
absl::StatusOr<CacheMachine> MachineOf(const Deployment& at) {
  BOLE_ASSIGN_OR_RETURN(const ModelConfig model, ConfigOfSize(at.size));
  CacheMachine machine;
  machine.page_size = kPageSize;
  const double linear = model.num_linear_layers();
  const double recurrent = linear * model.linear_num_value_heads *
                           model.linear_key_head_dim *
                           model.linear_value_head_dim * 4;
  const double windows =
      linear * (model.linear_conv_kernel - 1) * model.conv_dim() * 4;
  machine.slot_bytes = recurrent + windows;
  // The drafter has an attention layer of its own.
  machine.page_bytes = static_cast<double>(model.num_attention_layers() + 1) *
                       2 * model.kv_dim() * 2 * kPageSize;
  machine.prefill_seconds = 2 * at.active * 1e9 / (0.5 * at.teraflops * 1e12);
  machine.context_cost = 4.0 * model.num_attention_layers() *
                         model.query_dim() / (2 * at.active * 1e9);
  return machine;
}

double BytesFor(const Deployment& at, double speculation_gib) {
  return (at.device_gib * kMemoryFraction - speculation_gib) * kGiB -
         at.parameters * 2e9;
}

// Divides `bytes` into slots and pages in the proportion in which the working
// set needs them.
void Divide(double bytes, const WorkingSet& set, CacheMachine& machine) {
  const double share = bytes / set.bytes(machine);
  machine.num_slots = static_cast<int>(set.slots * share);
  machine.num_pages = static_cast<int>(set.pages * share);
}

// Each prompt consists of the previous prompt, its answer and further text.
std::vector<Conversation> AgentConversations(const Workload& workload) {
  std::vector<Conversation> conversations;
  std::mt19937_64 rng(7);
  std::exponential_distribution<double> think(1 / kMeanThinkSeconds);
  for (const Session& session : workload.sessions) {
    Conversation conversation;
    std::vector<Segment> history;
    for (const Turn& turn : session.turns) {
      for (const Segment& segment :
           std::get<std::vector<Segment>>(turn.input)) {
        history.push_back(
            {.seed = (rng() >> 40) << 16, .length = segment.length});
      }
      const Segment answer = {.seed = (rng() >> 40) << 16,
                              .length = *turn.output_tokens};
      conversation.push_back(
          {.prompt = history, .answer = answer, .think_seconds = think(rng)});
      history.push_back(answer);
    }
    conversations.push_back(std::move(conversation));
  }
  return conversations;
}

// The requests do not name their conversations. A request continues the
// conversation of an earlier one whose full blocks, at least two, it begins
// with: of the one with the most such blocks, and of these the latest.
std::vector<Conversation> MooncakeConversations(const Workload& workload) {
  struct Open {
    size_t conversation;
    double at;
  };
  std::vector<Conversation> conversations;
  std::map<std::vector<uint64_t>, Open> open;  // By their full blocks.
  std::mt19937_64 rng(7);
  for (const Session& session : workload.sessions) {
    CacheTurn turn;
    std::vector<uint64_t> blocks;
    for (const Segment& segment :
         std::get<std::vector<Segment>>(session.turns[0].input)) {
      turn.prompt.push_back(
          {.seed = segment.seed << 16, .length = segment.length});
      blocks.push_back(segment.seed);
    }
    turn.answer = {.seed = ((rng() >> 40) << 16) | 1,
                   .length = *session.turns[0].output_tokens};
    if (turn.prompt.back().length < 512) blocks.pop_back();
    const double now = *session.start_seconds;
    const Open* before = nullptr;
    for (std::vector<uint64_t> prefix = blocks; prefix.size() > 1;
         prefix.pop_back()) {
      const auto found = open.find(prefix);
      if (found == open.end()) continue;
      before = &found->second;
      break;
    }
    size_t index = conversations.size();
    if (before != nullptr && now - before->at < kMostThinkSeconds) {
      index = before->conversation;
      turn.think_seconds = now - before->at;
    } else {
      conversations.emplace_back();
    }
    conversations[index].push_back(std::move(turn));
    if (blocks.size() > 1) open[blocks] = {.conversation = index, .at = now};
  }
  return conversations;
}

struct Contender {
  const char* name;
  Eviction eviction;
  bool snapshots;
};
constexpr Contender kContenders[] = {
    {"Bole", Eviction::kCostPerByte, false},
    {"LRU", Eviction::kLru, false},
    {"snapshot tree, LRU", Eviction::kLru, true},
};

struct Study {
  const std::vector<Conversation>& conversations;
  const char* trace;
  double seconds;  // Length of the replay. Only its second half counts.
  // As in WorkingSetOf(), and the name of this definition.
  std::optional<double> window_seconds;
  const char* definition;
};

// The time within which this share of all follow-up turns come.
double WindowOf(const std::vector<Conversation>& conversations, double share) {
  std::vector<double> thinks;
  for (const Conversation& conversation : conversations) {
    for (size_t i = 1; i < conversation.size(); ++i) {
      thinks.push_back(conversation[i].think_seconds);
    }
  }
  std::sort(thinks.begin(), thinks.end());
  return thinks.at(
      static_cast<size_t>(share * static_cast<double>(thinks.size() - 1)));
}

struct Shares {
  double hits = 0;
  double saved = 0;
};

double Share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Adds a line of JSON and prints it to stdout as well.
void Report(const Deployment& at, const Study& study, double factor,
            const char* name, const CacheReplay& of, const Shares& shares,
            std::vector<std::string>& lines) {
  std::string misses;
  for (int i = 1; i < kNumMissReasons; ++i) {
    absl::StrAppend(&misses, i == 1 ? "" : ", ", "\"",
                    NameOf(static_cast<MissReason>(i)), "\": ", of.misses[i]);
  }
  lines.push_back(absl::StrFormat(
      "{\"model\": \"%s\", \"trace\": \"%s\", \"working_set\": \"%s\", "
      "\"factor\": %.0f, \"cache\": \"%s\", \"requests\": %d, "
      "\"hits\": %.4f, \"of_unlimited_hits\": %.4f, "
      "\"of_unlimited_seconds_saved\": %.4f, \"evicted\": %d, "
      "\"mean_wait_seconds\": %.3f, \"misses\": {%s}}",
      at.size, study.trace, study.definition, factor, name, of.requests,
      Share(of.hit_tokens, of.prompt_tokens), shares.hits, shares.saved,
      of.evicted, of.wait_seconds / static_cast<double>(of.requests), misses));
  std::printf("%s\n", lines.back().c_str());
  std::fflush(stdout);
}

// Chooses the rate of sessions for which the working set has `bytes` bytes at
// its peak, and enough sessions to fill the cache before any of them counts.
CacheLoad LoadFor(double bytes, const Study& study,
                  const CacheMachine& machine) {
  CacheLoad load;
  double low = 0;
  double high = 1000;
  for (int i = 0; i < 30; ++i) {
    load.sessions_per_second = (low + high) / 2;
    load.num_sessions = 400;
    const auto set = [&] {
      return WorkingSetOf(study.conversations, load, machine,
                          study.window_seconds);
    };
    const double mean = set().mean;
    if (mean > 2 * bytes) {  // Far too many: no need to know the peak.
      high = load.sessions_per_second;
      continue;
    }
    load.num_sessions = std::clamp(
        static_cast<int>(load.sessions_per_second * study.seconds), 400, 20000);
    const bool fits = set().bytes(machine) < bytes;
    (fits ? low : high) = load.sessions_per_second;
  }
  load.num_ignored = load.num_sessions / 2;
  return load;
}

absl::Status Run(const Deployment& at, const Study& study, Chart& chart,
                 std::vector<std::string>& lines) {
  BOLE_ASSIGN_OR_RETURN(CacheMachine machine, MachineOf(at));
  const double bytes = BytesFor(at, at.ours_gib);
  for (const Contender& contender : kContenders) {
    chart.series.push_back({.name = contender.name, .points = {}});
  }
  for (const double factor : {1.0, 2.0, 3.0}) {
    const CacheLoad load = LoadFor(factor * bytes, study, machine);
    const WorkingSet set =
        WorkingSetOf(study.conversations, load, machine, study.window_seconds);
    Divide(bytes, set, machine);
    std::fprintf(stderr,
                 "%s, %s: %.1f GiB, %d slots and %d pages; %.2f sessions/s, "
                 "%d of them; working set %.2f, on average %.2f\n",
                 at.size, study.trace, bytes / kGiB, machine.num_slots,
                 machine.num_pages, load.sessions_per_second, load.num_sessions,
                 set.bytes(machine) / bytes, set.mean / bytes);
    CacheMachine unlimited = machine;
    unlimited.num_pages *= 40;
    unlimited.num_slots *= 400;
    const CacheReplay best = Replay(study.conversations, load, unlimited);
    Report(at, study, factor, "unlimited", best, {1, 1}, lines);
    for (size_t i = 0; i < std::size(kContenders); ++i) {
      const Contender& contender = kContenders[i];
      CacheMachine own = machine;
      own.eviction = contender.eviction;
      if (contender.snapshots) {
        Divide(BytesFor(at, at.snapshots_gib), set, own);
      }
      const CacheReplay got = Replay(study.conversations, load, own);
      const Shares shares = {Share(got.hit_tokens, best.hit_tokens),
                             got.saved_seconds / best.saved_seconds};
      Report(at, study, factor, contender.name, got, shares, lines);
      chart.series[i].points.push_back({factor, shares.saved});
    }
  }
  return absl::OkStatus();
}

absl::Status RunAll(const std::string& data, const std::string& out,
                    const std::string& only) {
  BOLE_ASSIGN_OR_RETURN(const Workload agent,
                        ReadWorkload(data + "/agent/agent_trace.jsonl"));
  BOLE_ASSIGN_OR_RETURN(
      const Workload mooncake,
      ReadWorkload(data + "/traces/mooncake_conversation_trace.jsonl"));
  const auto agents = AgentConversations(agent);
  const auto chats = MooncakeConversations(mooncake);
  const double agents_window = WindowOf(agents, kWindowShare);
  const double chats_window = WindowOf(chats, kWindowShare);
  std::fprintf(stderr,
               "%zu agents, window %.0f s; %zu of Mooncake's conversations, "
               "window %.0f s\n",
               agents.size(), agents_window, chats.size(), chats_window);
  std::vector<Chart> charts;
  std::vector<std::string> lines;
  for (const Study& study :
       {Study{agents, "agent", 1200, agents_window, "window"},
        Study{agents, "agent", 1200, std::nullopt, "live"},
        Study{chats, "mooncake", 3600, chats_window, "window"}}) {
    for (const Deployment& at : kDeployments) {
      const std::string name =
          absl::StrCat(study.trace, "/", study.definition, "/", at.size);
      if (!absl::StartsWith(name, only)) continue;
      charts.push_back(
          {.title =
               absl::StrCat(at.size, ", ", study.trace, ", ", study.definition),
           .x_label = "working set / memory",
           .y_label = "prefill time saved / saved by an unlimited cache",
           .series = {}});
      BOLE_RETURN_IF_ERROR(Run(at, study, charts.back(), lines));
    }
  }
  if (out.empty()) return absl::OkStatus();
  std::ofstream(out + ".svg") << DrawCharts("Prefix cache", charts);
  std::ofstream(out + ".json") << "[\n"
                               << absl::StrJoin(lines, ",\n") << "\n]\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace bole::bench

int main(int argc, char** argv) {
  std::string data;
  std::string out;
  std::string only;
  bole::CommandLine app("cache_study",
                        "Replays traces beside prefix caches of the sizes that "
                        "the paper's machines leave.");
  app.Add("--data", data, "folder with agent/ and traces/")
      .Environment("BOLE_DATA_DIR")
      .Required();
  app.Add("--out", out,
          "results are written to this file with .json behind it, and charts "
          "with .svg");
  app.Add("--only", only, "studies that begin so, such as agent/window/9B");
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const absl::Status status = bole::bench::RunAll(data, out, only);
  if (status.ok()) return 0;
  std::fprintf(stderr, "cache_study: %s\n", status.ToString().c_str());
  return 1;
}

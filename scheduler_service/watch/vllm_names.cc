#include "scheduler_service/watch/vllm_names.h"

#include <map>
#include <string>

namespace bole {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

// The name of a label in vLLM. Labels that are not listed are left out.
struct LabelName {
  const char* ours;
  const char* theirs;
};
constexpr LabelName kLabels[] = {{"model", "model_name"},
                                 {"worker", "engine"},
                                 {"reason", "finished_reason"},
                                 {"depth", "position"},
                                 {"le", "le"}};

struct Alias {
  const char* ours;
  const char* theirs;
};
constexpr Alias kAliases[] = {
    {"bole_requests_running", "vllm:num_requests_running"},
    {"bole_requests_waiting", "vllm:num_requests_waiting"},
    {"bole_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc"},
    {"bole_preemptions_total", "vllm:num_preemptions_total"},
    {"bole_prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"bole_generation_tokens_total", "vllm:generation_tokens_total"},
    {"bole_prefix_cache_queries_tokens_total",
     "vllm:prefix_cache_queries_total"},
    {"bole_prefix_cache_hits_tokens_total", "vllm:prefix_cache_hits_total"},
    {"bole_finished_requests_total", "vllm:request_success_total"},
    {"bole_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"bole_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
    {"bole_inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
    {"bole_time_per_output_token_seconds",
     "vllm:request_time_per_output_token_seconds"},
    {"bole_e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
    {"bole_queue_time_seconds", "vllm:request_queue_time_seconds"},
    {"bole_request_prompt_tokens", "vllm:request_prompt_tokens"},
    {"bole_request_generation_tokens", "vllm:request_generation_tokens"},
    {"bole_spec_rounds_total", "vllm:spec_decode_num_drafts_total"},
    {"bole_spec_draft_tokens_total", "vllm:spec_decode_num_draft_tokens_total"},
    {"bole_spec_accepted_tokens_total",
     "vllm:spec_decode_num_accepted_tokens_total"},
    {"bole_spec_accepted_tokens_per_depth_total",
     "vllm:spec_decode_num_accepted_tokens_per_pos_total"},
};

std::string ValueOf(const ClientMetric& metric, const std::string& label) {
  for (const ClientMetric::Label& one : metric.label) {
    if (one.name == label) return one.value;
  }
  return "";
}

// vLLM counts positions from 0.
std::string PositionOf(const std::string& depth) {
  return std::to_string(std::stoi(depth) - 1);
}

void Rename(const std::map<std::string, std::string>& model_of,
            ClientMetric& metric) {
  std::vector<ClientMetric::Label> labels;
  for (const ClientMetric::Label& label : metric.label) {
    for (const auto& [ours, theirs] : kLabels) {
      if (label.name != ours) continue;
      labels.push_back({theirs, label.name == "depth" ? PositionOf(label.value)
                                                      : label.value});
    }
  }
  const auto model = model_of.find(ValueOf(metric, "worker"));
  if (model != model_of.end()) labels.push_back({"model_name", model->second});
  metric.label = std::move(labels);
}

}  // namespace

std::vector<MetricFamily> VllmNames::Collect() const {
  std::map<std::string, MetricFamily> ours;
  for (MetricFamily& family : metrics_->Collect()) {
    std::string name = family.name;
    ours.emplace(std::move(name), std::move(family));
  }
  std::map<std::string, std::string> model_of;  // By worker.
  for (const ClientMetric& info : ours["bole_worker_info"].metric) {
    model_of[ValueOf(info, "worker")] = ValueOf(info, "model");
  }
  std::vector<MetricFamily> families;
  for (const Alias& alias : kAliases) {
    MetricFamily family = ours[alias.ours];
    if (family.metric.empty()) continue;
    family.name = alias.theirs;
    for (ClientMetric& metric : family.metric) Rename(model_of, metric);
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace bole

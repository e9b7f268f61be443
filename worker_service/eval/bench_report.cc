#include "worker_service/eval/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <variant>

#include "nlohmann/json.hpp"
#include "worker_service/model/layer_context.h"

namespace bole {
namespace {

int64_t Size(const WeightMatrix* matrix) {
  return int64_t{matrix->rows} * matrix->columns;
}

int64_t LayerElements(const LayerWeights& layer, const ModelConfig& config,
                      int rows) {
  const int64_t mixer = std::visit(
      [](const auto& m) { return Size(m.projection) + Size(m.output); },
      layer.mixer);
  if (const auto* dense = std::get_if<DenseFfnWeights>(&layer.ffn)) {
    return mixer + Size(dense->gate_up) + Size(dense->down);
  }
  const auto& moe = std::get<MoeFfnWeights>(layer.ffn);
  const int64_t experts = std::min<int64_t>(
      config.moe->num_experts, int64_t{rows} * config.moe->experts_per_token);
  return mixer + Size(moe.router) + Size(moe.shared_gate) +
         Size(moe.shared_gate_up) + Size(moe.shared_down) +
         experts * (Size(moe.gate_up[0]) + Size(moe.down[0]));
}

// The mean milliseconds of a round if `rounds` rounds take `seconds` seconds.
double Milliseconds(double seconds, int64_t rounds) {
  return rounds > 0 ? 1e3 * seconds / static_cast<double>(rounds) : 0;
}

}  // namespace

int64_t ElementsRead(const LoadedModel& model, int rows) {
  int64_t elements = Size(model.weights->head);
  for (const LayerWeights& layer : model.weights->layers) {
    elements += LayerElements(layer, model.config, rows);
  }
  return elements;
}

int64_t ElementsPerToken(const LoadedModel& model) {
  return ElementsRead(model, 1) - Size(model.weights->head);
}

int64_t StateBytes(const ModelConfig& config) {
  const GdnShape shape = GdnShapeOf(config);
  return int64_t{sizeof(float)} * config.num_linear_layers() *
         shape.value_heads * shape.value_dim * shape.key_dim;
}

int64_t KvElements(const ModelConfig& config) {
  return int64_t{2} * config.num_attention_layers() * config.kv_dim();
}

void PrintDecodeHeader() {
  std::printf("%-8s %5s %5s %5s %9s %7s %8s %8s %7s %6s\n", "mode", "batch",
              "depth", "nodes", "tokens/s", "rounds", "accepted", "ms/round",
              "idle ms", "x");
}

void PrintRow(const DecodeRow& row) {
  const DecodeTimes& times = row.times;
  std::printf("%-8s %5d %5d %5d %9.1f %7d %8.2f %8.3f %7.3f", row.mode.c_str(),
              row.decode.batch, row.decode.draft ? row.decode.draft->depth : 0,
              row.decode.nodes, row.speed(), times.rounds,
              times.acceptance.mean, Milliseconds(times.seconds, times.rounds),
              Milliseconds(times.device.idle, times.device.rounds));
  if (row.plain_speed > 0) {
    std::printf(" %6.2f\n", row.speed() / row.plain_speed);
  } else {
    std::printf(" %6s\n", "-");
  }
  std::fflush(stdout);
}

nlohmann::ordered_json ToJson(const DecodeRow& row) {
  const DecodeTimes& times = row.times;
  const EngineTimes& device = times.device;
  nlohmann::ordered_json json = {
      {"mode", row.mode},
      {"batch", row.decode.batch},
      {"nodes", row.decode.nodes},
      {"top_k", row.decode.draft ? row.decode.draft->top_k : 0},
      {"depth", row.decode.draft ? row.decode.draft->depth : 0},
      {"prompt_tokens", row.decode.prompt_tokens},
      {"output_tokens", row.decode.output_tokens},
      {"lease_rounds", row.decode.lease_rounds},
      {"rounds", times.rounds},
      {"tokens_per_second", row.speed()},
      {"mean_accepted_tokens", times.acceptance.mean},
      {"acceptance", ToJson(times.acceptance)},
      {"ms_per_round", Milliseconds(times.seconds, times.rounds)},
      {"device_busy_ms", Milliseconds(device.busy, device.rounds)},
      {"device_idle_ms", Milliseconds(device.idle, device.rounds)}};
  if (row.plain_speed > 0) json["speed_up"] = row.speed() / row.plain_speed;
  if (row.decode.time_phases) {
    json["forward_ms"] = Milliseconds(device.forward, device.rounds);
    json["accept_ms"] = Milliseconds(device.accept, device.rounds);
    json["draft_ms"] = Milliseconds(device.draft, device.rounds);
  }
  json["memory_bytes"] = {{"states", times.memory.states},
                          {"pages", times.memory.pages},
                          {"factors", times.memory.factors},
                          {"logits", times.memory.logits},
                          {"buffers", times.memory.buffers}};
  return json;
}

}  // namespace bole

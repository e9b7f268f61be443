#include "tests/kernels/cuda/sampling/device_sampling.h"

namespace bole::testing {

RowBatch DeviceSampling::Of(const RowBatch& host) {
  const size_t rows = *host.rows.count;
  const size_t requests = host.max_requests;
  RowBatch batch = host;
  batch.rows.count = Input(host.rows.count, 1);
  batch.first_row = Input(host.first_row, requests + 1);
  batch.request = Input(host.request, rows);
  batch.node = Input(host.node, rows);
  batch.parent = Input(host.parent, rows);
  batch.depth = Input(host.depth, rows);
  batch.ancestors = Input(host.ancestors, rows * host.mask_words);
  batch.slot = Input(host.slot, requests);
  batch.committed = Input(host.committed, requests);
  return batch;
}

SampleParams DeviceSampling::Of(SampleBatch& batch,
                                std::vector<int32_t>& counts) {
  const SampleParams& host = batch.params();
  const size_t rows = *host.batch.rows.count;
  const size_t requests = host.batch.max_requests;
  SampleParams params = host;
  params.batch = Of(host.batch);
  params.token = Input(host.token, rows);
  params.logits = Input(host.logits, rows * host.vocabulary);
  params.control = Input(host.control, requests);
  params.counts.count = Output(counts);
  params.first_bias = Input(host.first_bias, requests + 1);
  params.bias_token = Input(host.bias_token, host.first_bias[requests]);
  params.bias = Input(host.bias, host.first_bias[requests]);
  params.first_stop = Input(host.first_stop, requests + 1);
  params.stop_token = Input(host.stop_token, host.first_stop[requests]);
  params.path_first = Output(batch.path_first);
  params.path_row = Output(batch.path_row);
  params.emitted = Output(batch.emitted);
  params.logprob = Output(batch.logprob);
  params.top_token = Output(batch.top_token);
  params.top_logprob = Output(batch.top_logprob);
  params.accepted = Output(batch.accepted);
  params.next_token = Output(batch.next_token);
  return params;
}

CountTokensParams DeviceSampling::Of(const CountTokensParams& host,
                                     std::vector<int32_t>& counts) {
  const size_t requests = host.batch.max_requests;
  CountTokensParams params = host;
  params.batch = Of(host.batch);
  params.path.first = Input(host.path.first, requests + 1);
  params.path.row = Input(host.path.row, host.path.first[requests]);
  params.token = Input(host.token, *host.batch.rows.count);
  params.control = Input(host.control, requests);
  params.counts.count = Output(counts);
  return params;
}

}  // namespace bole::testing

// Rows that ranks add up on GPUs, for tests.
#ifndef BOLE_TESTS_KERNELS_CUDA_RANKS_REDUCE_ROWS_H_
#define BOLE_TESTS_KERNELS_CUDA_RANKS_REDUCE_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/collectives.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/guarded_buffer.h"

namespace bole::testing {

// What one rank's AllReduceAddNorm reads and writes, on the host and on its
// GPU. Rows behind those that are there are NaN.
class ReduceRows {
 public:
  // part, before: [used, width] of the rank, and of the residual stream.
  // Allocates on the GPU; nothing does afterwards.
  ReduceRows(cuda::CudaBackend& backend, int max_rows,
             const std::vector<float>& part, const std::vector<float>& before,
             std::vector<float> weight)
      : backend_(backend),
        width_(weight.size()),
        used_(part.size()),
        partial_(static_cast<size_t>(max_rows) * width_),
        residual_(partial_.size()),
        out_(partial_.size()),
        weight_(std::move(weight)),
        count_({static_cast<int32_t>(used_ / width_)}),
        device_(backend) {
    std::copy(part.begin(), part.end(), partial_.data());
    std::copy(before.begin(), before.end(), residual_.data());
    params_ = {.rows = {device_.Of(count_), max_rows},
               .width = static_cast<int>(width_),
               .epsilon = 1e-6f,
               .partial = device_.Activations(partial_),
               .residual = device_.Activations(residual_),
               .weight = device_.Of(weight_),
               .out = device_.Activations(out_)};
  }

  const AllReduceAddNormParams& params() const { return params_; }
  const std::vector<float>& weight() const { return weight_; }

  // How many rows there are in the calls that are queued from now on.
  absl::Status SetCount(int32_t rows) {
    count_[0] = rows;
    return backend_.Upload(const_cast<int32_t*>(params_.rows.count),
                           count_.data(), sizeof(rows));
  }

  // Waits for the GPU, and brings what it has written to the host.
  void Fetch() { device_.Fetch(); }
  std::span<const float> residual() const {
    return {residual_.data(), residual_.size()};
  }
  std::span<const float> out() const { return {out_.data(), out_.size()}; }
  // The rows that there were at the start: the residual stream, then its norm.
  std::vector<float> Result() const {
    std::vector<float> result(residual_.data(), residual_.data() + used_);
    result.insert(result.end(), out_.data(), out_.data() + used_);
    return result;
  }

 private:
  cuda::CudaBackend& backend_;
  const size_t width_;
  const size_t used_;  // Elements.
  GuardedBuffer<float> partial_;
  GuardedBuffer<float> residual_;
  GuardedBuffer<float> out_;
  const std::vector<float> weight_;
  std::vector<int32_t> count_;
  DeviceCopies device_;
  AllReduceAddNormParams params_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_RANKS_REDUCE_ROWS_H_

// Tests that need a GPU, and skip without one.
#ifndef BOLE_TESTS_KERNELS_CUDA_CUDA_TEST_H_
#define BOLE_TESTS_KERNELS_CUDA_CUDA_TEST_H_

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/reference_backend.h"

namespace bole::testing {

// A GPU backend for each type of activations, beside the reference. Instantiate
// with BOLE_FOR_EACH_ELEMENT.
class CudaTest : public ::testing::TestWithParam<ElementType> {
 protected:
  void SetUp() override {
    const absl::Status device = cuda::CheckDevice();
    if (!device.ok()) GTEST_SKIP() << device.message();
    auto backend = cuda::CudaBackend::Create(/*device=*/0, GetParam());
    ASSERT_TRUE(backend.ok()) << backend.status();
    cuda_ = *std::move(backend);
  }

  bool is_float() const { return GetParam() == ElementType::kFloat32; }
  // Half a unit in the last place of 1, of what is stored.
  double roundoff() const { return is_float() ? 1.0 / (1 << 24) : 1.0 / 256; }

  std::mt19937 rng_{1};
  ReferenceBackend reference_{/*num_threads=*/2};
  std::unique_ptr<cuda::CudaBackend> cuda_;
};

// 1, or n where BOLE_FEWER_CASES is set: the stride through cases that differ
// in what is drawn at random, or in sizes that take the same branches. So
// racecheck is affordable (sanitize.py), which follows every access to shared
// memory on the CPU: a case of a millisecond takes a second. Every kernel,
// branch and kind of raggedness must be left.
inline int EveryNth(int n) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment.
  static const bool is_fewer = std::getenv("BOLE_FEWER_CASES") != nullptr;
  return is_fewer ? n : 1;
}

inline std::string ElementName(
    const ::testing::TestParamInfo<ElementType>& info) {
  return info.param == ElementType::kFloat32 ? "Float32" : "BFloat16";
}

#define BOLE_FOR_EACH_ELEMENT(suite)                                    \
  INSTANTIATE_TEST_SUITE_P(                                             \
      Elements, suite,                                                  \
      ::testing::Values(ElementType::kFloat32, ElementType::kBFloat16), \
      ::bole::testing::ElementName)

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_CUDA_TEST_H_

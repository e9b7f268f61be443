// A test of products by the GPU's own ways to multiply.
#ifndef BOLE_TESTS_KERNELS_CUDA_PRODUCTS_MATMULS_TEST_H_
#define BOLE_TESTS_KERNELS_CUDA_PRODUCTS_MATMULS_TEST_H_

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/cuda/products/matmul.h"
#include "tests/kernels/cuda/cuda_test.h"

namespace bole::testing {

class MatMulsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto matmuls = cuda::MatMuls::Create();
    ASSERT_TRUE(matmuls.ok()) << matmuls.status();
    matmuls_ = *std::move(matmuls);
  }

  std::unique_ptr<cuda::MatMuls> matmuls_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_PRODUCTS_MATMULS_TEST_H_

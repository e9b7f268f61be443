// Scratch is measured for every shape that an operator is called with, by
// whatever plans.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/scratch_meter.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {
namespace {

using Shape = std::vector<int64_t>;

// All that scratch may depend on, and which operator it is.
Shape ShapeOf(const MatMulParams& p) {
  return {1, p.rows.max, reinterpret_cast<int64_t>(p.weight)};
}
Shape ShapeOf(const GdnCoreParams& p) {
  return {2, p.batch.max_requests, p.batch.rows.max, p.batch.mask_words,
          p.batch.max_path};
}
Shape ShapeOf(const AttentionParams& p) {
  return {3, p.batch.max_requests, p.batch.rows.max, p.batch.mask_words,
          p.batch.max_pages};
}
Shape ShapeOf(const SampleParams& p) {
  return {4, p.batch.max_requests, p.batch.rows.max};
}
Shape ShapeOf(const TopKParams& p) { return {5, p.rows.max, p.top_k}; }
Shape ShapeOf(const SelectForestParams& p) { return {6, p.max_requests}; }

class ShapeMeter final : public ScratchMeter {
 public:
  ShapeMeter(Rank rank, std::set<Shape>& shapes)
      : ScratchMeter(rank), shapes_(shapes) {}

  absl::Status MatMul(const MatMulParams& p) override { return Add(p); }
  absl::Status GdnVerify(const GdnCoreParams& p) override { return Add(p); }
  absl::Status GdnPrefill(const GdnCoreParams& p) override { return Add(p); }
  absl::Status Attend(const AttentionParams& p) override { return Add(p); }
  absl::Status Sample(const SampleParams& p) override { return Add(p); }
  absl::Status TopK(const TopKParams& p) override { return Add(p); }
  absl::Status SelectForest(const SelectForestParams& p) override {
    return Add(p);
  }

 private:
  template <typename Params>
  absl::Status Add(const Params& params) {
    shapes_.insert(ShapeOf(params));
    return Note(1000 + shapes_.size());
  }

  std::set<Shape>& shapes_;
};

// Refuses an operator of a shape that was not measured.
class MeteredBackend final : public ReferenceBackend {
 public:
  MeteredBackend() : ReferenceBackend(/*num_threads=*/1) {}

  std::unique_ptr<ScratchMeter> MakeScratchMeter() const override {
    return std::make_unique<ShapeMeter>(rank(), measured);
  }
  absl::Status ReserveScratch(size_t bytes) override {
    reserved = bytes;
    return absl::OkStatus();
  }

  absl::Status MatMul(const MatMulParams& p) override {
    return Check(p, ReferenceBackend::MatMul(p));
  }
  absl::Status GdnVerify(const GdnCoreParams& p) override {
    return Check(p, ReferenceBackend::GdnVerify(p));
  }
  absl::Status GdnPrefill(const GdnCoreParams& p) override {
    return Check(p, ReferenceBackend::GdnPrefill(p));
  }
  absl::Status Attend(const AttentionParams& p) override {
    return Check(p, ReferenceBackend::Attend(p));
  }
  absl::Status Sample(const SampleParams& p) override {
    return Check(p, ReferenceBackend::Sample(p));
  }
  absl::Status TopK(const TopKParams& p) override {
    return Check(p, ReferenceBackend::TopK(p));
  }
  absl::Status SelectForest(const SelectForestParams& p) override {
    return Check(p, ReferenceBackend::SelectForest(p));
  }

  mutable std::set<Shape> measured;
  std::set<Shape> run;
  size_t reserved = 0;

 private:
  template <typename Params>
  absl::Status Check(const Params& params, absl::Status status) {
    const Shape shape = ShapeOf(params);
    run.insert(shape);
    EXPECT_TRUE(measured.contains(shape))
        << "not measured: " << ::testing::PrintToString(shape);
    return status;
  }
};

TEST(EngineScratchTest, EveryShapeThatRunsWasMeasuredBefore) {
  MeteredBackend backend;
  const absl::StatusOr<LoadedModel> model = LoadModel("models/demo", backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto prompts = DemoModel::Get().Prompts();
  // Trees and chains of several sizes, alone and in batches that shrink as
  // requests end; prompts that are cut in chunks beside them.
  for (GenerateOptions options : {Chain(3, 5), Tree(40, 3)}) {
    for (const int lease : {1, 3}) {
      options.lease_rounds = lease;
      EngineOptions sizes = EngineOptionsFor(options, /*max_context=*/256,
                                             model->num_valid_tokens());
      sizes.max_prefill_tokens = 64;
      if (options.draft) sizes.max_draft = {.top_k = 4, .depth = 8};
      sizes.num_pages = sizes.max_requests * sizes.MaxPagesPerRequest();
      backend.measured.clear();
      backend.run.clear();
      const auto engine =
          Engine::Create(model->config, *model->weights, backend, sizes);
      ASSERT_TRUE(engine.ok()) << engine.status();
      EXPECT_EQ(backend.reserved, 1000 + backend.measured.size());
      EXPECT_EQ((*engine)->memory_use().scratch, backend.reserved);
      std::vector<GenerateRequest> requests(6);
      for (size_t i = 0; i < requests.size(); ++i) {
        requests[i].prompt = prompts[i];
        requests[i].prompt.resize(
            std::min<size_t>(prompts[i].size(), 20 + 25 * i));
        requests[i].sampling.max_tokens = 4 + 2 * static_cast<int>(i);
      }

      const auto results = Generate(**engine, options, requests, nullptr);

      ASSERT_TRUE(results.ok()) << results.status();
      EXPECT_GT(backend.run.size(), 20u);
    }
  }
}

}  // namespace
}  // namespace bole::testing_support

#include "tests/worker_service/eval/rounded_backend.h"

#include <bit>
#include <span>
#include <vector>

#include "common/status_macros.h"
#include "kernels/matrix_source.h"

namespace bole::testing_support {
namespace {

// On the reference backend an activation is a float.
float* Floats(Activation* x) { return reinterpret_cast<float*>(x); }

}  // namespace

void RoundedBackend::Rounding::Round(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(x[i]);
    if (seed_ == 0) {
      bits += 0x7fff + ((bits >> 16) & 1);  // Ties to even.
    } else {
      bits += 0x8000 - 0x800 + random_() % 0x1000;
    }
    x[i] = std::bit_cast<float>(bits & 0xffff0000u);
  }
}

absl::Status RoundedBackend::Rounding::RoundRows(const RowCount& rows,
                                                 int width, Activation* x) {
  Round(Floats(x), static_cast<int64_t>(*rows.count) * width);
  return absl::OkStatus();
}

absl::Status RoundedBackend::RoundOut(const GdnCoreParams& params) {
  return rounding_.RoundRows(params.batch.rows, params.shape.value_width(),
                             params.out);
}

absl::StatusOr<const WeightMatrix*> RoundedBackend::LoadMatrix(
    const MatrixSource& source) {
  std::vector<float> rounded(static_cast<size_t>(source.rows()) *
                             source.columns);
  std::span<float> rest = rounded;
  for (const MatrixBlock& block : source.blocks) {
    for (int row = 0; row < block.rows; ++row) {
      Widen(block.type, block.row(row), rest.first(source.columns));
      rest = rest.subspan(source.columns);
    }
  }
  rounding_.Round(rounded.data(), std::ssize(rounded));
  const MatrixBlock block = FloatBlock(rounded, source.columns);
  return ReferenceBackend::LoadMatrix(
      {.columns = source.columns, .blocks = {&block, 1}});
}

absl::Status RoundedBackend::Embed(const EmbedParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::Embed(params));
  return rounding_.RoundRows(params.rows, params.table->columns, params.out);
}

absl::Status RoundedBackend::RmsNorm(const RmsNormParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::RmsNorm(params));
  for (int64_t i = 0; i < *params.rows.count; ++i) {
    rounding_.Round(
        Floats(params.out) + i * params.out_stride + params.out_column,
        params.width);
  }
  return absl::OkStatus();
}

absl::Status RoundedBackend::MatMul(const MatMulParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::MatMul(params));
  if (params.out == nullptr) return absl::OkStatus();
  return rounding_.RoundRows(params.rows, params.weight->rows, params.out);
}

absl::Status RoundedBackend::SiluMul(const SiluMulParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::SiluMul(params));
  return rounding_.RoundRows(params.rows, params.width, params.out);
}

absl::Status RoundedBackend::Moe(const MoeParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::Moe(params));
  return rounding_.RoundRows(params.rows, params.router->columns, params.out);
}

absl::Status RoundedBackend::GdnConv(const GdnConvParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::GdnConv(params));
  const RowCount& rows = params.batch.rows;
  const GdnShape& shape = params.shape;
  // The rows of this layer.
  const int64_t first =
      static_cast<int64_t>(params.layer) * params.factors.layer_rows;
  const auto round = [&](Activation* x, int width) {
    rounding_.Round(Floats(x) + first * width,
                    static_cast<int64_t>(*rows.count) * width);
  };
  round(params.factors.k, shape.key_width());
  round(params.factors.v, shape.value_width());
  return rounding_.RoundRows(rows, shape.key_width(), params.q);
}

absl::Status RoundedBackend::GdnVerify(const GdnCoreParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::GdnVerify(params));
  return RoundOut(params);
}

absl::Status RoundedBackend::GdnDecode(const GdnCoreParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::GdnDecode(params));
  return RoundOut(params);
}

absl::Status RoundedBackend::GdnPrefill(const GdnCoreParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::GdnPrefill(params));
  return RoundOut(params);
}

absl::Status RoundedBackend::GdnGatedNorm(const GdnGatedNormParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::GdnGatedNorm(params));
  return rounding_.RoundRows(params.rows, params.shape.value_width(),
                             params.out);
}

absl::Status RoundedBackend::PrepareQkv(const QkvParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::PrepareQkv(params));
  // All keys of the layer: those of before are rounded already. Values are
  // those of the projection, rounded as well.
  const int64_t layer_size = static_cast<int64_t>(params.pages.num_pages) *
                             params.pages.page_size * params.shape.kv_width();
  rounding_.Round(Floats(params.pages.k) + params.layer * layer_size,
                  layer_size);
  return rounding_.RoundRows(params.batch.rows, params.shape.query_width(),
                             params.q);
}

absl::Status RoundedBackend::Attend(const AttentionParams& params) {
  BOLE_RETURN_IF_ERROR(ReferenceBackend::Attend(params));
  return rounding_.RoundRows(params.batch.rows, params.shape.query_width(),
                             params.out);
}

}  // namespace bole::testing_support

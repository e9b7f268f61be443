#ifndef BOLE_KERNELS_TENSOR_H_
#define BOLE_KERNELS_TENSOR_H_

#include <cstddef>
#include <cstdint>

namespace bole {

// How a backend stores activations and KV.
enum class ElementType { kFloat32, kBFloat16 };

constexpr size_t ElementBytes(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : 2;
}

// An element of the backend's activation type, known only to the backend: the
// model passes Activation* around and cannot mistake it for float*.
struct Activation;

// A weight matrix [rows, columns] in the layout the backend packed it into at
// load; each backend derives its own. Products compute x W^T.
struct WeightMatrix {
  WeightMatrix(int num_rows, int num_columns)
      : rows(num_rows), columns(num_columns) {}
  virtual ~WeightMatrix() = default;

  const int rows;
  const int columns;
};

// How many rows of a buffer are in use. The number lives on the device, so that
// a captured graph serves every number up to `max`; the host never reads it.
// An operator neither reads nor writes rows at or beyond *count.
struct RowCount {
  const int32_t* count;  // [1], device; 0 <= *count <= max.
  int max;               // Capacity: the bucket this launch was made for.
};

}  // namespace bole

#endif  // BOLE_KERNELS_TENSOR_H_

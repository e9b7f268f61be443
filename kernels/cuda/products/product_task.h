// Makes the parameters of our own product kernels from a product.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_PRODUCT_TASK_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_PRODUCT_TASK_H_

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/tensor_map.h"

namespace bole::cuda {

// In elements; columns_of_box divides columns_of_chunk.
struct ProductBoxes {
  int rows_of_weight;  // Rows of each part, if the product is gated.
  int rows_of_x;
  int columns_of_box;
  int columns_of_chunk;
  int turn_rows = 0;  // BoxedRows::turn_rows of W, if the product is gated.
};

// Makes a StreamTask or a WideTask. Returns INTERNAL as MapOf() does.
template <typename Task, typename Plan>
absl::StatusOr<Task> MakeProductTask(const Product& product, const Plan& plan,
                                     const ProductBoxes& boxes) {
  const int chunk = boxes.columns_of_chunk;
  Task task = {.weight = {},
               .x = {},
               .count = product.count,
               .num_rows = product.num_rows,
               .rows = product.gated ? product.rows / 2 : product.rows,
               .chunks = (product.columns + chunk - 1) / chunk,
               .plan = plan,
               .out = product.out,
               .float_out = product.float_out,
               .accumulate = product.accumulate};
  BOLE_ASSIGN_OR_RETURN(task.weight, MapOf({.data = product.weight,
                                            .rows = product.rows,
                                            .columns = product.columns,
                                            .box_rows = boxes.rows_of_weight,
                                            .box_columns = boxes.columns_of_box,
                                            .parts = product.gated ? 2 : 1,
                                            .turn_rows = boxes.turn_rows}));
  BOLE_ASSIGN_OR_RETURN(task.x, MapOf({.data = product.x,
                                       .rows = product.num_rows,
                                       .columns = product.columns,
                                       .box_rows = boxes.rows_of_x,
                                       .box_columns = boxes.columns_of_box}));
  return task;
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_PRODUCT_TASK_H_

#include "kernels/reference/generate.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/generated_element.h"

namespace bole::reference {

void Generate(const MatrixGenerator& generator, PackedMatrix& matrix,
              ThreadPool& pool) {
  const int num_tasks = std::min(generator.rows, 4 * pool.num_threads());
  const int num_blocks =
      (generator.columns + kElementBlock - 1) / kElementBlock;
  const auto first_row = [&](int task) {
    return static_cast<int>(int64_t{generator.rows} * task / num_tasks);
  };
  pool.ParallelFor(num_tasks, [&](int task) {
    std::vector<float> values(static_cast<size_t>(num_blocks) * kElementBlock);
    for (int row = first_row(task); row < first_row(task + 1); ++row) {
      for (int block = 0; block < num_blocks; ++block) {
        const ElementBlock elements = Elements(generator, row, block);
        std::copy_n(elements.value, kElementBlock,
                    values.data() + static_cast<size_t>(block) * kElementBlock);
      }
      matrix.SetRows(row, std::span(values).first(generator.columns));
    }
  });
}

}  // namespace bole::reference

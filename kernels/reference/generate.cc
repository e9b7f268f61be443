#include "kernels/reference/generate.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/generated_element.h"

namespace bole::reference {

void Generate(const MatrixGenerator& generator, PackedMatrix& matrix,
              ThreadPool& pool) {
  const int num_rows = PartRows(generator);
  const int num_columns = PartColumns(generator);
  const int num_tasks = std::min(num_rows, 4 * pool.num_threads());
  const int num_blocks = (num_columns + kElementBlock - 1) / kElementBlock;
  const auto first_row = [&](int task) {
    return static_cast<int>(int64_t{num_rows} * task / num_tasks);
  };
  pool.ParallelFor(num_tasks, [&](int task) {
    std::vector<float> values(static_cast<size_t>(num_blocks) * kElementBlock);
    for (int row = first_row(task); row < first_row(task + 1); ++row) {
      for (int block = 0; block < num_blocks; ++block) {
        const ElementBlock elements =
            Elements(generator, WholeRow(generator, row),
                     static_cast<uint32_t>(WholeBlock(generator, block)));
        std::copy_n(elements.value, kElementBlock,
                    values.data() + static_cast<size_t>(block) * kElementBlock);
      }
      matrix.SetRows(row, std::span(values).first(num_columns));
    }
  });
}

}  // namespace bole::reference

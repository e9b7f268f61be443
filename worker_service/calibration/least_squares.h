// Non-negative least squares for small problems.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_LEAST_SQUARES_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_LEAST_SQUARES_H_

#include <vector>

namespace bole {

// The non-negative factors that minimise the sum of the squares of
// (row . factors - 1), where rows that are far off count less (Huber's
// weights). Factors that the rows cannot tell apart share their common part; a
// factor whose column is 0 in every row is 0.
// REQUIRES: all rows have the same length.
// COST: O(rows * columns^2), and milliseconds for 50 columns.
std::vector<double> FitToOnes(const std::vector<std::vector<double>>& rows);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_LEAST_SQUARES_H_

// Non-negative least squares, of small problems.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_LEAST_SQUARES_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_LEAST_SQUARES_H_

#include <vector>

namespace bole {

// The factors, none of them negative, for which the sum of the squares of
// (row . factors - 1) is least, with rows that are far off counting less
// (Huber's weights). Factors that the rows do not tell apart share what they
// have in common; one that no row has is 0.
// REQUIRES: rows of one length.
// COST: O(rows * columns^2), and milliseconds for 50 columns.
std::vector<double> FitToOnes(const std::vector<std::vector<double>>& rows);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_LEAST_SQUARES_H_

#include "tests/bench/cuda/draft_trees.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace bole::cuda {
namespace {

struct Node {
  float reach;  // Probability to be reached.
  int parent;   // In order of choice, or -1.
  int depth;

  bool operator<(const Node& other) const { return reach < other.reach; }
};

// The children of node `number`, best first.
std::vector<Node> Children(std::mt19937& rng, const Node& node, int number,
                           int top_k) {
  std::normal_distribution<float> logit(0, 2);
  std::vector<float> weight(top_k);
  for (float& w : weight) w = std::exp(logit(rng));
  std::sort(weight.begin(), weight.end(), std::greater<>());
  const float sum = std::accumulate(weight.begin(), weight.end(), 0.0f);
  std::vector<Node> children;
  children.reserve(top_k);
  for (const float w : weight) {
    children.push_back({.reach = node.reach * w / sum,
                        .parent = number,
                        .depth = node.depth + 1});
  }
  return children;
}

// Sorts by depth, parents first, and tells the parents in the new numbers.
testing::Parents BreadthFirst(const std::vector<Node>& nodes) {
  std::vector<int> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return nodes[a].depth < nodes[b].depth;
  });
  std::vector<int> number(nodes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    number[order[i]] = static_cast<int>(i);
  }
  testing::Parents parents(nodes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int parent = nodes[order[i]].parent;
    parents[i] = parent < 0 ? -1 : number[parent];
  }
  return parents;
}

}  // namespace

testing::Parents DraftTree(std::mt19937& rng, const DraftTreeShape& shape) {
  std::priority_queue<Node> open;
  std::vector<Node> nodes;
  nodes.reserve(shape.num_nodes);
  Node next = {.reach = 1, .parent = -1, .depth = 0};
  bool is_spine = true;  // The path of the best children, which comes first.
  while (static_cast<int>(nodes.size()) < shape.num_nodes) {
    const int number = static_cast<int>(nodes.size());
    nodes.push_back(next);
    std::vector<Node> children;
    if (next.depth < shape.max_depth) {
      children = Children(rng, next, number, shape.top_k);
    }
    is_spine = is_spine && !children.empty();
    for (size_t i = is_spine ? 1 : 0; i < children.size(); ++i) {
      open.push(children[i]);
    }
    if (!is_spine && open.empty()) break;  // All that top_k allows.
    next = is_spine ? children[0] : open.top();
    if (!is_spine) open.pop();
  }
  return BreadthFirst(nodes);
}

std::vector<int> DeepestPath(const testing::Parents& parents, int length) {
  std::vector<int> path;
  for (int i = 0; i < static_cast<int>(parents.size()); ++i) {
    std::vector<int> to_node = testing::PathTo(parents, i);
    if (to_node.size() > path.size()) path = std::move(to_node);
  }
  path.resize(std::min<size_t>(path.size(), length));
  return path;
}

}  // namespace bole::cuda

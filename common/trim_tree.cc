#include "common/trim_tree.h"

#include <cstdint>
#include <vector>

#include "common/select_nodes.h"

namespace bole {

ProposalTree TrimTree(const ProposalTree& tree, int max_nodes, int max_depth) {
  ProposalTree shallow;
  std::vector<int32_t> depth;
  std::vector<int32_t> number(tree.size(), kNoParent);  // In the result.
  depth.reserve(tree.size());
  const auto keep = [&](ProposalTree& to, int node) {
    number[node] = to.size();
    const int32_t parent = tree.parent[node];
    to.parent.push_back(parent == kNoParent ? kNoParent : number[parent]);
    to.token.push_back(tree.token[node]);
    to.log_rho.push_back(tree.log_rho[node]);
  };
  for (int node = 0; node < tree.size(); ++node) {
    depth.push_back(node == 0 ? 0 : depth[tree.parent[node]] + 1);
    if (depth.back() <= max_depth) keep(shallow, node);
  }
  if (shallow.size() <= max_nodes) return shallow;
  // The numbers of `shallow` are those that SelectNodes() speaks of.
  std::vector<int> node_of(shallow.size());
  for (int node = 0; node < tree.size(); ++node) {
    if (number[node] != kNoParent) node_of[number[node]] = node;
  }
  ProposalTree likely;
  for (const NodeRef ref : SelectNodes({&shallow, 1}, max_nodes)) {
    keep(likely, node_of[ref.node]);
  }
  return likely;
}

ProposalTree LikeliestChain(const ProposalTree& tree) {
  ProposalTree chain;
  std::vector<int> likeliest(tree.size(), kNoParent);  // Child of a node.
  for (int node = 1; node < tree.size(); ++node) {
    int& child = likeliest[tree.parent[node]];
    if (child == kNoParent || tree.log_rho[node] > tree.log_rho[child]) {
      child = node;
    }
  }
  for (int node = 0; node != kNoParent; node = likeliest[node]) {
    chain.parent.push_back(chain.size() - 1);
    chain.token.push_back(tree.token[node]);
    chain.log_rho.push_back(tree.log_rho[node]);
  }
  return chain;
}

}  // namespace bole

"""cuda_tests: tests of operators on a GPU."""

load("@cuda//:toolkit.bzl", "AVAILABLE")

# But for ranks, whose tests are a program of their own.
_FAMILIES = [
    "attention",
    "gdn",
    "moe",
    "prefill",
    "products",
    "sampling",
    "verify",
]

# What tests of any of them include.
DEPS = [
    "//common:draft_shape",
    "//common:step",
    "//kernels:attention",
    "//kernels:backend",
    "//kernels:collectives",
    "//kernels:collectives_kind",
    "//kernels:dense",
    "//kernels:drafting",
    "//kernels:gdn",
    "//kernels:generate",
    "//kernels:graph_set",
    "//kernels:matrix_source",
    "//kernels:row_batch",
    "//kernels:sampling",
    "//kernels:scratch_meter",
    "//kernels:weight_store",
    "//kernels/cuda:cuda_backend",
    "//kernels/cuda:device",
    "//kernels/cuda/moe",
    "//kernels/cuda/products",
    "//kernels/cuda/products:int7_operators",
    "//kernels/cuda/products:stream_product",
    "//kernels/cuda/products:wide_product",
    "//kernels/cuda/ranks:gpu_collectives",
    "//kernels/cuda/ranks:reduce_form",
    "//kernels/reference:packed_matrix",
    "//tests/kernels:attention_problem",
    "//tests/kernels:cut_columns",
    "//tests/kernels:forest_problem",
    "//tests/kernels:gdn_oracle",
    "//tests/kernels:gdn_problem",
    "//tests/kernels:qkv_problem",
    "//tests/kernels:sample_batch",
    "//tests/kernels/cuda:cuda_test",
    "//tests/kernels/cuda/attention:attend_test",
    "//tests/kernels/cuda/attention:device_pages",
    "//tests/kernels/cuda/gdn:device_gdn",
    "//tests/kernels/cuda/moe:moe_operator_test",
    "//tests/kernels/cuda/moe:moe_problem",
    "//tests/kernels/cuda/products:product_case",
    "//tests/kernels/cuda/ranks:on_gpus",
    "//tests/kernels/cuda/ranks:reduce_rows",
    "//tests/kernels/cuda/sampling:device_sampling",
    "//tests/kernels/cuda/sampling:sample_cases",
    "//tests/testing:activations",
    "//tests/testing:guarded_buffer",
    "//tests/testing:matrices",
    "//tests/testing:random_forest",
    "//tests/testing:random_tree",
    "@absl//:status",
    "@cuda//:cudart",
    "@gtest//:gtest_main",
]

# Of these families' tests, for one program.
SOURCES = ["//tests/kernels/cuda/%s:tests" % family for family in _FAMILIES]

def cuda_tests(name, names):
    """A test of each .cc, and a filegroup of them.

    Args:
      name: of the filegroup.
      names: of the tests, and of their sources without .cc.
    """
    if not AVAILABLE:
        return
    native.filegroup(
        name = name,
        testonly = True,
        srcs = [test + ".cc" for test in names],
        visibility = ["//tests/kernels/cuda:__pkg__"],
    )
    for test in names:
        native.cc_test(
            name = test,
            size = "medium",
            srcs = [test + ".cc"],
            linkstatic = True,  # One CUDA runtime for all that is linked.
            tags = ["gpu"],
            deps = DEPS,
        )

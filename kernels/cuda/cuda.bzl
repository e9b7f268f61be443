"""cuda_operators: device code, compiled by nvcc."""

load("@cuda//:toolkit.bzl", "AVAILABLE", "HOME")

_FLAGS = [
    "-O3",
    "-std=c++20",
    "--expt-relaxed-constexpr",
    "-I.",
    "-Xcompiler=-Wall,-Wextra,-Wno-unused-parameter",
    "-Werror=all-warnings",
    "-lineinfo",
]

# sm_90a alone, unless --define=cuda_targets=all.
_ONE_TARGET = "-gencode=arch=compute_90a,code=sm_90a"
_ALL_TARGETS = " ".join([
    "-gencode=arch=compute_80,code=sm_80",
    _ONE_TARGET,
    "-gencode=arch=compute_121,code=sm_121",
])

def _compile(src, targets):
    return "%s/bin/nvcc %s %s -Xcompiler=-fPIC -c $(location %s) -o $@" % (
        HOME,
        " ".join(_FLAGS),
        targets,
        src,
    )

# What every operator includes.
_HEADERS = [
    "//kernels/cuda:check.h",
    "//kernels/cuda:element.cuh",
    "//kernels/cuda:launch.cuh",
    "//kernels/cuda:operators.h",
]
_HEADERS_OF = [
    "//common:device_headers",
    "//kernels:headers",
]

def cuda_operators(name, srcs, hdrs = [], deps = []):
    """One object for each .cu file, so that they are built side by side.

    Nothing is declared where there is no toolkit.

    Args:
      name: of the library.
      srcs: the .cu files.
      hdrs: headers that they include beside those of every operator.
      deps: other such libraries that they call.
    """
    if not AVAILABLE:
        return
    headers = _HEADERS + hdrs
    objects = []
    for src in srcs:
        stem = src[:-len(".cu")]
        native.genrule(
            name = stem + "_object",
            srcs = [src] + headers + _HEADERS_OF,
            outs = [stem + ".pic.o"],
            cmd = select({
                "//kernels/cuda:all_targets": _compile(src, _ALL_TARGETS),
                "//conditions:default": _compile(src, _ONE_TARGET),
            }),
            visibility = ["//visibility:private"],
        )
        objects.append(stem + ".pic.o")
    native.cc_library(
        name = name,
        srcs = objects,
        hdrs = [h for h in headers if h.endswith(".h")],
        # The runtime is static, and there must be one of it.
        linkstatic = True,
        deps = deps + [
            "//kernels:backend",
            "@absl//:status",
            "@absl//:strings",
            "@cuda//:cudart",
        ],
    )

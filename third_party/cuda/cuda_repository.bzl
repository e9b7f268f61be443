"""The CUDA toolkit as @cuda, where there is one.

Looked for in $CUDA_HOME, then in /usr/local/cuda. Without it the repository says
so (AVAILABLE = False in @cuda//:toolkit.bzl), and what needs it is left out of
the build.
"""

_LIBRARIES = """
package(default_visibility = ["//visibility:public"])

# Static, so that a program starts on a machine without a driver, and reports
# that there is none.
cc_library(
    name = "cudart",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = [
        "{home}/lib64/libcudart_static.a",
        "-ldl",
        "-lrt",
        "-pthread",
    ],
)

# Headers, and where to find the library: it is loaded when it is needed.
cc_library(
    name = "cublas_lt",
    linkopts = [
        "-Wl,-rpath,{home}/lib64",
        "-ldl",
    ],
    deps = [":cudart"],
)
"""

def _cuda_repository_impl(repository):
    home = repository.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    available = repository.path(home + "/bin/nvcc").exists
    repository.file(
        "toolkit.bzl",
        "AVAILABLE = %s\nHOME = %r\n" % (available, home),
    )
    if not available:
        repository.file("BUILD", "")
        return
    repository.symlink(home + "/include", "include")
    repository.file("BUILD", _LIBRARIES.format(home = home))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME"],
    local = True,
)

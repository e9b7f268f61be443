"""Libraries of the system as repositories: @absl//:status, @gtest//:gtest, ...

A target names what the code depends on; the BUILD file here says only how to
link it, because the headers lie in the compiler's own search path. A site that
builds these libraries from source replaces the repository and nothing else.
"""

LIBRARIES = [
    "absl",
    "benchmark",
    "boost",
    "cli11",
    "grpc",
    "gtest",
    "highway",
    "httplib",
    "nlohmann_json",
    "openssl",
    "pcre2",
    "prometheus",
    "protobuf",
    "utf8proc",
]

# buildifier: disable=unnamed-macro
def system_libraries():
    """Declares one repository for each library in LIBRARIES."""
    for name in LIBRARIES:
        native.new_local_repository(
            name = name,
            build_file = "//third_party:" + name + ".BUILD",
            path = "third_party/system",
        )

"""fuzz_test: one fuzz target, run two ways."""

def fuzz_test(name, srcs, deps, data = [], size = "small"):
    """Declares a fuzz target: a source that defines LLVMFuzzerTestOneInput.

    The inputs lie in corpus/<name>/, which must not be empty. Makes two targets:
      <name>            a test that feeds every file of the corpus to the target
                        once, with any compiler and any sanitizer.
      <name>_libfuzzer  a libFuzzer program, only for --config=asan. Not part of
                        //..., run by tests/fuzz/run_fuzzers.sh.

    Args:
      name: such as "tokenizer_fuzz".
      srcs: sources of the target.
      deps: what they include.
      data: files that the target reads, by their path from the root.
      size: of the replaying test.
    """
    folder = "corpus/" + name
    inputs = native.glob([folder + "/**"])
    if not inputs:
        fail("%s: no files in //%s/%s" % (name, native.package_name(), folder))

    # Compiled once for both.
    native.cc_library(
        name = name + "_target",
        testonly = True,
        srcs = srcs,
        data = data,
        alwayslink = True,
        deps = deps,
    )
    native.cc_test(
        name = name,
        size = size,
        args = ["%s/%s" % (native.package_name(), folder)],
        data = inputs,
        tags = ["fuzz"],
        deps = [
            ":" + name + "_target",
            "//tests/fuzz:replay_main",
        ],
    )
    native.cc_binary(
        name = name + "_libfuzzer",
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = [
            "libfuzzer",
            "manual",
        ],
        deps = [":" + name + "_target"],
    )

"""Headers of the system that clang parses once for many sources."""

load(
    "@bazel_tools//tools/build_defs/cc:action_names.bzl",
    "CPP_COMPILE_ACTION_NAME",
)
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        # Modules have names, and this is none.
        unsupported_features = ctx.disabled_features + [
            "dependency_file",
            "layering_check",
            "use_module_maps",
        ],
    )

    # The main file is one of the system, because Bazel refuses the path by which
    # clang would know one of the tree.
    parsed = ctx.actions.declare_file(ctx.label.name + ".h.pch")
    flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts
    flags += ["-xc++-header", "-fmodules-strict-decluse", "-fpch-instantiate-templates"]
    flags += ["-include%s" % name for name in ctx.attr.headers]
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = "/usr/include/stdint.h",
        output_file = parsed.path,
        user_compile_flags = flags,
        use_pic = True,
    )
    ctx.actions.run(
        executable = toolchain.compiler_executable,
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = toolchain.all_files,
        outputs = [parsed],
        mnemonic = "Precompile",
        progress_message = "Precompiling %s" % ctx.label.name,
    )
    return [DefaultInfo(files = depset([parsed]))]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = """Makes NAME.h.pch of headers of the system.

.bazelrc tells sources to begin with it (-include-pch). clang takes it only if
their flags are those that it was made with.""",
    attrs = {
        "copts": attr.string_list(
            doc = "What .bazelrc adds to the sources that use it.",
        ),
        "headers": attr.string_list(
            mandatory = True,
            doc = "As between angle brackets.",
        ),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

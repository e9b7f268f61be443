"""Headers of the system that the compiler parses once for many sources."""

load(
    "@bazel_tools//tools/build_defs/cc:action_names.bzl",
    "CPP_COMPILE_ACTION_NAME",
)
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    is_clang = toolchain.compiler == "clang"
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
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(header, "".join([
        "#include <%s>\n" % name
        for name in ctx.attr.headers
    ]))

    # g++ looks for .gch beside the header; clang is given the path of .pch. The
    # main file is one of the system, because Bazel refuses the path by which
    # clang knows one of the tree, and a small one, because g++ warns of what is
    # in the main file.
    parsed = ctx.actions.declare_file(
        "%s.h.%s" % (ctx.label.name, "pch" if is_clang else "gch"),
    )
    flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ["-xc++-header"]
    flags += ["-include%s" % name for name in ctx.attr.headers]
    if is_clang:
        flags += ctx.attr.clang_copts + ["-fmodules-strict-decluse"]
    else:
        flags += ctx.attr.copts
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
        progress_message = "Precompiling %s" % header.short_path,
    )
    return [DefaultInfo(files = depset([header, parsed]))]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = """Makes NAME.h, which includes headers of the system, parsed already.

Users have this rule in their textual_hdrs, and .bazelrc tells their sources to
begin with it: g++ by -include NAME.h, clang by -include-pch. Compilers take it
only if their flags are the same for both.""",
    attrs = {
        "clang_copts": attr.string_list(
            doc = "What .bazelrc adds to the sources that use it, by clang.",
        ),
        "copts": attr.string_list(doc = "The same by g++."),
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

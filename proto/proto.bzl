"""cc_grpc_library: C++ code of one .proto file, by the system's protoc."""

def cc_grpc_library(name, src, deps = [], service = True, visibility = None):
    """Makes the messages of a .proto file, and the stubs of its services.

    Include "proto/FILE.pb.h", and "proto/FILE.grpc.pb.h" for the services.

    Args:
      name: of the library.
      src: the .proto file, in this package.
      deps: libraries of the .proto files that it imports; their sources are
        looked for in this package.
      service: whether the file declares services.
      visibility: of the library.
    """
    stem = src[:-len(".proto")]
    outs = [stem + ".pb.h", stem + ".pb.cc"]
    flags = "--cpp_out=$(BINDIR)"
    if service:
        outs += [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
        flags += " --grpc_out=$(BINDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    native.genrule(
        name = name + "_code",
        srcs = native.glob(["*.proto"]),
        outs = outs,
        cmd = "/usr/bin/protoc -I. %s %s/%s" % (flags, native.package_name(), src),
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        copts = ["-Wno-unused-parameter"],
        visibility = visibility,
        deps = deps + ["@grpc//:grpc++", "@protobuf"],
    )

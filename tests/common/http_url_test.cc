#include "common/http_url.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace bole {
namespace {

TEST(HttpUrlTest, EveryPartIsRead) {
  const struct {
    const char* url;
    HttpUrl parsed;
    const char* authority;
  } cases[] = {
      {"http://localhost:8000/a/b?c=d",
       {.host = "localhost", .port = 8000, .path = "/a/b?c=d"},
       "localhost:8000"},
      {"http://127.0.0.1", {.host = "127.0.0.1"}, "127.0.0.1:80"},
      {"https://a-b.example/",
       {.tls = true, .host = "a-b.example", .port = 443},
       "a-b.example:443"},
      {"http://[::1]:9/x", {.host = "::1", .port = 9, .path = "/x"}, "[::1]:9"},
      {"https://[2001:db8::7]",
       {.tls = true, .host = "2001:db8::7", .port = 443},
       "[2001:db8::7]:443"},
  };
  for (const auto& [url, expected, authority] : cases) {
    const auto parsed = ParseHttpUrl(url);

    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, expected) << url;
    EXPECT_EQ(Authority(*parsed), authority);
  }
}

TEST(HttpUrlTest, WhatIsNoUrlIsNamed) {
  for (const std::string url : {"",
                                "localhost:80",
                                "ftp://a/",
                                "http://",
                                "http:///x",
                                "http://a:/",
                                "http://a:0/",
                                "http://a:65536/",
                                "http://a:+8/",
                                "http://a:8x/",
                                "http://::1/",
                                "http://[::1/",
                                "http://[]/",
                                "http://[a]/",
                                "http://[::1]8/",
                                "http://user@a/",
                                "http://a/b c",
                                "http://a/b\r\nc",
                                "http://a#b",
                                "http://a/#b",
                                "http://a?b",
                                "HTTP://a/"}) {
    const auto parsed = ParseHttpUrl(url);

    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << url;
    EXPECT_NE(parsed.status().message().find("\"" + url + "\""),
              absl::string_view::npos)
        << parsed.status();
  }
}

}  // namespace
}  // namespace bole

#include "clients/cli/live_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace bole {
namespace {

// A file that takes text and status, one behind the other as a terminal does.
class Screen {
 public:
  Screen() : file_(std::tmpfile()) {}
  ~Screen() { std::fclose(file_); }

  LiveTextOptions Options(bool text_on_terminal, bool status_on_terminal) {
    return {.text = file_,
            .status = file_,
            .text_on_terminal = text_on_terminal,
            .status_on_terminal = status_on_terminal};
  }

  std::string Read() {
    std::rewind(file_);
    char buffer[4096];
    const size_t size = std::fread(buffer, 1, sizeof(buffer), file_);
    return std::string(buffer, size);
  }

 private:
  std::FILE* file_;
};

constexpr char kMakeRoom[] = "\033D\033[A";  // For a line below the cursor's.
constexpr char kBelow[] = "\0337\033D\r";    // To that line.
constexpr char kBack[] = "\033[K\0338";      // Its rest cleared.

TEST(LiveTextTest, WithoutTerminalsThereIsTextAlone) {
  Screen screen;
  LiveText live(screen.Options(false, false));

  live.ShowStatus("waiting");
  live.Write("a\033b");
  live.ShowStatus("1 token");
  live.End();

  EXPECT_EQ(screen.Read(), "a\033b");
}

TEST(LiveTextTest, TheStatusIsBelowTheTextAndGoesBeforeTheNext) {
  Screen screen;
  LiveText live(screen.Options(true, true));

  live.Write("ab");
  live.ShowStatus("1 token");
  live.Write("c");
  live.End();

  EXPECT_EQ(screen.Read(), std::string("ab") + kMakeRoom + kBelow + "1 token" +
                               kBack + kBelow + kBack + "c\n");
}

TEST(LiveTextTest, NoStatusWhileTheNextCharacterIsToWrap) {
  Screen screen;
  LiveText live(screen.Options(true, true));

  live.Write(std::string(80, 'x'));
  live.ShowStatus("1 token");
  live.Write("\n");
  live.End();

  EXPECT_EQ(screen.Read(), std::string(80, 'x') + "\n");
}

TEST(LiveTextTest, WithTextInAFileTheStatusHasItsLine) {
  Screen screen;
  LiveText live(screen.Options(false, true));

  live.ShowStatus("1 token");
  live.ShowStatus("2 tokens");
  live.End();

  EXPECT_EQ(screen.Read(), "\r1 token\033[K\r2 tokens\033[K\r\033[K");
}

TEST(LiveTextTest, AStatusIsCutToTheWidth) {
  Screen screen;
  LiveText live(screen.Options(false, true));

  live.ShowStatus(std::string(200, 's'));

  EXPECT_EQ(screen.Read(), "\r" + std::string(79, 's') + "\033[K");
}

}  // namespace
}  // namespace bole

// Command lines: flags, arguments and commands, with --help. The library that
// reads them is compiled into command_line.cc alone.
//
// A flag keeps a reference to the value that it sets, which must outlive
// Parse(). An invalid declaration, such as the same name twice, is a bug and
// ends the program. Nothing here is thread-safe.
#ifndef BOLE_COMMON_COMMAND_LINE_H_
#define BOLE_COMMON_COMMAND_LINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace bole {

// A flag or an argument that was added to a command line, which outlives this.
// The methods refine it and can be chained. Each element of a vector is
// checked.
class Flag {
 public:
  // For numbers. Both bounds are inclusive.
  Flag Range(int low, int high);
  Flag Range(double low, double high);
  Flag Positive();
  Flag NonNegative();

  // For texts. `check` returns what is wrong with a text, or "". For a vector,
  // "a,b" means two of `texts`.
  Flag OneOf(const std::vector<std::string>& texts);
  Flag ExistingFile();
  Flag ExistingDirectory();
  Flag Check(std::function<std::string(const std::string&)> check);

  // For vectors. Without it, all arguments up to the next flag are values.
  Flag OneValueEachTime();

  Flag Required();
  Flag Needs(Flag other);
  Flag Excludes(Flag other);
  // The environment variable that has the value if the flag is not given.
  Flag Environment(const std::string& variable);
  // The heading in --help, in place of "Options".
  Flag Group(const std::string& heading);

 private:
  friend class CommandLine;

  explicit Flag(CLI::Option* option) : option_(option) {}

  CLI::Option* option_;
};

// The texts that a flag accepts, and what they mean.
template <typename E>
using Choices = std::initializer_list<std::pair<const char*, E>>;

// The command line of a program, or of one of its commands.
class CommandLine {
 public:
  // The texts are for --help.
  CommandLine(const std::string& program, const std::string& help);

  // Adds "--name", "--name,-n" or, for an argument, "NAME". What `value` holds
  // is the default, and --help shows it unless it is absent or empty. `value`
  // has one of the types of Target. Several numbers may be separated by commas.
  template <typename T>
  Flag Add(const std::string& name, T& value, const std::string& help) {
    return AddTarget(name, &value, help);
  }

  // Adds a flag without a value. "--name,!--no-name" can be given either way.
  Flag AddSwitch(const std::string& name, bool& value, const std::string& help);

  // Adds a flag whose value is one of `choices`. What `value` holds is the
  // default.
  template <typename E>
  Flag AddChoice(const std::string& name, E& value,
                 Choices<std::type_identity_t<E>> choices,
                 const std::string& help) {
    std::vector<std::string> texts;
    std::string current;
    for (const auto& [text, meaning] : choices) {
      texts.emplace_back(text);
      if (meaning == value) current = text;
    }
    const std::map<std::string, E> meanings(choices.begin(), choices.end());
    const auto set = [&value, meanings](const std::string& text) {
      value = meanings.at(text);
    };
    return AddText(name, texts, current, set, help);
  }

  // Adds a command, which lives as long as this and begins with the same
  // footer. At most one can be given.
  CommandLine& AddCommand(const std::string& name, const std::string& help);
  // Requires that a command is given.
  void RequireCommand();
  // The index of the command that was given, in the order in which they were
  // added.
  std::optional<size_t> command() const;

  // The text below everything else in --help.
  void Footer(const std::string& text);

  // Sets the values. If there is nothing to run, because help was requested or
  // an argument is wrong, prints the help or what is wrong, and returns the
  // exit status: 0 after help.
  //
  // REQUIRES: this is not the command line of a command.
  std::optional<int> Parse(int argc, const char* const* argv);

 private:
  using Target = std::variant<
      int*, uint64_t*, float*, double*, std::string*, std::optional<int>*,
      std::optional<uint64_t>*, std::optional<float>*, std::optional<double>*,
      std::optional<std::string>*, std::vector<int>*, std::vector<uint32_t>*,
      std::vector<double>*, std::vector<std::string>*>;

  explicit CommandLine(std::shared_ptr<CLI::App> app);

  Flag AddTarget(const std::string& name, Target target,
                 const std::string& help);
  Flag AddText(const std::string& name, const std::vector<std::string>& texts,
               const std::string& current,
               const std::function<void(const std::string&)>& set,
               const std::string& help);

  std::shared_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

}  // namespace bole

#endif  // BOLE_COMMON_COMMAND_LINE_H_

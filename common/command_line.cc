#include "common/command_line.h"

#include <utility>

#include "CLI/CLI.hpp"

namespace bole {
namespace {

// Whether a value says something that --help should show as the default.
template <typename T>
bool IsDefault(const T&) {
  return true;
}
template <typename T>
bool IsDefault(const std::optional<T>&) {
  return false;
}
template <typename T>
bool IsDefault(const std::vector<T>& values) {
  return !values.empty();
}
bool IsDefault(const std::string& text) { return !text.empty(); }

template <typename T>
constexpr bool kIsNumbers = false;
template <typename T>
constexpr bool kIsNumbers<std::vector<T>> = std::is_arithmetic_v<T>;

}  // namespace

Flag Flag::Range(int low, int high) {
  return Flag(option_->check(CLI::Range(low, high)));
}

Flag Flag::Range(double low, double high) {
  return Flag(option_->check(CLI::Range(low, high)));
}

Flag Flag::Positive() { return Flag(option_->check(CLI::PositiveNumber)); }

Flag Flag::NonNegative() {
  return Flag(option_->check(CLI::NonNegativeNumber));
}

Flag Flag::OneOf(const std::vector<std::string>& texts) {
  if (option_->get_expected_max() > 1) option_->delimiter(',');
  return Flag(option_->check(CLI::IsMember(texts)));
}

Flag Flag::ExistingFile() { return Flag(option_->check(CLI::ExistingFile)); }

Flag Flag::ExistingDirectory() {
  return Flag(option_->check(CLI::ExistingDirectory));
}

Flag Flag::Check(std::function<std::string(const std::string&)> check) {
  return Flag(option_->check(std::move(check)));
}

Flag Flag::OneValueEachTime() { return Flag(option_->allow_extra_args(false)); }

Flag Flag::Required() { return Flag(option_->required()); }

Flag Flag::Needs(Flag other) { return Flag(option_->needs(other.option_)); }

Flag Flag::Excludes(Flag other) {
  return Flag(option_->excludes(other.option_));
}

Flag Flag::Environment(const std::string& variable) {
  return Flag(option_->envname(variable));
}

Flag Flag::Group(const std::string& heading) {
  return Flag(option_->group(heading));
}

CommandLine::CommandLine(const std::string& program, const std::string& help)
    : CommandLine(std::make_shared<CLI::App>(help, program)) {}

CommandLine::CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {
  app_->require_subcommand(/*min=*/0, /*max=*/1);
}

Flag CommandLine::AddTarget(const std::string& name, Target target,
                            const std::string& help) {
  const auto add = [&](auto* value) {
    CLI::Option* option = app_->add_option(name, *value, help);
    if (IsDefault(*value)) option->capture_default_str();
    if (kIsNumbers<std::decay_t<decltype(*value)>>) option->delimiter(',');
    return Flag(option);
  };
  return std::visit(add, target);
}

Flag CommandLine::AddSwitch(const std::string& name, bool& value,
                            const std::string& help) {
  return Flag(app_->add_flag(name, value, help));
}

Flag CommandLine::AddText(const std::string& name,
                          const std::vector<std::string>& texts,
                          const std::string& current,
                          const std::function<void(const std::string&)>& set,
                          const std::string& help) {
  CLI::IsMember is_one(texts);
  const std::string type = is_one.get_description();
  return Flag(app_->add_option_function<std::string>(name, set, help)
                  ->check(is_one.description(""))
                  ->type_name(type)
                  ->default_str(current));
}

CommandLine& CommandLine::AddCommand(const std::string& name,
                                     const std::string& help) {
  CLI::App* command = app_->add_subcommand(name, help);
  commands_.push_back(std::unique_ptr<CommandLine>(
      new CommandLine(app_->get_subcommand_ptr(command))));
  return *commands_.back();
}

void CommandLine::RequireCommand() { app_->require_subcommand(1); }

std::optional<size_t> CommandLine::command() const {
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i]->app_->parsed()) return i;
  }
  return std::nullopt;
}

void CommandLine::Footer(const std::string& text) { app_->footer(text); }

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error);
  }
  return std::nullopt;
}

}  // namespace bole

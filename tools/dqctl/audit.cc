#include "audit.h"

#include <delayqueue/error.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "context.h"
#include "filter.h"
#include "output/text.h"

namespace dqctl {
namespace {

constexpr std::size_t kWhatBytes = 1000;  // the library cuts at 1,024; this leaves room for the mark of a cut text

std::string command_line(const std::vector<std::string>& words) {
  std::string text = "dqctl";
  for (const std::string& word : words) text += ' ' + in_quotes(word);
  if (text.size() <= kWhatBytes) return text;
  return whole_characters(text.substr(0, kWhatBytes)) + "…";
}

}  // namespace

std::string operator_name() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return (found == nullptr ? std::to_string(::geteuid()) : std::string(found->pw_name)) + '@' + host.data();
}

std::string record_action(delayqueue::QueueAdmin& admin, const delayqueue::Action& action) {
  try {
    admin.record(action);
    return "";
  } catch (const delayqueue::Error& error) {
    return error.what();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string record_change(Context& context, const Change& change, const std::string& outcome, const std::string& what) {
  delayqueue::Action action;
  action.who = operator_name();
  action.messages = change.messages;
  action.outcome = change.unconfirmed > 0 ? "unconfirmed" : outcome;
  action.what = what;
  return record_action(context.admin(change.queue), action);
}

void record_changes(Context& context, const std::vector<std::string>& words, const std::string& outcome) {
  if (!context.audits()) return;
  const std::string what = command_line(words);
  for (const Change& change : context.changes()) {
    const std::string error = record_change(context, change, outcome, what);
    if (error.empty()) continue;
    context.out().stderr_line("warning: the change of " + in_quotes(change.queue) +
                              " was made, but it could not be recorded for dqctl actions: " + printable(error));
  }
}

}  // namespace dqctl

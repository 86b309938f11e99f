#include "serve/change_request.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <utility>

#include "output/text.h"
#include "read_json.h"
#include "serve/request.h"

namespace dqctl {
namespace {

using delayqueue::State;

constexpr std::size_t kLongestFieldText = 1024;            // bytes
constexpr std::uint64_t kLongestSpan = 3'153'600'000'000;  // 100 years, in ms
constexpr std::uint64_t kMostMessages = 1'000'000'000;

constexpr std::array<std::pair<Action, const char*>, 8> kActions = {{{Action::pause, "pause"},
                                                                     {Action::resume, "resume"},
                                                                     {Action::redrive, "redrive"},
                                                                     {Action::purge, "purge"},
                                                                     {Action::release, "release"},
                                                                     {Action::cancel, "cancel"},
                                                                     {Action::reschedule, "reschedule"},
                                                                     {Action::redrive_one, "redrive"}}};

bool is_by_id(Action action) {
  return action == Action::release || action == Action::cancel || action == Action::reschedule ||
         action == Action::redrive_one;
}

// The fields of a JSON object: those that are known.
class Fields {
 public:
  Fields(const std::string& body, std::initializer_list<const char*> known) : object_(object_in(body)) {
    for (const auto& [name, value] : object_.fields()) {
      const bool is_known =
          std::any_of(known.begin(), known.end(), [&name = name](const char* one) { return name == one; });
      if (!is_known) throw HttpError(400, "the body has the unknown field " + cut(in_quotes(name), 60));
    }
    if (const std::string* const name = object_.repeated()) {
      throw HttpError(400, "the body has the field " + in_quotes(*name) + " twice; expected it once");
    }
  }

  bool has(const char* name) const { return object_.find(name) != nullptr; }

  bool flag(const char* name, bool otherwise) const {
    const JsonValue* const value = object_.find(name);
    if (value == nullptr) return otherwise;
    if (!value->is(JsonValue::Kind::boolean)) wrong(name, *value, "true or false");
    return value->written() == "true";
  }

  std::optional<std::uint64_t> number(const char* name, std::uint64_t least, std::uint64_t most) const {
    const JsonValue* const value = object_.find(name);
    if (value == nullptr) return std::nullopt;
    const auto number = value->whole_number(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most));
    if (!number) wrong(name, *value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<std::uint64_t>(*number);
  }

  std::optional<std::string> text(const char* name) const {
    const JsonValue* const value = object_.find(name);
    if (value == nullptr) return std::nullopt;
    std::optional<std::string> text = value->text();
    if (!text) wrong(name, *value, value->is(JsonValue::Kind::text) ? kWholeText : "a text");
    if (text->size() > kLongestFieldText) {
      throw HttpError(400, std::string(name) + ": " + counted(text->size(), "byte") + "; expected at most 1,024");
    }
    return text;
  }

 private:
  static JsonValue object_in(const std::string& body) {
    auto parsed = read_json(body);
    if (!parsed || !parsed->is(JsonValue::Kind::object)) {
      throw HttpError(400, "cannot read the body; expected a JSON object");
    }
    return std::move(*parsed);
  }

  [[noreturn]] static void wrong(const char* name, const JsonValue& value, const std::string& expected) {
    const std::string given(value.written().substr(0, 240));
    throw HttpError(400, std::string(name) + ": " + cut(printable(given), 60) + "; expected " + expected);
  }

  const JsonValue object_;
};

Fields fields_of(Action action, const std::string& body) {
  switch (action) {
    case Action::pause:
      return Fields(body, {"dry_run", "reason", "for_ms", "replace"});
    case Action::redrive:
      return Fields(body, {"dry_run", "reason", "older_than_ms", "retries", "at_most", "cursor"});
    case Action::purge:
      return Fields(body, {"dry_run", "state", "reason", "older_than_ms", "at_most", "cursor"});
    case Action::reschedule:
      return Fields(body, {"dry_run", "delay_ms", "at"});
    case Action::redrive_one:
      return Fields(body, {"dry_run", "retries"});
    case Action::resume:
    case Action::release:
    case Action::cancel:
      break;
  }
  return Fields(body, {"dry_run"});
}

std::optional<milliseconds> span_of(const Fields& fields, const char* name, std::uint64_t least) {
  const auto ms = fields.number(name, least, kLongestSpan);
  if (!ms) return std::nullopt;
  return milliseconds(static_cast<milliseconds::rep>(*ms));
}

When when_of(const Fields& fields) {
  if (fields.has("delay_ms") == fields.has("at")) throw HttpError(400, "delay_ms and at: expected one of them");
  if (const auto delay = span_of(fields, "delay_ms", 0)) return {std::nullopt, *delay};
  const std::string at = *fields.text("at");
  const When when = parse_when("at", at);
  if (!when.at)
    throw HttpError(400, "at: " + cut(in_quotes(at), 60) + "; expected a time such as 2026-11-21T19:36:45Z");
  return when;
}

State state_of(const Fields& fields) {
  const auto text = fields.text("state");
  if (!text) throw HttpError(400, "state: missing; expected pending, ready, retry or dead");
  const State state = parse_state("state", *text);
  if (state != State::unack) return state;
  throw HttpError(400,
                  "state: unack; expected pending, ready, retry or dead; messages in unack are cancelled one by one");
}

}  // namespace

const char* to_string(Action action) {
  for (const auto& [one, name] : kActions) {
    if (one == action) return name;
  }
  return "";
}

std::optional<Action> action_of(const std::string& name, bool by_id) {
  for (const auto& [one, text] : kActions) {
    if (name == text && is_by_id(one) == by_id) return one;
  }
  return std::nullopt;
}

ChangeRequest parse_change(Action action, const std::string& body) {
  const Fields fields = fields_of(action, body);
  ChangeRequest change;
  change.action = action;
  if (!fields.has("dry_run")) throw HttpError(400, "dry_run: missing; expected true first, then false");
  change.dry_run = fields.flag("dry_run", true);
  if (action == Action::pause) {
    change.reason = fields.text("reason").value_or("");
    change.span = span_of(fields, "for_ms", 1);
    change.replace = fields.flag("replace", false);
  }
  if (action == Action::reschedule) change.when = when_of(fields);
  if (action == Action::redrive || action == Action::redrive_one) {
    change.retries = static_cast<int>(fields.number("retries", 0, std::numeric_limits<int>::max()).value_or(3));
  }
  if (action == Action::purge) change.state = state_of(fields);
  if (action == Action::redrive || action == Action::purge) {
    change.match = fields.text("reason");
    change.older_than = span_of(fields, "older_than_ms", 0);
    change.at_most = fields.number("at_most", 1, kMostMessages).value_or(0);
    change.cursor = fields.text("cursor");
    if (!change.dry_run && change.at_most == 0) {
      throw HttpError(400, "at_most: missing; expected the number of messages that the dry run has found");
    }
  }
  return change;
}

}  // namespace dqctl

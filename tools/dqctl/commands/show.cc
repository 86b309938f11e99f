// dqctl show
#include <algorithm>

#include "acting.h"
#include "commands.h"
#include "filter.h"
#include "holders.h"
#include "lines.h"
#include "read_json.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::State;

constexpr std::size_t kShownText = 4096;  // bytes

struct ShowArgs {
  std::string queue{};
  std::vector<std::string> ids{};
  std::optional<std::string> key{};
  std::string payload = "text";
  bool everywhere = false;
};

std::string hex_dump(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 16) {
    const std::string_view part = bytes.substr(i, 16);
    char offset[24];
    std::snprintf(offset, sizeof offset, "%08zx ", i);
    std::string line = offset;
    std::string text;
    for (std::size_t j = 0; j < 16; ++j) {
      line += (j % 8 == 0 ? " " : "") + (j < part.size() ? hex(part.substr(j, 1)) + ' ' : "   ");
      if (j < part.size()) text += part[j] >= 32 && part[j] < 127 ? part[j] : '.';
    }
    out.append(line).append(" |").append(text).append("|\n");
  }
  return out;
}

// Keeps line breaks, and escapes everything else that is not text.
std::string text_of(std::string_view bytes) {
  const bool is_cut = bytes.size() > kShownText;
  const std::string shown = is_cut ? whole_characters(std::string(bytes.substr(0, kShownText))) : std::string(bytes);
  std::string out;
  std::size_t begin = 0;
  while (begin < shown.size()) {
    const std::size_t end = std::min(shown.find('\n', begin), shown.size());
    out += printable(std::string_view(shown).substr(begin, end - begin)) + '\n';
    begin = end + 1;
  }
  if (is_cut) out += "… " + counted(bytes.size() - shown.size(), "more byte") + ": --payload raw shows all\n";
  return out;
}

// Unset: not JSON.
std::optional<std::string> json_of(std::string_view bytes, int indent) {
  const auto value = read_json(bytes);
  return value ? std::optional(json_escaped(json_text(*value, indent))) : std::nullopt;
}

// The label of the time: "due", "lease ends" ...
class Sheet {
 public:
  Sheet(Output& out, Time now) : out_(out), now_(now) {}

  void line(const std::string& name, const std::string& text, Colour colour = Colour::plain) {
    out_.line(name + std::string(14 - std::min<std::size_t>(13, name.size()), ' ') + out_.paint(colour, text));
  }

  void time(const std::string& name, const std::optional<Time>& when, bool has_happened) {
    if (!when) return;
    line(name, out_.time(*when) + " (" + (has_happened ? since_text(*when, now_) : ago_text(*when, now_)) + ")");
  }

 private:
  Output& out_;
  const Time now_;
};

void write_payload(Output& out, const MessageInfo& message, const std::string& form) {
  if (form == "hex") return out.write(hex_dump(message.payload));
  if (form == "json") {
    if (const auto text = json_of(message.payload, 2)) return out.write(text_of(*text));
    out.stderr_line("the payload of " + in_quotes(message.id) + " is no JSON, or nested deeper than " +
                    std::to_string(kDeepestJson) + " levels");
  }
  out.write(text_of(message.payload));
}

// Finds out who holds messages. Reads the registry of the queue's consumers once.
class HolderSearch {
 public:
  HolderSearch(Context& context, const std::string& queue) : context_(context), queue_(queue) {}

  // Null: no consumer names the message among those that run for longest.
  const HeldMessage* of(const MessageInfo& message) {
    if (!message.held) return nullptr;
    if (!held_) held_ = held_messages(registered_workers(context_.inspector(queue_)));
    const auto found =
        std::find_if(held_->begin(), held_->end(), [&](const HeldMessage& one) { return one.id == message.id; });
    return found == held_->end() ? nullptr : &*found;
  }

 private:
  Context& context_;
  const std::string queue_;
  std::optional<std::vector<HeldMessage>> held_{};
};

void write_sheet(Output& out, const MessageInfo& message, const ShowArgs& args, Time now, const HeldMessage* holder) {
  Sheet sheet(out, now);
  sheet.line("id", printable(message.id), Colour::bold);
  if (message.partition > 0) sheet.line("partition", std::to_string(message.partition));
  const bool backoff = message.state == State::unack && !message.held;
  sheet.line("state", std::string(delayqueue::to_string(message.state)) + (message.held ? ", in flight"
                                                                           : backoff    ? ", waiting out a backoff"
                                                                                        : ""));
  if (holder != nullptr) sheet.line("held by", place_text(holder->worker));
  if (holder != nullptr) sheet.time(holder->fetching ? "payload since" : "handler began", holder->since, true);
  sheet.time(time_name(message), message.at, message.state == State::dead);
  sheet.time("sent", message.sent, true);
  const bool in_list = message.state == State::ready || message.state == State::retry;
  sheet.line("deliveries", in_list && message.deliveries == 0 ? "0 or 1" : std::to_string(message.deliveries));
  if (message.state != State::dead) {
    sheet.line("retries left", message.retries ? std::to_string(*message.retries) : "none recorded: it was cancelled",
               message.retries ? Colour::plain : Colour::yellow);
  }
  if (!message.key.empty()) sheet.line("unique key", printable(message.key));
  if (!message.reason.empty()) sheet.line("reason", printable(message.reason), Colour::red);
  if (message.ttl) sheet.line("expires", "in " + span_text(*message.ttl));
  for (const auto& [name, value] : message.headers) sheet.line("header", printable(name) + '=' + printable(value));
  if (message.headers_damaged) {
    sheet.line("headers", "damaged, or of a later version: it is delivered without them", Colour::red);
  }
  if (!message.size) return sheet.line("payload", "missing: it expired, or was deleted", Colour::red);
  sheet.line("payload", size_text(*message.size));
  write_payload(out, message, args.payload);
}

Object object_of(const HeldMessage& held) {
  const delayqueue::Worker& worker = held.worker;
  Object object;
  object.add("consumer", worker.consumer).add("name", worker.name).add("host", worker.host).add("pid", worker.pid);
  return object.add("since", held.since);
}

Object document_of(const MessageInfo& message, const std::string& form, const HeldMessage* holder) {
  Object object = message_object(message, "payload");
  holder != nullptr ? object.add("held_by", object_of(*holder)) : object.add_null("held_by");
  if (!message.size) return object;
  if (form == "hex") object.add("payload_hex", hex(message.payload));
  if (form == "json") {
    const auto text = json_of(message.payload, -1);
    text ? object.add_json("payload_json", *text) : object.add_null("payload_json");
  }
  return object;
}

// The message with this id; none, or with --everywhere several: one in each partition that has one.
std::vector<MessageInfo> find(Context& context, const ShowArgs& args, const std::string& id) {
  if (args.everywhere) return context.inspector(args.queue).find_everywhere(id);
  std::vector<MessageInfo> found;
  if (auto message = context.inspector(args.queue).find(id)) found.push_back(std::move(*message));
  return found;
}

Exit show_raw(Context& context, const ShowArgs& args) {
  if (args.ids.size() != 1) throw Usage("--payload: raw is for one message; expected one ID");
  const std::vector<MessageInfo> found = find(context, args, args.ids.front());
  if (found.empty())
    throw Failure(Exit::not_found, "no message " + in_quotes(args.ids.front()) + " in " + in_quotes(args.queue));
  const MessageInfo& message = found.front();
  if (found.size() > 1) {
    throw Usage(
        "--payload: raw is for one message, and several partitions have one with this ID; expected --partition " +
        std::to_string(message.partition) + " or another one");
  }
  if (!message.size) throw Failure(Exit::not_found, "the payload of " + in_quotes(message.id) + " is missing");
  context.out().write(message.payload);
  return Exit::done;
}

Exit show(Context& context, const ShowArgs& args) {
  Output& out = context.out();
  for (const std::string& id : args.ids) {
    if (!is_id(id)) throw Usage("ID: " + in_quotes(id) + "; expected a UUID");
  }
  const Time now = context.counts(args.queue).now;
  if (args.payload == "raw") return show_raw(context, args);
  std::size_t found = 0;
  std::vector<std::string> missing;
  HolderSearch holders(context, args.queue);
  const bool document = out.format() == Format::json;
  if (document) out.begin_list(Object().add("queue", args.queue), "messages");
  for (const std::string& id : args.ids) {
    if (interrupted()) break;
    const std::vector<MessageInfo> messages = find(context, args, id);
    if (messages.empty()) missing.push_back(id);
    for (const MessageInfo& message : messages) {
      ++found;
      if (out.is_table()) {
        if (found > 1) out.line("");
        write_sheet(out, message, args, now, holders.of(message));
      } else {
        const Object object = document_of(message, args.payload, holders.of(message));
        document ? out.element(object) : out.object(object);
      }
    }
  }
  if (document) out.end_list(Object().add("missing", missing));
  for (const std::string& id : missing) out.stderr_line("no message " + in_quotes(id) + " in " + in_quotes(args.queue));
  if (interrupted()) return found == 0 ? Exit::interrupted : Exit::partly;
  return missing.empty() ? Exit::done : found == 0 ? Exit::not_found : Exit::partly;
}

}  // namespace

void add_show(Cli& cli, Context& context) {
  const auto args = std::make_shared<ShowArgs>();
  Command& command = cli.add("show", "Shows everything known about messages",
                             {"show orders 01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55",
                              "show orders 01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55 --payload raw > body"});
  command.argument("QUEUE", args->queue, "Its name")
      .arguments("ID", args->ids, "Ids of the messages", false)
      .text("--key", args->key, "KEY", "In place of ids: the message that has this unique key")
      .choice("--payload", args->payload, {"text", "hex", "json", "raw"}, "How to show it; raw: only its bytes (text)")
      .flag("--everywhere", args->everywhere, "Search all partitions, not only the one that an id names");
  add_partition(command, context);
  command.run([&context, args] {
    args->ids = ids_named(context, args->queue, args->ids, args->key);
    return show(context, *args);
  });
}

}  // namespace dqctl

// dqctl send
#include <delayqueue/error.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "acting.h"
#include "commands.h"
#include "lines.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::OutgoingMessage;
using delayqueue::Producer;
using delayqueue::SendOptions;
using delayqueue::SendResult;
using delayqueue::Sent;

const std::size_t most_payload = delayqueue::ProducerOptions().max_payload;
const std::size_t longest_draft = 6 * most_payload + 64 * 1024;  // every byte as \u0000, and the other fields

struct SendArgs {
  std::string queue{};
  std::optional<std::string> payload{};
  std::string payload_text{};
  std::optional<std::string> file{};
  std::optional<When> when{};
  std::optional<int> retries{};
  std::optional<milliseconds> ttl{};
  std::optional<std::string> id{};
  delayqueue::Headers headers{};
  std::optional<std::string> key{};
  std::string on_conflict{};
  bool ignores_in_flight = false;
  std::optional<milliseconds> window{}, max_wait{};
};

SendOptions options_of(const SendArgs& args) {
  SendOptions options;
  if (args.when) {
    options.delay = args.when->delay;
    options.at = args.when->at;
  }
  options.retries = args.retries;
  options.ttl = args.ttl;
  options.id = args.id.value_or("");
  options.headers = args.headers;
  options.unique.key = args.key.value_or("");
  if (!args.on_conflict.empty()) options.unique.on_conflict = conflict_in(args.on_conflict).value();
  options.unique.while_in_flight = !args.ignores_in_flight;
  options.unique.window = args.window.value_or(milliseconds(0));
  options.unique.max_wait = args.max_wait;
  return options;
}

void add_header(delayqueue::Headers& headers, const std::string& given) {
  const std::size_t end = given.find('=');
  if (end == std::string::npos) throw Usage("--header: " + in_quotes(given) + "; expected NAME=VALUE");
  const std::string name = given.substr(0, end);
  if (headers.find(name) != nullptr) throw Usage("--header: " + in_quotes(name) + " is there twice");
  try {
    headers.set(name, given.substr(end + 1));
  } catch (const std::invalid_argument& error) {
    throw Usage(std::string("--header: ") + error.what());
  }
}

std::string all_of_stdin() {
  std::string all;
  char some[65536];
  while (!interrupted()) {
    const auto n = ::read(STDIN_FILENO, some, sizeof some);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string reason = std::generic_category().message(errno);
      throw Failure(Exit::failed, "'stdin' cannot be read: " + reason + "; nothing was sent");
    }
    all.append(some, static_cast<std::size_t>(n));
    if (all.size() > most_payload) {
      throw Usage("PAYLOAD: stdin holds more than " + count_text(most_payload) +
                  " bytes, the most a message may have; store it elsewhere, and send its place");
    }
  }
  // After a signal, stdin may have ended because the same signal ended the program that writes it.
  if (interrupted()) throw Failure(Exit::interrupted, "stdin: not read to its end; nothing was sent");
  return all;
}

bool is_cancelled(const Sent& sent) { return sent.result == delayqueue::SendResult::cancelled; }

Exit send_one(Context& context, const SendArgs& args) {
  Output& out = context.out();
  OutgoingMessage message;
  message.payload = args.payload_text == "-" ? all_of_stdin() : args.payload_text;
  message.options = options_of(args);
  Producer& producer = context.producer(args.queue);
  const Sent sent = producer.send(message.payload, message.options);
  if (!out.is_table()) {
    Object object;
    object.add("queue", args.queue)
        .add("id", sent.id)
        .add("result", to_string(sent.result))
        .add("created", sent.created())
        .add("cancelled", is_cancelled(sent));
    if (is_cancelled(sent)) object.add("error", held_text("send", sent.id));
    out.object(object);
  } else if (!is_cancelled(sent)) {
    out.line(sent.id);
  }
  if (is_cancelled(sent)) {
    out.stderr_line(held_text("send", sent.id));
    return Exit::failed;
  }
  if (sent.result == SendResult::existed) {
    out.stderr_line("a message with this id is alive already; it was left as it is");
  } else if (sent.result == SendResult::kept) {
    out.stderr_line("a message with this key is there already, or its window is not over; nothing was sent");
  } else if (sent.result == SendResult::replaced) {
    out.stderr_line("the message with this key was replaced");
  }
  return Exit::done;
}

class Stream {
 public:
  Stream(Context& context, const SendArgs& args)
      : out_(context.out()),
        producer_(context.producer(args.queue)),
        queue_(args.queue),
        options_(options_of(args)),
        lines_(*args.file, longest_draft) {}

  Exit run() {
    steps_ = in_steps(out_, "sent", 0, [&]() -> std::optional<std::uint64_t> {
      if (!read()) return std::nullopt;
      const std::uint64_t cancelled = cancelled_;
      send();
      const std::uint64_t count = drafts_.size() - (cancelled_ - cancelled);
      last_sent_ = lines_.number();
      return count;
    });
    return finish();
  }

 private:
  // False: there is nothing to send.
  bool read() {
    drafts_.clear();
    numbers_.clear();
    constexpr std::size_t kBatch = 1000;
    constexpr std::size_t kBatchBytes = 4U << 20U;
    std::string line;
    for (std::size_t bytes = 0; drafts_.size() < kBatch && bytes < kBatchBytes;) {
      try {
        if (!lines_.next(line)) break;
        drafts_.push_back(draft_in(line, options_));
        numbers_.push_back(lines_.number());
        bytes += drafts_.back().payload.size();
      } catch (const BadLine& error) {
        fail(error.what());
      }
    }
    return !drafts_.empty() && !interrupted();
  }

  void send() {
    std::vector<Sent> sent;
    try {
      sent = producer_.send_batch(drafts_);
    } catch (const std::invalid_argument&) {  // one of them is invalid
      return send_singly();
    }
    for (std::size_t i = 0; i < sent.size(); ++i) record(numbers_[i], sent[i]);
  }

  void send_singly() {
    std::vector<OutgoingMessage> good;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      try {
        record(numbers_[i], producer_.send(drafts_[i].payload, drafts_[i].options));
        good.push_back(drafts_[i]);
      } catch (const std::invalid_argument& error) {
        fail(error.what(), numbers_[i]);
      }
    }
    drafts_ = std::move(good);
  }

  void record(std::uint64_t line, const Sent& sent) {
    if (is_cancelled(sent)) {
      ++cancelled_;
      fail(held_text("send", sent.id), line);
    } else if (sent.result == SendResult::existed) {
      ++existed_;
    } else if (sent.result == SendResult::kept) {
      ++kept_;
    } else if (sent.result == SendResult::replaced) {
      ++replaced_;
    }
    if (out_.format() != Format::ndjson) return;
    Object object;
    object.add("line", line).add("id", sent.id).add("result", to_string(sent.result));
    object.add("created", sent.created()).add("cancelled", is_cancelled(sent));
    out_.object(object);
  }

  void fail(const std::string& what, std::uint64_t line = 0) {
    constexpr std::size_t kErrorsKept = 100;
    ++failed_;
    if (line == 0) line = lines_.number();
    out_.stderr_line("line " + std::to_string(line) + ": " + printable(what));
    if (errors_.size() < kErrorsKept) errors_.push_back(Object().add("line", line).add("error", printable(what)));
  }

  Exit finish() {
    const bool stopped = steps_.interrupted || !steps_.error.empty();
    if (stopped) {
      out_.stderr_line("lines after " + std::to_string(last_sent_) +
                       " were not sent, or it is not known; to send them: tail -n +" + std::to_string(last_sent_ + 1) +
                       ". Lines with an id of their own may be sent again");
    }
    if (out_.is_table()) {
      out_.line("sent " + counted(steps_.done, "message") + " to " + in_quotes(queue_) +
                (existed_ > 0 ? ", " + count_text(existed_) + " of them existed" : "") +
                (kept_ > 0 ? ", " + count_text(kept_) + " were not stored, since others had their keys" : "") +
                (replaced_ > 0 ? ", " + count_text(replaced_) + " replaced others with their keys" : "") +
                (failed_ > 0 ? "; " + counted(failed_, "line") + " failed" : ""));
    } else if (out_.format() == Format::json) {
      Object object;
      object.add("queue", queue_).add("sent", steps_.done).add("existed", existed_).add("kept", kept_);
      object.add("replaced", replaced_).add("cancelled", cancelled_);
      object.add("failed", failed_).add("errors", errors_);
      add_ending(object, steps_);
      out_.object(object);
    }
    return steps_.code(failed_ > 0);
  }

  Output& out_;
  Producer& producer_;
  const std::string queue_;
  const SendOptions options_;
  LineReader lines_;
  Steps steps_{};
  std::vector<OutgoingMessage> drafts_{};
  std::vector<std::uint64_t> numbers_{};  // line numbers of the messages
  std::vector<Object> errors_{};
  std::uint64_t existed_ = 0, kept_ = 0, replaced_ = 0, cancelled_ = 0, failed_ = 0, last_sent_ = 0;
};

Exit send(Context& context, const SendArgs& args) {
  const bool given = !args.payload_text.empty() || args.payload;
  if (args.file && given) throw Usage("PAYLOAD and --ndjson: expected one of them");
  if (args.file && args.id) throw Usage("--id: every message of --ndjson needs its own; expected \"id\" in its line");
  if (args.file && args.key) {
    throw Usage("--key: every message of --ndjson needs its own; expected \"key\" in its line");
  }
  if (args.file) return Stream(context, args).run();
  if (!given) throw Usage("PAYLOAD: missing; expected a text ('' is the empty one), - for stdin, or --ndjson FILE");
  return send_one(context, args);
}

}  // namespace

void add_send(Cli& cli, Context& context) {
  const auto args = std::make_shared<SendArgs>();
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto take = [args](const char* name) {
    return [args, name](const std::string& value) {
      if (args->when) throw Usage("--delay and --at: expected one of them");
      const bool at = std::string(name) == "--at";
      args->when = at ? parse_when(name, value) : When{std::nullopt, parse_duration(name, value)};
    };
  };
  cli.add("send", "Sends a message, or one for every line of a file; prints its id",
          {"send orders 'order 42' --delay 15m", "send orders - --id 0197f3a4-5b6c-7d8e-9f01-23456789abcd < order.bin",
           "send orders --ndjson - < file  # {\"payload\": \"order 42\", \"delay\": \"15m\"}"})
      .argument("QUEUE", args->queue, "The queue; it comes into being with its first message")
      .arguments("PAYLOAD", *words, "The payload; - for all of stdin", false)
      .text("--ndjson", args->file, "FILE",
            "One message a line (- for stdin): payload or payload_base64; optional: id, delay or at, retries, ttl, "
            "headers, key, on_conflict, while_in_flight, window, max_wait")
      .custom("--delay", take("--delay"), "D", "Due this long from now, by Redis' clock")
      .custom("--at", take("--at"), "TIME", "Due then")
      .custom(
          "--retries",
          [args](const std::string& value) {
            args->retries = static_cast<int>(parse_number("--retries", value, 0, 2'147'483'647));
          },
          "N", "Deliveries after the first (3)")
      .duration("--ttl", args->ttl, "How long after its due time it may still be delivered (for ever)")
      .custom(
          "--header", [args](const std::string& value) { add_header(args->headers, value); }, "NAME=VALUE",
          "A header; may be given several times")
      .repeatable()
      .text("--id", args->id, "UUID", "Its id; no second message is stored while one with this id is alive")
      .text("--key", args->key, "KEY", "Its unique key; while a message has it, --on-conflict says what happens")
      .choice("--on-conflict", args->on_conflict, {"keep", "replace", "postpone"},
              "keep it, replace its payload and headers, or postpone it, too (keep)")
      .flag("--ignore-in-flight", args->ignores_in_flight, "With keep: a message that a consumer holds does not count")
      .duration("--window", args->window, "With keep: it counts so long after its send, also if it is gone")
      .duration("--max-wait", args->max_wait, "With postpone: at most so long after the first send")
      .run([&context, args, words] {
        if (words->size() > 1) {
          throw Usage("PAYLOAD: " + std::to_string(words->size()) + " words; expected one, in quotes");
        }
        if (!words->empty()) args->payload = args->payload_text = words->front();
        if (args->key && args->key->empty()) throw Usage("--key: empty; expected 1 to 128 bytes");
        if (args->id && !is_id(*args->id)) throw Usage("--id: " + in_quotes(*args->id) + "; expected a UUID");
        return send(context, *args);
      });
}

}  // namespace dqctl
